"""The moves of a dapp and of a wallet, one method for each endpoint of the bridge."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.support.asking import Answer, Headers, ServerClient


@dataclass(frozen=True, slots=True)
class BridgeClient(ServerClient):
    """Paths that are awkward to spell are the test's own business."""

    path: str = ""
    """The prefix of the bridge's paths."""

    async def get(self, path: str, headers: Headers = None) -> Answer:
        return await self.ask("GET", self.path + path, headers=headers)

    async def send(self, method: str, path: str, fields: Mapping[str, Any]) -> Answer:
        return await self.ask(method, self.path + path, fields)

    async def open_session(self) -> str:
        return await self.server.open_session()

    async def update(self, session_id: str, payload: Any = "approval", **more: Any) -> Answer:
        return await self.send("PUT", f"/session/{session_id}", {"encryptionPayload": payload, **more})

    async def session(self, session_id: str) -> Answer:
        return await self.get(f"/session/{session_id}")

    async def end(self, session_id: str) -> Answer:
        return await self.ask("DELETE", f"{self.path}/session/{session_id}")

    async def post_call(self, session_id: str, payload: Any = "call", dapp_name: Any = "Dapp") -> Answer:
        fields = {"encryptionPayload": payload, "dappName": dapp_name}
        return await self.send("POST", f"/session/{session_id}/call/new", fields)

    async def request_call(self, session_id: str, payload: Any = "call", dapp_name: str = "Dapp") -> str:
        return str((await self.post_call(session_id, payload, dapp_name)).json["callId"])

    async def calls(self, session_id: str) -> Answer:
        return await self.get(f"/session/{session_id}/calls")

    async def pending(self, session_id: str) -> list[str]:
        """The ids of the calls that have no status, in the order of the answer."""
        return list((await self.calls(session_id)).json)

    async def call(self, session_id: str, call_id: str) -> Answer:
        return await self.get(f"/session/{session_id}/call/{call_id}")

    async def answer(self, call_id: str, payload: Any = "status") -> Answer:
        return await self.send("POST", f"/call-status/{call_id}/new", {"encryptionPayload": payload})

    async def status(self, call_id: str) -> Answer:
        return await self.get(f"/call-status/{call_id}")

    async def subscribe(self, topic: Any, webhook: Any) -> Answer:
        return await self.send("POST", "/subscribe", {"topic": topic, "webhook": webhook})
