"""Clients with an inbox open, thousands in one thread: plain sockets, cheaper than what they measure."""

import select
import socket
import time
from collections.abc import Sequence

from processes import MeasurementError
from raw_http import address, encode
from waiters import RESET_ON_CLOSE

_OPENING_AT_ONCE = 100
_READ_BYTES = 65_536
_OPENED = b"retry:"
_EVENT = b"data:"


class StreamClients:
    """Open streams, one for each token, and when each of them was last given an event."""

    def __init__(self, url: str, tokens: Sequence[str], patience_seconds: float) -> None:
        self._patience_seconds = patience_seconds
        self._poll = select.epoll()
        self._sockets: dict[int, socket.socket] = {}
        for start in range(0, len(tokens), _OPENING_AT_ONCE):
            some = [self._open(url, token) for token in tokens[start : start + _OPENING_AT_ONCE]]
            if len(self._until_each_has(_OPENED, some)) < len(some):
                raise MeasurementError("not every stream was opened")

    def __len__(self) -> int:
        return len(self._sockets)

    def event_times(self, expected: int) -> list[float]:
        """When each of so many streams was given an event (time.perf_counter); fewer if it takes too long."""
        return self._until_each_has(_EVENT, range(expected))

    def close(self) -> None:
        """Leave without keeping the ports."""
        for opened in self._sockets.values():
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            opened.close()
        self._sockets.clear()
        self._poll.close()

    def _open(self, url: str, token: str) -> int:
        opened = socket.create_connection(address(url), timeout=10)
        opened.sendall(encode(url, "GET", "/inbox/stream", header=f"Authorization: Bearer {token}"))
        opened.setblocking(False)
        self._sockets[opened.fileno()] = opened
        self._poll.register(opened.fileno(), select.EPOLLIN)
        return opened.fileno()

    def _until_each_has(self, mark: bytes, expected: Sequence[int]) -> list[float]:
        """When each was sent something with that mark in it, which is short enough to come in one piece."""
        times: dict[int, float] = {}
        deadline = time.perf_counter() + self._patience_seconds
        while len(times) < len(expected) and time.perf_counter() < deadline:
            for descriptor, _ in self._poll.poll(0.1, len(self._sockets)):
                received = self._sockets[descriptor].recv(_READ_BYTES)
                if not received:
                    raise MeasurementError("a stream has ended")
                if mark in received:
                    times[descriptor] = time.perf_counter()
        return list(times.values())
