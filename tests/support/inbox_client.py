"""The moves of an account: it signs in, subscribes, reads."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from tests.support.asking import Answer, ask
from tests.support.server import RunningServer
from tests.support.wallet import Wallet


async def get_nonce(server: RunningServer) -> str:
    """A nonce that is good for one sign-in."""
    nonce: str = (await ask(server, "POST", "/inbox/nonce")).json["nonce"]
    return nonce


def sound_fields(server: RunningServer, nonce: str) -> dict[str, Any]:
    """A sign-in message that this server accepts now."""
    domain = server.url.removeprefix("http://")
    issued_at_ms = server.clock.now_ms()
    return {"domain": domain, "uri": f"{server.url}/", "nonce": nonce, "issued_at_ms": issued_at_ms}


async def post_login(server: RunningServer, message: Any, signature: Any) -> Answer:
    """A sign-in with exactly this message and signature."""
    body = orjson.dumps({"message": message, "signature": signature})
    return await ask(server, "POST", "/inbox/login", body)


async def log_in(server: RunningServer, wallet: Wallet, **fields: Any) -> Answer:
    """A sign-in whose message is sound but for these fields, signed by its wallet."""
    nonce = fields.pop("nonce", None) or await get_nonce(server)
    message = wallet.message(**{**sound_fields(server, nonce), **fields})
    return await post_login(server, message, wallet.sign(message))


@dataclass(frozen=True, slots=True)
class InboxClient:
    """Speaks to one server as one account."""

    server: RunningServer
    wallet: Wallet
    token: str

    @property
    def account(self) -> str:
        return self.wallet.account

    @property
    def headers(self) -> dict[str, str]:
        """The bearer token of this account, as header fields."""
        return {"Authorization": f"Bearer {self.token}"}

    async def ask(
        self, method: str, path: str, fields: Any = None, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """One request below `/inbox`; `fields` are sent as JSON, bytes as they are."""
        body = fields if isinstance(fields, bytes) or fields is None else orjson.dumps(fields)
        return await ask(self.server, method, f"/inbox{path}", body, {**self.headers, **(headers or {})})

    async def subscribe(self, project_id: str, types: Sequence[Any] | None = None) -> Answer:
        fields = None if types is None else {"notification_types": types}
        return await self.ask("PUT", f"/subscriptions/{project_id}", fields)

    async def unsubscribe(self, project_id: str) -> Answer:
        return await self.ask("DELETE", f"/subscriptions/{project_id}")

    async def overview(self) -> Any:
        return (await self.ask("GET", "/subscriptions")).json

    async def page(self, query: str = "", **headers: str) -> Any:
        """`?project_id=…` and the like, and the answer's JSON."""
        return (await self.ask("GET", f"/notifications{query}", headers=headers)).json

    async def titles(self, query: str = "") -> list[str]:
        """The titles of a page."""
        return [notification["title"] for notification in (await self.page(query))["notifications"]]

    async def ids(self, query: str = "") -> list[str]:
        """The ids of a page."""
        return [notification["id"] for notification in (await self.page(query))["notifications"]]

    async def mark(self, ids: Sequence[Any]) -> Answer:
        return await self.ask("POST", "/notifications/read", {"ids": ids})

    async def add_device(self, channel: Any, address: Any = None) -> Answer:
        return await self.ask("POST", "/devices", {"channel": channel, "address": address})

    async def devices(self) -> list[dict[str, Any]]:
        devices: list[dict[str, Any]] = (await self.ask("GET", "/devices")).json["devices"]
        return devices


async def sign_in(server: RunningServer, number: int = 1, **fields: Any) -> InboxClient:
    """An account that is signed in."""
    wallet = Wallet(number)
    token = (await log_in(server, wallet, **fields)).json["token"]
    return InboxClient(server, wallet, token)
