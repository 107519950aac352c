"""WebSocket clients that do as little as possible, thousands of them in one process."""

import asyncio
import json
import struct
from collections.abc import Sequence
from typing import cast

from raw_http import address
from waiters import open_clients

_TEXT, _PING, _PONG = 0x81, 0x89, 0x8A
_NO_MASK = bytes(4)  # a mask must be there; this one changes nothing


def client_frame(payload: bytes, first_byte: int = _TEXT) -> bytes:
    """A frame as clients must send it, masked."""
    length = len(payload)
    if length < 126:
        head = struct.pack("!BB", first_byte, 0x80 | length)
    else:
        head = struct.pack("!BBH", first_byte, 0x80 | 126, length)
    return head + _NO_MASK + payload


def message_frame(topic: str, kind: str, payload: str = "") -> bytes:
    """One message of generation 1.x."""
    message = {"topic": topic, "type": kind, "payload": payload, "silent": True}
    return client_frame(json.dumps(message, separators=(",", ":")).encode())


class SocketClient(asyncio.Protocol):
    """Shakes hands, then calls `received` at each text frame; answers pings."""

    transport: asyncio.Transport

    def __init__(self, url: str, path: str = "/") -> None:
        self._url = url
        self._path = path
        self._data = b""
        self.is_open = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's is one in all but name
        host, port = address(self._url)
        self.transport.write(
            (
                f"GET {self._path}?protocol=wc&version=1 HTTP/1.1\r\nHost: {host}:{port}\r\n"
                "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
                "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
            ).encode("ascii")
        )

    def data_received(self, data: bytes) -> None:
        data = self._data + data
        position = 0
        if not self.is_open.done():
            position = data.find(b"\r\n\r\n") + 4
            if position < 4:
                self._data = data
                return
            self.is_open.set_result(data.startswith(b"HTTP/1.1 101"))
        while (end := _end_of_frame(data, position)) is not None:
            if data[position] == _TEXT:
                self.heard(data, position, end)
            elif data[position] == _PING:
                self.transport.write(client_frame(data[position + 2 : end], _PONG))
            position = end
        self._data = data[position:]

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_result(False)

    def heard(self, data: bytes, start: int, end: int) -> None:
        """A frame has come, at this place."""
        self.received()

    def received(self) -> None:
        """A message has come."""


def _end_of_frame(data: bytes, position: int) -> int | None:
    available = len(data) - position
    if available < 2:
        return None
    length, head = data[position + 1], 2
    if length == 126:
        if available < 4:
            return None
        length, head = data[position + 2] << 8 | data[position + 3], 4
    return position + head + length if available >= head + length else None


class Echoed(SocketClient):
    """Keeps `window` frames on their way to a server that sends each back, and counts."""

    def __init__(self, url: str, frame: bytes, window: int) -> None:
        super().__init__(url)
        self._frame = frame
        self._window = window
        self.count = 0

    def begin(self) -> None:
        """Send the first frames."""
        self.transport.write(self._frame * self._window)

    def received(self) -> None:
        self.count += 1
        self.transport.write(self._frame)


class Publisher(SocketClient):
    """Publishes what it is told to."""


class Listening(SocketClient):
    """Subscribes to a topic, acknowledges what comes, and has the publisher publish the next."""

    def __init__(self, url: str, topic: str, publisher: Publisher, payload: str, window: int) -> None:
        super().__init__(url)
        self._topic = topic
        self._publisher = publisher
        self._frame = message_frame(topic, "pub", payload)
        self._ack = message_frame(topic, "ack")
        self._window = window
        self.count = 0

    def subscribe(self) -> None:
        """Ask for the topic's messages."""
        self.transport.write(message_frame(self._topic, "sub"))

    def begin(self) -> None:
        """Have the first messages published."""
        self._publisher.transport.write(self._frame * self._window)

    def received(self) -> None:
        self.count += 1
        self.transport.write(self._ack)
        self._publisher.transport.write(self._frame)


async def open_sockets(url: str, clients: Sequence[SocketClient]) -> None:
    """Connect them, and shake hands."""
    await open_clients(url, clients)
    opened = await asyncio.gather(*(client.is_open for client in clients))
    if not all(opened):
        raise OSError("a WebSocket was refused")
