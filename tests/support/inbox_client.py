"""The moves of an account: it signs in, subscribes, reads."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import aiohttp
import orjson
from multidict import CIMultiDictProxy

from bridge_server.settings.settings import Settings
from tests.support.asking import Answer, Headers, ServerClient, ask, next_event
from tests.support.engines import database_of
from tests.support.rpc_client import Wallet
from tests.support.server import RunningServer
from tests.support.waiting import eventually


async def get_nonce(server: RunningServer) -> str:
    return str((await ask(server, "POST", "/inbox/nonce")).json["nonce"])


def sound_fields(server: RunningServer, nonce: str) -> dict[str, Any]:
    domain, now_ms = server.url.removeprefix("http://"), server.clock.now_ms()
    return {"domain": domain, "uri": f"{server.url}/", "nonce": nonce, "issued_at_ms": now_ms}


async def post_login(server: RunningServer, message: Any, signature: Any) -> Answer:
    body = orjson.dumps({"message": message, "signature": signature})
    return await ask(server, "POST", "/inbox/login", body)


async def log_in(server: RunningServer, wallet: Wallet, **fields: Any) -> Answer:
    """A sign-in whose message is sound but for these fields, signed by its wallet."""
    nonce = fields.pop("nonce", None) or await get_nonce(server)
    message = wallet.message(**{**sound_fields(server, nonce), **fields})
    return await post_login(server, message, wallet.sign(message))


@dataclass(frozen=True, slots=True)
class InboxClient(ServerClient):
    """Speaks to one server as one account."""

    wallet: Wallet
    token: str

    @property
    def account(self) -> str:
        return self.wallet.account

    @property
    def headers(self) -> dict[str, str]:
        return {"Authorization": f"Bearer {self.token}"}

    async def ask(self, method: str, path: str, fields: Any = None, headers: Headers = None) -> Answer:
        return await ServerClient.ask(self, method, f"/inbox{path}", fields, headers)

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
        return [notification["title"] for notification in (await self.page(query))["notifications"]]

    async def ids(self, query: str = "") -> list[str]:
        return [notification["id"] for notification in (await self.page(query))["notifications"]]

    async def mark(self, ids: Sequence[Any]) -> Answer:
        return await self.ask("POST", "/notifications/read", {"ids": ids})

    async def add_device(self, channel: Any, address: Any = None) -> Answer:
        return await self.ask("POST", "/devices", {"channel": channel, "address": address})

    async def devices(self) -> list[dict[str, Any]]:
        return list((await self.ask("GET", "/devices")).json["devices"])


async def sign_in(server: RunningServer, number: int = 1, **fields: Any) -> InboxClient:
    wallet = Wallet(number)
    token = (await log_in(server, wallet, **fields)).json["token"]
    return InboxClient(server, wallet, token)


@dataclass(frozen=True, slots=True)
class Event:
    """A notification as it came, and the id to go on from."""

    id: str
    data: Any


@dataclass(frozen=True, slots=True)
class EventReader:
    """Reads server-sent events, as a browser would."""

    response: aiohttp.ClientResponse

    @property
    def headers(self) -> CIMultiDictProxy[str]:
        return self.response.headers

    async def next(self) -> Event:
        fields = await next_event(self.response.content)
        assert fields.keys() == {"id", "event", "data"}, fields
        assert fields["event"] == "notification"
        return Event(fields["id"], orjson.loads(fields["data"]))

    async def titles(self, count: int) -> list[str]:
        return [(await self.next()).data["title"] for _ in range(count)]

    async def ended(self) -> bool:
        """Whether nothing more comes, in good order; raises TimeoutError when the stream goes on."""
        return await next_event(self.response.content) == {}


@asynccontextmanager
async def open_stream(inbox: InboxClient, query: str = "", **headers: str) -> AsyncIterator[EventReader]:
    url, sent = f"{inbox.server.url}/inbox/stream{query}", {**inbox.headers, **headers}
    endless = aiohttp.ClientTimeout(total=None)
    async with inbox.server.client.get(url, headers=sent, timeout=endless) as response:
        assert response.status == 200, await response.text()
        assert await response.content.readline() == b"retry: 2000\n"
        yield EventReader(response)


def count_stored(settings: Settings) -> int:
    """How many messages wait on disk, but for settled ones, which stay in PostgreSQL for some seconds."""
    with database_of(settings) as database:
        ((count,),) = database.execute("SELECT count(*) FROM topic_messages WHERE expires_at_ms > 0")
        return int(count)


async def until_stored(settings: Settings, messages: int) -> None:
    async def reached() -> bool:
        return await asyncio.to_thread(count_stored, settings) == messages

    await eventually(reached)
