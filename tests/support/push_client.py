"""The moves of a wallet that wants pushes, and of the bridge that causes them."""

from dataclasses import dataclass
from typing import Any

import orjson

from tests.support.asking import Answer, Headers, ServerClient, ask

TOPIC = "5f9c55ec-102a-45ab-a679-b264d7cdc261"


@dataclass(frozen=True, slots=True)
class PushClient(ServerClient):
    """Speaks to one server's push server."""

    def fields(self, **fields: Any) -> dict[str, Any]:
        """A sound body of POST /new but for these fields; its bridge is the server itself."""
        sound = {"bridge": self.server.url, "topic": TOPIC, "type": "log", "token": "token"}
        return {**sound, "peerName": "Dapp", "language": "en", **fields}

    async def post(self, path: str, fields: Any, headers: Headers = None) -> Answer:
        body = fields if isinstance(fields, bytes) else orjson.dumps(fields)
        return await ask(self.server, "POST", path, body, headers)

    async def register(self, **fields: Any) -> Answer:
        return await self.post("/new", self.fields(**fields))

    async def push(self, topic: str = TOPIC, message_id: str | None = None) -> Answer:
        headers = {} if message_id is None else {"webhook-id": message_id}
        return await self.post("/push", {"topic": topic}, headers)

    def registrations(self, columns: str = "topic, channel, url") -> list[tuple[Any, ...]]:
        return self.server.rows(f"SELECT {columns} FROM push_registrations ORDER BY id")

    def webhooks(self) -> list[tuple[Any, ...]]:
        """The webhooks that the server's own bridge was asked to call."""
        return self.server.rows("SELECT topic, webhook FROM topic_webhooks ORDER BY topic, webhook")
