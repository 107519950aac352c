"""Clients that long-poll, thousands of them in one process."""

import asyncio
import resource
import socket
import struct
import time
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from event_loop import new_event_loop
from raw_http import Asker, Connection, address, encode

_OPENING_AT_ONCE = 100
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

Value = TypeVar("Value")


def poll_request(url: str, call: str) -> bytes:
    """A dapp's long poll for a call's status."""
    return encode(url, "GET", f"/call-status/{call}?wait=25")


class Waiter(Connection):
    """Asks, and asks again whenever the wait was in vain; remembers when it was answered otherwise."""

    def __init__(self, request: bytes) -> None:
        super().__init__()
        self._request = request
        self.woken = asyncio.get_running_loop().create_future()

    def ask(self) -> None:
        """Begin to wait."""
        self.transport.write(self._request)

    def answered(self, status: int) -> None:
        if status == 204:
            self.ask()
        elif not self.woken.done():
            self.woken.set_result((status, time.perf_counter()))

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.woken.done():
            self.woken.cancel()


async def open_clients(url: str, clients: Sequence[asyncio.Protocol]) -> None:
    """Connect them, a hundred at a time."""
    loop, host_and_port = asyncio.get_running_loop(), address(url)

    async def connect(client: asyncio.Protocol) -> None:
        await loop.create_connection(lambda: client, *host_and_port)

    for start in range(0, len(clients), _OPENING_AT_ONCE):
        await asyncio.gather(*map(connect, clients[start : start + _OPENING_AT_ONCE]))


async def open_asker(url: str) -> Asker:
    """One connected client that waits for its answers."""
    asker = Asker()
    await open_clients(url, [asker])
    return asker


async def open_waiters(url: str, calls: Iterable[str]) -> list[Waiter]:
    """Waiters on these calls; they have asked when this returns, and wait very soon."""
    waiters = [Waiter(poll_request(url, call)) for call in calls]
    await open_clients(url, waiters)
    for waiter in waiters:
        waiter.ask()
    return waiters


class Closable(Protocol):
    """Something with a connection."""

    transport: asyncio.Transport


def close_clients(clients: Iterable[Closable]) -> None:
    """Leave, without keeping the port for the minute that TIME_WAIT lasts: there are not so many."""
    for client in clients:
        client.transport.get_extra_info("socket").setsockopt(
            socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE
        )
        client.transport.abort()


@contextmanager
def many_descriptors() -> Iterator[int]:
    """Let this process, but none it starts later, open as many files as it may; yields how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    try:
        yield hard
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def run(work: Coroutine[Any, Any, Value]) -> Value:
    """Run it on the fast event loop with many descriptors. Processes to measure are started before."""
    with many_descriptors(), asyncio.Runner(loop_factory=new_event_loop) as runner:
        return runner.run(work)
