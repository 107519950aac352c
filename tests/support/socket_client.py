"""A client of generation 1.x as a test sees it: what it says, and what it is sent."""

from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import orjson

from tests.support.heard_socket import HeardSocket


def spelled(topic: Any, kind: Any, payload: Any = "", silent: Any = True) -> str:
    """A frame as the published clients write it."""
    return orjson.dumps({"topic": topic, "type": kind, "payload": payload, "silent": silent}).decode()


class SocketClient(HeardSocket):
    """One socket of a client of generation 1.x."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        super().__init__(socket)
        self._came: deque[dict[str, Any]] = deque()
        self._pings = 0

    async def say(self, topic: Any, kind: Any, payload: Any = "", silent: Any = True) -> None:
        """Send one frame."""
        await self.socket.send_str(spelled(topic, kind, payload, silent))

    async def publish(self, topic: str, *payloads: str, silent: bool = True) -> None:
        """Publish, and wait until the server has taken it."""
        for payload in payloads:
            await self.say(topic, "pub", payload, silent)
        await self.settled()

    async def subscribe(self, *topics: str) -> None:
        """Subscribe, and wait until the server has done so."""
        for topic in topics:
            await self.say(topic, "sub")
        await self.settled()

    async def acknowledge(self, topic: str, times: int = 1) -> None:
        """Acknowledge, and wait until the server has taken it."""
        for _ in range(times):
            await self.say(topic, "ack")
        await self.settled()

    async def settled(self) -> None:
        """Return once the server has answered a ping, which it does when all before is safe."""
        self._pings += 1
        ping = b"%d" % self._pings
        await self.socket.ping(ping)
        while (answer := await self._next()) != ping:
            assert isinstance(answer, dict)
            self._came.append(answer)

    async def message(self) -> dict[str, Any]:
        """The next message."""
        if self._came:
            return self._came.popleft()
        message = await self._next()
        assert isinstance(message, dict)
        return message

    async def payloads(self, count: int) -> list[str]:
        """The payloads of the next messages, and no more than these have come."""
        found = [(await self.message())["payload"] for _ in range(count)]
        await self.settled()
        assert not self._came
        return found

    async def nothing(self) -> None:
        """Make sure that no message has come."""
        assert await self.payloads(0) == []

    def vanish(self) -> None:
        """Break off the connection, as a crash does."""
        transport = self.socket._response.connection
        assert transport is not None
        assert transport.transport is not None
        transport.transport.abort()


@asynccontextmanager
async def connected(
    client: aiohttp.ClientSession, url: str, path: str = "/", **options: Any
) -> AsyncIterator[SocketClient]:
    """One open socket; closed in good order on leaving, if it still is open."""
    async with client.ws_connect(f"{url}{path}", autoping=False, autoclose=False, **options) as socket:
        yield SocketClient(socket)
