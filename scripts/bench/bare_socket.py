"""WebSocket clients that do as little as possible, so that they measure the server and not themselves."""

import asyncio
import socket
import struct
import time
from collections.abc import Sequence

from clients import address, open_clients
from processes import MeasurementError

_TEXT, _CLOSE, _PING, _PONG = 0x81, 0x88, 0x89, 0x8A
_HANDSHAKE = (
    "GET {} HTTP/1.1\r\nHost: {}:{}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
)
_MEDIUM = 126
_ANSWER_SECONDS = 120.0


def client_frame(payload: bytes, first_byte: int = _TEXT) -> bytes:
    """A frame as clients must send it, under a mask that changes nothing."""
    length = len(payload)
    head = struct.pack("!BB", first_byte, 0x80 | min(length, 126))
    return head + (struct.pack("!H", length) if length > 125 else b"") + bytes(4) + payload


class BareSocket(asyncio.Protocol):
    """A WebSocket that does as little as possible.

    When a text frame comes, it is counted, and `acknowledgement` is sent back; then `next_frame` is sent over
    the socket `publisher`, which may be this one. Pings are answered.
    """

    transport: asyncio.Transport

    def __init__(
        self,
        url: str,
        acknowledgement: bytes = b"",
        next_frame: bytes = b"",
        target: str = "/?protocol=wc&version=1",
    ) -> None:
        self._handshake = _HANDSHAKE.format(target, *address(url)).encode("ascii")
        self._acknowledgement, self.next_frame = acknowledgement, next_frame
        self._data = b""
        self.publisher = self
        self.count = 0
        self.farewell = ""
        self.is_open: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self.came: asyncio.Future[float] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]  # uvloop's is one in all but name
        self.transport.write(self._handshake)

    def data_received(self, data: bytes) -> None:
        data, position = self._data + data, 0
        if not self.is_open.done() and (position := data.find(b"\r\n\r\n") + 4) >= 4:
            self.is_open.set_result(data.startswith(b"HTTP/1.1 101"))
        while self.is_open.done() and (end := _end_of_frame(data, position)) is not None:
            if data[position] == _TEXT:
                self.heard(data, position, end)
            elif data[position] == _PING:
                self.transport.write(client_frame(data[position + 2 : end], _PONG))
            elif data[position] == _CLOSE:
                self.farewell = data[position + 4 : end].decode() or "a close frame without a reason"
            position = end
        self._data = data[max(0, position) :] if self.is_open.done() else data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_open.done():
            self.is_open.set_result(False)

    def heard(self, data: bytes, start: int, end: int) -> None:
        """A text frame is in the data at this place."""
        self.received()

    def received(self) -> None:
        """A message has come."""
        self.count += 1
        if self.came is not None and not self.came.done():
            self.came.set_result(time.perf_counter())
        if self._acknowledgement:
            self.transport.write(self._acknowledgement)
        if self.next_frame:
            self.publisher.transport.write(self.next_frame)


def _end_of_frame(data: bytes, position: int) -> int | None:
    available = len(data) - position
    if available < 4:
        return position + 2 if available >= 2 and not data[position + 1] else None
    length, head = data[position + 1], 2
    if length == 126:
        length, head = data[position + 2] << 8 | data[position + 3], 4
    return position + head + length if available >= head + length else None


class BlockingSocket:
    """A WebSocket in blocking mode, whose pings are answered while it receives."""

    def __init__(self, url: str, target: str = "/") -> None:
        self._socket = socket.create_connection(address(url), _ANSWER_SECONDS)
        self._data = b""
        self._socket.sendall(_HANDSHAKE.format(target, *address(url)).encode("ascii"))
        while (end := self._data.find(b"\r\n\r\n")) < 0:
            self._receive_more()
        if not self._data.startswith(b"HTTP/1.1 101"):
            raise MeasurementError("a WebSocket was refused")
        self._data = self._data[end + 4 :]

    def send(self, frame: bytes) -> None:
        """Send a frame."""
        self._socket.sendall(frame)

    def receive(self) -> bytes:
        """The content of the next text frame."""
        while True:
            while (end := _end_of_frame(self._data, 0)) is None:
                self._receive_more()
            frame, self._data = self._data[:end], self._data[end:]
            if frame[0] == _TEXT:
                return frame[4 if frame[1] == _MEDIUM else 2 :]
            if frame[0] == _CLOSE:
                raise MeasurementError(f"a socket was closed: {frame[4:].decode()}")
            if frame[0] == _PING:
                self.send(client_frame(frame[2:], _PONG))

    def close(self) -> None:
        """Break the connection off."""
        self._socket.close()

    def _receive_more(self) -> None:
        more = self._socket.recv(65_536)
        if not more:
            raise MeasurementError("the process has closed a connection")
        self._data += more


async def open_sockets(url: str, sockets: Sequence[BareSocket]) -> None:
    """Connect, and shake hands."""
    await open_clients(url, sockets)
    if not all(await asyncio.gather(*(each.is_open for each in sockets))):
        raise MeasurementError("a WebSocket was refused")
