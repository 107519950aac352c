"""Open sockets: their number per address, the detection of dead ones, and their end."""

import asyncio
from collections import Counter
from collections.abc import Callable
from itertools import count
from typing import Generic, Protocol, TypeVar

from aiohttp import WSCloseCode

from bridge_server.kernel.errors import UnavailableError
from bridge_server.pubsub.queues.errors import TooManySocketsError
from bridge_server.pubsub.queues.models import SocketLimits
from bridge_server.web.frames import ping_frame

_PING_BYTES = 4
_PINGS_IN_A_ROW = 250
_RESET = "The server was reset. Connect again."
_GOODBYE = "The server stops. Connect again."


class OpenSocket(Protocol):
    """One open socket."""

    @property
    def number(self) -> int:
        """The socket's number, unique in its generation."""
        ...

    @property
    def address(self) -> str | None:
        """The client's address; None is exempt from limits."""
        ...

    def probe(self, ping: bytes, payload: bytes) -> None:
        """Ping the client, and close its socket if it has sent nothing since the last ping."""
        ...

    def end(self, code: int, reason: str) -> None:
        """Close in good order, at once or as soon as the socket is open."""
        ...

    def leave(self) -> None:
        """Leave: the client is not there any more. A second call changes nothing."""
        ...


AnySocket = TypeVar("AnySocket", bound=OpenSocket)


class OpenSockets(Generic[AnySocket]):
    """The sockets of one generation of clients. `open_from` counts sockets of every generation by address."""

    def __init__(
        self, limits: SocketLimits, open_from: Counter[str], heartbeat_seconds: Callable[[], float]
    ) -> None:
        self._limits = limits
        self._open_from = open_from
        self._heartbeat_seconds = heartbeat_seconds
        self._sockets: dict[int, AnySocket] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._sockets)

    def get(self, number: int) -> AnySocket | None:
        """The socket of this number, if it is open."""
        return self._sockets.get(number)

    def require_place(self, address: str | None) -> None:
        """Raise TooManySocketsError, or UnavailableError when the server stops."""
        if self._is_closed:
            raise UnavailableError(_GOODBYE)
        if address is not None and self._open_from[address] >= self._limits.per_address:
            raise TooManySocketsError(self._limits.per_address)

    def add(self, socket: AnySocket) -> None:
        """Add a socket that has opened."""
        self._sockets[socket.number] = socket
        if socket.address is not None:
            self._open_from[socket.address] += 1

    def forget(self, socket: AnySocket) -> bool:
        """Remove a closed socket; returns whether it was there until now."""
        if self._sockets.pop(socket.number, None) is None:
            return False
        if socket.address is not None:
            self._open_from[socket.address] -= 1
            if not self._open_from[socket.address]:
                del self._open_from[socket.address]
        return True

    def close(self) -> None:
        """End every socket, and let none open any more: the server stops."""
        self._is_closed = True
        for socket in self._sockets.values():
            socket.end(WSCloseCode.GOING_AWAY, _GOODBYE)

    def end_all(self) -> None:
        """End every socket, and do nothing more for its client: the server was reset."""
        for socket in list(self._sockets.values()):
            socket.end(WSCloseCode.GOING_AWAY, _RESET)
            socket.leave()

    async def ping_forever(self) -> None:
        """Ping every socket now and then, letting others have a turn in between."""
        for round_number in count():
            await asyncio.sleep(self._heartbeat_seconds())
            payload = (round_number % 2**32).to_bytes(_PING_BYTES)
            ping = ping_frame(payload)
            for pinged, socket in enumerate(list(self._sockets.values()), 1):
                socket.probe(ping, payload)
                if pinged % _PINGS_IN_A_ROW == 0:
                    await asyncio.sleep(0)
