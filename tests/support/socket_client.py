"""A client of generations 1.x and 2.x as a test sees it: what it says, and what it is sent.

White-box: aiohttp's client ends no connection without a goodbye, so its transport does.
"""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any
from urllib.parse import urlencode

import aiohttp
import orjson
from aiohttp import WSMsgType
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from bridge_server.kernel.base64url import encode

# A WebSocket as a test client of either generation reads it. Pings are answered while it waits, else not.

PATIENCE_SECONDS = 60.0


@dataclass(eq=False)
class HeardSocket:
    socket: aiohttp.ClientWebSocketResponse
    _came: deque[dict[str, Any]] = field(default_factory=deque, kw_only=True)

    async def closed(self) -> tuple[int, str]:
        """The code and the reason of the close frame that comes, whatever comes before."""
        while True:
            message = await self.socket.receive(PATIENCE_SECONDS)
            if message.type is WSMsgType.CLOSE:
                await self.socket.close()
                return message.data, message.extra or ""
            assert message.type in (WSMsgType.TEXT, WSMsgType.PING), message

    async def _next(self) -> dict[str, Any] | bytes:
        """The next message, or the payload of a pong."""
        while True:
            message = await self.socket.receive(PATIENCE_SECONDS)
            if message.type is WSMsgType.PING:
                await self.socket.pong(message.data)
            elif message.type is WSMsgType.PONG:
                return bytes(message.data)
            else:
                assert message.type is WSMsgType.TEXT, message
                return dict(orjson.loads(message.data))

    async def settled(self) -> None:
        """Return once the server has answered a ping, which it does when all before is safe."""
        ping = orjson.dumps(next(_ids))
        await self.socket.ping(ping)
        while (message := await self._next()) != ping:
            self._take(message)

    async def nothing(self) -> None:
        """Make sure that nothing else has come, or is about to."""
        await self.settled()
        assert not self._came

    async def first(self) -> dict[str, Any]:
        """The first that has come and was not read."""
        while not self._came:
            self._take(await self._next())
        return self._came.popleft()

    def _take(self, message: dict[str, Any] | bytes) -> None:
        if isinstance(message, dict):
            self._came.append(message)


def spelled(topic: Any, kind: Any, payload: Any = "", silent: Any = True) -> str:
    """A frame as the published clients write it."""
    return orjson.dumps({"topic": topic, "type": kind, "payload": payload, "silent": silent}).decode()


@dataclass(eq=False)
class SocketClient(HeardSocket):
    message = HeardSocket.first

    async def say(self, topic: Any, kind: Any, payload: Any = "", silent: Any = True) -> None:
        await self.socket.send_str(spelled(topic, kind, payload, silent))

    # Each of these waits until the server has taken it.

    async def publish(self, topic: str, *payloads: str, silent: bool = True) -> None:
        for payload in payloads:
            await self.say(topic, "pub", payload, silent)
        await self.settled()

    async def subscribe(self, *topics: str) -> None:
        for topic in topics:
            await self.say(topic, "sub")
        await self.settled()

    async def acknowledge(self, topic: str, times: int = 1) -> None:
        for _ in range(times):
            await self.say(topic, "ack")
        await self.settled()

    async def payloads(self, count: int) -> list[str]:
        """The payloads of the next messages, and no more than these have come."""
        found = [(await self.message())["payload"] for _ in range(count)]
        await self.nothing()
        return found

    def vanish(self) -> None:
        connection = self.socket._response.connection
        assert connection is not None
        assert connection.transport is not None
        connection.transport.abort()


@asynccontextmanager
async def connected(
    client: aiohttp.ClientSession, url: str, path: str = "/", **options: Any
) -> AsyncIterator[SocketClient]:
    """One open socket; closed in good order on leaving, if it still is open."""
    async with client.ws_connect(f"{url}{path}", autoping=False, autoclose=False, **options) as socket:
        yield SocketClient(socket)


TOKEN_TIME = 1_800_000_000
"""When the tests' clock starts, in seconds."""

_ids = count(1_700_000_000_000_000_001)


def topic_of(name: str) -> str:
    """64 hexadecimal digits that are different for each name."""
    return name.encode().hex().rjust(64, "0")


def base58(data: bytes) -> str:
    """The data in base58btc; it must not begin with a zero."""
    letters = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
    number, text = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, 58)
        text = letters[digit] + text
    return text


@dataclass
class Identity:
    """An Ed25519 key, by which a client is known."""

    key: ECC.EccKey = field(default_factory=lambda: ECC.generate(curve="Ed25519"))

    @property
    def did(self) -> str:
        """The public key as a did:key."""
        return "did:key:z" + base58(b"\xed\x01" + self.key.public_key().export_key(format="raw"))

    def token(self, header: Any = None, **claims: Any) -> str:
        """A token that is right, but for what is given; a claim that is None is left out."""
        times = {"iat": TOKEN_TIME, "exp": TOKEN_TIME + 86_400}
        values = {"iss": self.did, "sub": "aa" * 32, "aud": "ws://x", **times, **claims}
        values = {name: value for name, value in values.items() if value is not None}
        parts = [encode(orjson.dumps(part)) for part in (header or {"alg": "EdDSA", "typ": "JWT"}, values)]
        signed = ".".join(parts)
        return f"{signed}.{encode(eddsa.new(self.key, 'rfc8032').sign(signed.encode()))}"


class RelayError(Exception):
    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error))
        self.code: int = error["code"]
        self.tag: str = error["data"]
        self.message: str = error["message"]


@dataclass(eq=False)
class IrnClient(HeardSocket):
    """One socket. It acknowledges nothing by itself."""

    request = HeardSocket.first
    requests: list[dict[str, Any]] = field(default_factory=list)
    _answers: dict[Any, dict[str, Any]] = field(default_factory=dict)

    async def send(self, **members: Any) -> None:
        await self.socket.send_str(orjson.dumps(members).decode())

    async def ask(self, method: str, params: Any = None, *, request_id: Any = None) -> Any:
        request_id = next(_ids) if request_id is None else request_id
        await self.send(id=request_id, jsonrpc="2.0", method=method, params=params)
        return await self.answer(request_id)

    async def answer(self, request_id: Any) -> Any:
        while request_id not in self._answers:
            self._take(await self._next())
        answer = self._answers.pop(request_id)
        assert answer["jsonrpc"] == "2.0"
        if "error" in answer:
            raise RelayError(answer["error"])
        return answer["result"]

    async def publish(
        self, topic: str, message: str = "message", *, request_id: Any = None, **params: Any
    ) -> Any:
        values = {"topic": topic, "message": message, "ttl": 300, "tag": 1108, **params}
        return await self.ask("irn_publish", values, request_id=request_id)

    async def subscribe(self, *topics: str) -> Any:
        return await self.ask("irn_batchSubscribe", {"topics": topics})

    async def fetch(self, *topics: str) -> Any:
        return await self.ask("irn_batchFetchMessages", {"topics": topics})

    async def message(self, *, acknowledge: bool = True) -> str:
        request = await self.request()
        if acknowledge:
            await self.acknowledge(request)
        return str(request["params"]["data"]["message"])

    async def messages(self, number: int, *, acknowledge: bool = True) -> list[str]:
        """The next messages, and no more than these have come."""
        found = [await self.message(acknowledge=acknowledge) for _ in range(number)]
        await self.nothing()
        return found

    async def acknowledge(self, request: dict[str, Any]) -> None:
        await self.send(id=request["id"], jsonrpc="2.0", result=True)

    def _take(self, message: dict[str, Any] | bytes) -> None:
        if isinstance(message, bytes):
            return
        if "method" in message:
            self.requests.append(message)
            self._came.append(message)
        else:
            self._answers[message["id"]] = message


@asynccontextmanager
async def irn_connected(
    client: aiohttp.ClientSession,
    url: str,
    identity: Identity,
    path: str = "/",
    *,
    token: str | None = None,
    **options: Any,
) -> AsyncIterator[IrnClient]:
    """One open socket of this identity; closed in good order on leaving, if it still is open."""
    query = urlencode({"auth": token or identity.token(), "projectId": "p", "ua": "wc-2/test"})
    address = f"{url}{path}?{query}"
    async with client.ws_connect(address, autoping=False, autoclose=False, **options) as socket:
        yield IrnClient(socket)
