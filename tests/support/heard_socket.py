"""A WebSocket as a test client of either generation reads it. Pings are answered while it waits, else not."""

from typing import Any

import aiohttp
import orjson
from aiohttp import WSMsgType

PATIENCE_SECONDS = 60.0


class HeardSocket:
    """Reads what the server sends over one socket."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.socket = socket

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
                value: dict[str, Any] = orjson.loads(message.data)
                return value
