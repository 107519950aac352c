"""Answers that clients do not read: their bytes, their age, and the end of connections with too many.

Only connections whose client does not keep up are known here, so the others cost nothing. Bytes are counted
per client address and in all, a body that many are sent once. Over a bound, connections end in the order of
their rent, bytes times the seconds since the client last took any; so a client that reads stays, and a new
client is served. One connection is left over either bound: a single answer may be larger than it.
"""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass

_LOOK_EVERY_SECONDS = 1.0
_LOOKS_WITHIN_PATIENCE = 10

_ENOUGH = 7 / 8
"""Down to this part of a bound, so that not every write above it begins a search."""


@dataclass(slots=True)
class UnreadLimits:
    """Bytes for one client address and in all, and the seconds that a client may take none of them.

    They may be changed at any time.
    """

    address_bytes: int
    total_bytes: int
    patience_seconds: float


class Backlog:
    """The unread bytes of one connection."""

    __slots__ = ("address", "body", "counted_bytes", "is_waiting", "since", "writer")

    def __init__(self, writer: asyncio.WriteTransport, address: str | None) -> None:
        self.writer = writer
        self.address = address
        """The key of the client's address; None counts only towards the total."""
        self.body: bytes | None = None
        """A large body, of which only a small part is in the writer at a time."""
        self.is_waiting = False
        self.counted_bytes = 0
        self.since = 0.0
        """The time at which the client took bytes last."""


class _Account:
    """A sum of bytes. A body counts once, however many connections it is sent on."""

    __slots__ = ("bodies", "total_bytes")

    def __init__(self) -> None:
        self.total_bytes = 0
        self.bodies: Counter[int] = Counter()

    def take(self, body: bytes) -> None:
        if not self.bodies[id(body)]:
            self.total_bytes += len(body)
        self.bodies[id(body)] += 1

    def leave(self, body: bytes) -> None:
        self.bodies[id(body)] -= 1
        if not self.bodies[id(body)]:
            del self.bodies[id(body)]
            self.total_bytes -= len(body)


class Unread:
    """The accounts of all connections. `on_cut` is called with the address of each that is cut off."""

    def __init__(self, limits: UnreadLimits, on_cut: Callable[[str | None], None]) -> None:
        self._limits = limits
        self._on_cut = on_cut
        self._most_patience_seconds = math.inf
        self._all = _Account()
        self._of_address: dict[str, _Account] = {}
        self._waiting: dict[Backlog, None] = {}
        self._next_look: asyncio.TimerHandle | None = None
        self._is_relief_due = False

    @property
    def total_bytes(self) -> int:
        """The bytes in memory that wait to be read."""
        return self._all.total_bytes

    @property
    def connections(self) -> int:
        """The number of connections with unread bytes."""
        return len(self._waiting)

    def bytes_of(self, address: str) -> int:
        """The bytes in memory that wait to be read at this address."""
        account = self._of_address.get(address)
        return 0 if account is None else account.total_bytes

    def wait(self, backlog: Backlog) -> None:
        """Note a client that does not keep up: some written bytes are still unsent."""
        backlog.is_waiting = True
        backlog.since = asyncio.get_running_loop().time()
        self._waiting[backlog] = None
        self._count(backlog, backlog.writer.get_write_buffer_size())
        if self._next_look is None:
            self._look_later()

    def grow(self, backlog: Backlog, written_bytes: int) -> None:
        """Note more bytes for a client that does not keep up."""
        size_bytes = backlog.writer.get_write_buffer_size()
        if size_bytes < backlog.counted_bytes + written_bytes:
            backlog.since = asyncio.get_running_loop().time()
        self._count(backlog, size_bytes)

    def settle(self, backlog: Backlog) -> None:
        """Forget the bytes of a client that has caught up, or left."""
        if backlog.is_waiting:
            backlog.is_waiting = False
            del self._waiting[backlog]
            self._count(backlog, 0)

    def hold(self, backlog: Backlog, body: bytes) -> None:
        """A large body is on its way to the client, until it is released."""
        backlog.body = body
        for account in self._accounts(backlog.address):
            account.take(body)
        self._check(backlog)

    def release(self, backlog: Backlog) -> None:
        """Forget a large body that has been sent, or never will be."""
        body, backlog.body = backlog.body, None
        if body is not None:
            for account in self._accounts(backlog.address):
                account.leave(body)
            self._forget_if_empty(backlog.address)

    def hurry(self, patience_seconds: float) -> None:
        """From now on have less patience with clients that take nothing."""
        self._most_patience_seconds = min(self._most_patience_seconds, patience_seconds)

    def move(self, backlog: Backlog, address: str | None) -> None:
        """The connection, a proxy's, serves the client at this address now. Nothing is on its way."""
        if not backlog.is_waiting and backlog.body is None:
            backlog.address = address

    def _count(self, backlog: Backlog, size_bytes: int) -> None:
        more = size_bytes - backlog.counted_bytes
        backlog.counted_bytes = size_bytes
        for account in self._accounts(backlog.address):
            account.total_bytes += more
        if more > 0:
            self._check(backlog)
        else:
            self._forget_if_empty(backlog.address)

    def _accounts(self, address: str | None) -> Iterable[_Account]:
        if address is None:
            return (self._all,)
        account = self._of_address.get(address)
        if account is None:
            account = self._of_address[address] = _Account()
        return self._all, account

    def _forget_if_empty(self, address: str | None) -> None:
        if address is not None and not self._of_address[address].total_bytes:
            del self._of_address[address]

    def _check(self, backlog: Backlog) -> None:
        """Soon, not now: the transport that calls is in the middle of a write."""
        if self._is_relief_due:
            return
        address = backlog.address
        if self._all.total_bytes > self._limits.total_bytes or (
            address is not None and self._of_address[address].total_bytes > self._limits.address_bytes
        ):
            self._is_relief_due = True
            asyncio.get_running_loop().call_soon(self._relieve)

    def _relieve(self) -> None:
        self._is_relief_due = False
        full = [
            address
            for address, account in self._of_address.items()
            if account.total_bytes > self._limits.address_bytes
        ]
        for address in full:
            own = [backlog for backlog in self._waiting if backlog.address == address]
            self._cut_dearest(own, self._of_address[address], self._limits.address_bytes)
        if self._all.total_bytes > self._limits.total_bytes:
            self._cut_dearest(list(self._waiting), self._all, self._limits.total_bytes)

    def _cut_dearest(self, backlogs: list[Backlog], account: _Account, limit_bytes: int) -> None:
        now = asyncio.get_running_loop().time()
        dearest_first = sorted(backlogs, key=lambda backlog: self._rent(backlog, now), reverse=True)
        for backlog in dearest_first[:-1]:
            if account.total_bytes <= limit_bytes * _ENOUGH:
                return
            self._cut(backlog)

    def _rent(self, backlog: Backlog, now: float) -> float:
        share = len(backlog.body) / self._all.bodies[id(backlog.body)] if backlog.body is not None else 0.0
        return (backlog.counted_bytes + share) * (now - backlog.since)

    def _cut(self, backlog: Backlog) -> None:
        self.settle(backlog)
        self.release(backlog)
        self._on_cut(backlog.address)
        backlog.writer.abort()

    @property
    def _patience_seconds(self) -> float:
        return min(self._limits.patience_seconds, self._most_patience_seconds)

    def _look_later(self) -> None:
        pause_seconds = min(_LOOK_EVERY_SECONDS, self._limits.patience_seconds / _LOOKS_WITHIN_PATIENCE)
        self._next_look = asyncio.get_running_loop().call_later(pause_seconds, self._look)

    def _look(self) -> None:
        """Cut off each connection that has taken nothing for too long."""
        self._next_look = None
        now = asyncio.get_running_loop().time()
        for backlog in list(self._waiting):
            size_bytes = backlog.writer.get_write_buffer_size()
            if size_bytes < backlog.counted_bytes:
                backlog.since = now
            if now - backlog.since >= self._patience_seconds:
                self._cut(backlog)
            else:
                self._count(backlog, size_bytes)
        if self._waiting:
            self._look_later()
