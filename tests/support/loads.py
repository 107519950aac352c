"""Many clients that write, and a ledger of what they were answered: the server owes all of it for ever."""

import asyncio
import socket
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from random import Random
from typing import ClassVar

import aiohttp
from aiohttp import web

from bridge_server.settings.types import networks
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.connection import GuardedRunner
from bridge_server.web.open_connections import CONNECTIONS, ConnectionLimits, Connections, UnreadLimits
from tests.support.fakes import listening
from tests.support.waiting import eventually

_PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Content:
    """A payload that one client keeps replacing. `asked` has no answer yet: it may be stored or not."""

    answered: str | None = None
    asked: str | None = None

    def may_be(self, found: str | None) -> bool:
        """Whether the server may say this after a crash."""
        return found == self.answered or (self.asked is not None and found == self.asked)


@dataclass
class _Progress:
    """How many writes were answered 200, and a wait for more."""

    answers: int = field(default=0, kw_only=True)
    changed: asyncio.Event = field(default_factory=asyncio.Event, kw_only=True)

    def count(self) -> None:
        self.answers += 1
        self.changed.set()

    async def reaches(self, answers: int) -> None:
        """Return once there were so many answers; raises TimeoutError when there are not in time."""
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                while self.answers < answers:
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            found = f"{self.answers} of {answers} writes were answered in {_PATIENCE_SECONDS:g} s"
            raise TimeoutError(f"{found}: the server refuses them, or the load has ended") from None


@dataclass
class Ledger(_Progress):
    """The writes that were answered 200, by id."""

    sessions: dict[str, Content] = field(default_factory=dict)
    calls: dict[tuple[str, str], str] = field(default_factory=dict)
    statuses: dict[str, Content] = field(default_factory=dict)


@dataclass
class WriteLoad:
    """Clients that write until their server is gone."""

    client: aiohttp.ClientSession
    url: str
    ledger: Ledger
    chance: Random
    is_patient: ClassVar[bool] = False

    async def run(self, clients: int) -> None:
        """Write with so many at once; returns when the server no longer answers any."""
        await asyncio.gather(*(self._write_until_refused(number) for number in range(clients)))

    async def _write_until_refused(self, number: int) -> None:
        with suppress(aiohttp.ClientError):
            for turn in count(1):
                await self._talk(f"client {number} talk {turn}")

    async def _talk(self, name: str) -> None:
        session_id = (await self._send("POST", "/session/new"))["sessionId"]
        session = self.ledger.sessions[session_id] = Content()
        self.ledger.count()
        for turn in range(self.chance.randint(1, 3)):
            await self._replace(session, "PUT", f"/session/{session_id}", f"{name} session {turn}")
        for turn in range(self.chance.randint(1, 4)):
            await self._call(session_id, f"{name} call {turn}")

    async def _call(self, session_id: str, payload: str) -> None:
        body = {"encryptionPayload": payload, "dappName": "Dapp"}
        call_id = (await self._send("POST", f"/session/{session_id}/call/new", body))["callId"]
        self.ledger.calls[session_id, call_id] = payload
        status = self.ledger.statuses[call_id] = Content()
        self.ledger.count()
        for turn in range(self.chance.randint(0, 2)):
            await self._replace(status, "POST", f"/call-status/{call_id}/new", f"{payload} status {turn}")

    async def _replace(self, content: Content, method: str, path: str, payload: str) -> None:
        content.asked = payload
        await self._send(method, path, {"encryptionPayload": payload})
        content.answered, content.asked = payload, None
        self.ledger.count()

    async def _send(self, method: str, path: str, body: object = None) -> dict[str, str]:
        while True:
            async with self.client.request(method, f"{self.url}{path}", json=body) as response:
                if response.status == 200:
                    return dict(await response.json())
                assert (response.status, self.is_patient) == (503, True), await response.text()
                assert int(response.headers["Retry-After"]) >= 1
            await asyncio.sleep(0.02)


class PatientLoad(WriteLoad):
    """Clients that ask again when they are told to come back, until their server is gone."""

    is_patient = True


@dataclass(slots=True)
class Sendings:
    """Accounts by notification id: those in `sent` must keep it, those in `asked` may have it."""

    sent: dict[str, set[str]] = field(default_factory=dict)
    asked: dict[str, set[str]] = field(default_factory=dict)


@dataclass
class NotifyLoad(_Progress):
    """Calls notify for several projects until the server is gone; ids come again and again."""

    client: aiohttp.ClientSession
    url: str
    secrets: Sequence[tuple[str, str]]
    accounts: Sequence[str]
    chance: Random
    ledgers: defaultdict[str, Sendings] = field(default_factory=lambda: defaultdict(Sendings))
    """By project."""

    async def run(self) -> None:
        """One caller for each project; returns when the server no longer answers any."""
        await asyncio.gather(*(self._call_until_refused(*each) for each in self.secrets))

    async def _call_until_refused(self, project_id: str, secret: str) -> None:
        ledger = self.ledgers[project_id]
        headers = {"Authorization": f"Bearer {secret}"}
        with suppress(aiohttp.ClientError):
            while True:
                notification_id = f"id {self.chance.randint(1, 12)}"
                wanted = self.chance.sample(self.accounts, self.chance.randint(1, 60))
                ledger.asked.setdefault(notification_id, set()).update(wanted)
                content = {"type": "news", "title": notification_id, "body": "Body"}
                body = {"notification_id": notification_id, "notification": content, "accounts": wanted}
                url = f"{self.url}/{project_id}/notify"
                async with self.client.post(url, json=body, headers=headers) as response:
                    if response.status == 429:
                        await asyncio.sleep(0.05)
                        continue
                    assert response.status == 200, await response.text()
                    outcome = await response.json()
                assert outcome["not_found"] == []
                ledger.sent.setdefault(notification_id, set()).update(outcome["sent"])
                self.count()


# Clients that need not read what they ask for, and a small application that guards its connections.

UPGRADE = (
    "Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13",
    "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
)  # fmt: skip
SOMEBODY, ANOTHER = "127.0.0.2", "127.0.0.3"


@contextmanager
def client(
    port: int, address: str = SOMEBODY, said: bytes = b"", small: bool = True
) -> Iterator[socket.socket]:
    """A client at this address that has said this; a small one's machine takes little by itself."""
    with socket.socket() as connection:
        if small:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        connection.bind((address, 0))
        connection.settimeout(_PATIENCE_SECONDS)
        connection.connect(("127.0.0.1", port))
        if said:
            connection.sendall(said)
        yield connection


def get(path: str = "/", *headers: str, version: str = "1.1") -> bytes:
    return "\r\n".join([f"GET {path} HTTP/{version}", "Host: bridge.example", *headers, "", ""]).encode()


def read_all(connection: socket.socket) -> bytes:
    """The bytes until the server ends the connection, in any way."""
    parts = []
    with suppress(ConnectionResetError):
        while part := connection.recv(65_536):
            parts.append(part)
    return b"".join(parts)


async def everything_from(connection: socket.socket) -> bytes:
    return await asyncio.to_thread(read_all, connection)


@dataclass(frozen=True, slots=True)
class Guarded:
    """The server, and what it knows of its connections."""

    port: int
    connections: Connections
    limits: ConnectionLimits

    async def until(self, holds: Callable[[Connections], bool]) -> None:
        await eventually(lambda: holds(self.connections))

    async def until_known(self, connections: int) -> None:
        """Return once so many connections have been opened; those that were cut off count."""
        await self.until(lambda known: known.open + known.cut == connections)


@asynccontextmanager
async def guarded(
    handle: Callable[[web.Request], Awaitable[web.StreamResponse]],
    *,
    per_address: int = 1_000,
    in_all: int = 1_000,
    head_seconds: float = _PATIENCE_SECONDS,
    address_bytes: int = 10**9,
    total_bytes: int = 10**9,
    patience_seconds: float = _PATIENCE_SECONDS,
    trusted: str = "",
    exempt: str = "127.0.0.1/32",
) -> AsyncIterator[Guarded]:
    """Answer every path of a server with this handler."""
    unread = UnreadLimits(address_bytes, total_bytes, patience_seconds)
    limits = ConnectionLimits(per_address, in_all, head_seconds, unread)
    connections = Connections(ClientAddresses(networks(trusted), networks(exempt)), limits)
    application = web.Application()
    application[CONNECTIONS] = connections
    application.router.add_route("*", "/{anything:.*}", handle)

    def refuse(_: web.BaseRequest, status: int, detail: str) -> web.Response:
        return web.Response(status=status, text=detail)

    runner = GuardedRunner(
        application, refuse, connections, shutdown_seconds=5.0, has_help=False, keepalive_timeout=75.0
    )
    async with listening(runner, backlog=1024) as port:
        try:
            yield Guarded(port, connections, limits)
        finally:
            connections.stop()
            for connection in list(connections.all()):
                connection.cut()
