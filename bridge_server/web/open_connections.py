"""Every open connection of a server: its limits (of an address, of silence, of unread bytes), and its end."""

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Iterable
from itertools import islice, takewhile

import structlog
from aiohttp import web

from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.values import dataclass
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.aiohttp_internals import ObservedHandler

_CHECK_EVERY_SECONDS = 1.0
_CHECKS_WITHIN_PATIENCE = 10

_RELIEVED_SHARE = 7 / 8
"""Connections are cut off down to this part of a limit, so that not every write above it begins a search."""

_MINUTE_SECONDS = 60.0
_SOON_SECONDS = 1.0
_MOST_ADDRESSES = 5
_MOST_COUNTED = 1_000
_OTHERS = "others"

log = structlog.get_logger()

_BODY_GRACE_SECONDS = 2.0
"""The longest time in which the rest of a body may arrive once the server stops."""

_LAST_CALL_SECONDS = 4.0
"""Open connections are cut off so long after the stop began."""

_LAST_PATIENCE_SECONDS = 1.0
"""The longest time for which a client may read nothing once the server stops."""

_ARRIVAL_TICK_SECONDS = 0.02
_CHECKED_FOR_IDLE = 64
_EXEMPT = "exempt"


@dataclass(slots=True)
class UnreadLimits:
    """Limits of bytes that clients have not read yet, and the longest time for which a client may read
    nothing. The values may be changed at any time.
    """

    address_bytes: int
    total_bytes: int
    patience_seconds: float


@dataclass(slots=True)
class ConnectionLimits:
    """Limits of open connections, which may be changed at any time. Above `per_address`, connections of one
    client address, a new one is refused. Above `in_all` each new connection ends the oldest one that has sent
    no request yet, or else one that waits for its next request. A connection is closed when no request has
    come within `head_seconds`.
    """

    per_address: int
    in_all: int
    head_seconds: float
    unread: UnreadLimits


class StoppedReceivingError(UnavailableError):
    """The server stops before the rest of the body has come."""

    def __init__(self) -> None:
        super().__init__("The server stops, and the body had not arrived. Send it again, soon.")


class Connections:
    """The open connections of one server, within their limits. `refused`, `silent` and `cut` count the
    connections that were refused (too many of an address), closed before a request (silent, or to make room),
    and cut off (unread bytes).
    """

    def __init__(self, addresses: ClientAddresses, limits: ConnectionLimits) -> None:
        self.addresses = addresses
        self.is_stopping = False
        self.refused = 0
        self.silent = 0
        self.cut = 0
        self.unread = Unread(limits.unread, self._note_cut)
        self._limits = limits
        self._open: dict[ObservedHandler, None] = {}
        self._open_from: Counter[str] = Counter()
        self._silent_since: dict[ObservedHandler, float] = {}
        self._next_check: asyncio.TimerHandle | None = None
        self._refusals = _Tally(
            "connections_refused",
            lambda: f"max_address_connections is {limits.per_address}: see trusted_proxies too",
        )
        self._room_made = _Tally(
            "connections_made_room",
            lambda: f"more than {limits.in_all} are open: raise the limit of open files (LimitNOFILE=)",
        )
        self._cuts = _Tally("unread_connections_cut", lambda: "their clients do not read their answers")

    @property
    def open(self) -> int:
        """The number of connections."""
        return len(self._open)

    def open_from(self, address: str) -> int:
        """The number of connections of the clients that are counted under this address."""
        return self._open_from.get(address, 0)

    def all(self) -> list[ObservedHandler]:
        """A list of the open connections."""
        return list(self._open)

    def admit(self, connection: ObservedHandler) -> bool:
        """Register a new connection, for which `forget` is called; False if its address has too many."""
        key = connection.peer_key
        if key is not None:
            if self._open_from[key] >= self._limits.per_address:
                self.refused += 1
                self._refusals.count(key)
                return False
            self._open_from[key] += 1
        self._open[connection] = None
        loop = asyncio.get_running_loop()
        if len(self._open) > self._limits.in_all:
            unused = self._longest_silent() or self._old_idle()  # closed to make room
            if unused is not None:
                self.silent += 1
                self._room_made.count(unused.peer_key or _EXEMPT)
                unused.force_close()
        self._silent_since[connection] = loop.time()
        if self._next_check is None:
            self._check_later(self._limits.head_seconds)
        return True

    def forget(self, connection: ObservedHandler) -> None:
        """Note that a connection is closed."""
        if connection not in self._open:
            return
        del self._open[connection]
        self._silent_since.pop(connection, None)
        key = connection.peer_key
        if key is not None:
            self._open_from[key] -= 1
            if not self._open_from[key]:
                del self._open_from[key]

    def figures(self) -> dict[str, float]:
        """Gauges for the operator."""
        return {
            "connections": self.open,
            "connections_refused": self.refused,
            "connections_silent": self.silent,
            "connections_cut": self.cut,
            "unread_connections": self.unread.connections,
            "unread_bytes": self.unread.total_bytes,
        }

    def stop(self) -> None:
        """Begin the stop: each answer is its connection's last, and after some seconds all are cut off."""
        if not self.is_stopping:
            self.is_stopping = True
            self._refusals.write()
            self._room_made.write()
            self._cuts.write()
            self.unread.hurry(_LAST_PATIENCE_SECONDS)
            asyncio.get_running_loop().call_later(_LAST_CALL_SECONDS, self._cut_all)

    async def bodies_received(self, grace_seconds: float = _BODY_GRACE_SECONDS) -> None:
        """Wait until no body is on its way; bodies that take longer are answered 503."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        while receiving := [connection for connection in self._open if connection.is_receiving]:
            if loop.time() >= deadline:
                for connection in receiving:
                    connection.fail_receiving(StoppedReceivingError())
                return
            await asyncio.sleep(_ARRIVAL_TICK_SECONDS)

    def _end_silent(self) -> None:
        self._next_check = None
        latest = asyncio.get_running_loop().time() - self._limits.head_seconds
        silent = takewhile(lambda each: self._silent_since[each] <= latest, self._silent_since)
        for connection in list(silent):
            del self._silent_since[connection]
            if not connection.has_asked:
                self.silent += 1
                connection.force_close()
        if self._silent_since:
            earliest = next(iter(self._silent_since.values()))
            self._check_later(max(earliest - latest, self._limits.head_seconds / 10))

    def _check_later(self, pause_seconds: float) -> None:
        """Look for silent connections after the pause, at most a second: the limit may be lowered."""
        pause_seconds = min(pause_seconds, _CHECK_EVERY_SECONDS)
        self._next_check = asyncio.get_running_loop().call_later(pause_seconds, self._end_silent)

    def _longest_silent(self) -> ObservedHandler | None:
        while self._silent_since:
            oldest = next(iter(self._silent_since))
            del self._silent_since[oldest]
            if not oldest.has_asked:
                return oldest
        return None

    def _old_idle(self) -> ObservedHandler | None:
        """An idle connection among the first 64; each that was checked goes to the end."""
        for connection in list(islice(self._open, _CHECKED_FOR_IDLE)):
            del self._open[connection]
            self._open[connection] = None
            if connection.is_idle:
                return connection
        return None

    def _cut_all(self) -> None:
        for connection in self.all():
            connection.cut()

    def _note_cut(self, address: str | None) -> None:
        self.cut += 1
        self._cuts.count(address or _EXEMPT)


CONNECTIONS = web.AppKey("connections", Connections)
"""The connections of an application, if they are guarded."""


class Backlog:
    """The bytes that the client of one connection has not read yet."""

    __slots__ = ("address", "body", "counted_bytes", "is_waiting", "since", "writer")

    def __init__(self, writer: asyncio.WriteTransport, address: str | None) -> None:
        self.writer = writer
        self.address = address
        """The key of the client's address; None: its bytes count towards the total only."""
        self.body: bytes | None = None
        """A large body that is being sent, of which only a small part is in the writer at a time."""
        self.is_waiting = False
        self.counted_bytes = 0
        self.since = 0.0
        """The time of the event loop at which the client last read any bytes."""


class _Account:
    """The unread bytes of one address, or of all. A body counts once for all connections."""

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
    """Counts the bytes that clients have not read yet, per client address and in all, and cuts off
    connections with too many. Only connections whose client does not keep up are known here: the others cost
    nothing. Above a limit, connections are cut off in the order of their cost, unread bytes times the seconds
    since the client last read any: a client that reads stays. One connection is left, since a single answer
    may be larger than the limit. `on_cut` is called with the address of each connection that is cut off.
    """

    def __init__(self, limits: UnreadLimits, on_cut: Callable[[str | None], None]) -> None:
        self._limits = limits
        self._on_cut = on_cut
        self._most_patience_seconds = math.inf
        self._all = _Account()
        self._of_address: dict[str, _Account] = {}
        self._waiting: dict[Backlog, None] = {}
        self._next_check: asyncio.TimerHandle | None = None
        self._is_relief_due = False
        self._just_cut_bytes = 0

    @property
    def total_bytes(self) -> int:
        """The bytes in memory that wait to be read."""
        return self._all.total_bytes

    @property
    def connections(self) -> int:
        """The number of connections with unread bytes."""
        return len(self._waiting)

    def wait(self, backlog: Backlog) -> None:
        """Begin to count a connection: some bytes that were written did not leave at once."""
        backlog.is_waiting = True
        backlog.since = asyncio.get_running_loop().time()
        self._waiting[backlog] = None
        self._count(backlog, backlog.writer.get_write_buffer_size())
        if self._next_check is None:
            self._check_later()

    def grow(self, backlog: Backlog, written_bytes: int) -> None:
        """Count more bytes that were written to such a connection."""
        size_bytes = backlog.writer.get_write_buffer_size()
        if size_bytes < backlog.counted_bytes + written_bytes:
            backlog.since = asyncio.get_running_loop().time()
        self._count(backlog, size_bytes)

    def settle(self, backlog: Backlog) -> None:
        """Stop counting a connection: its client has read everything, or left."""
        if backlog.is_waiting:
            backlog.is_waiting = False
            del self._waiting[backlog]
            self._count(backlog, 0)

    def hold(self, backlog: Backlog, body: bytes) -> None:
        """Count a large body that is being sent, until `release`."""
        backlog.body = body
        for account in self._accounts(backlog.address):
            account.take(body)
        self._check(backlog)

    def release(self, backlog: Backlog) -> None:
        """Stop counting the large body: it was sent, or never will be."""
        body, backlog.body = backlog.body, None
        if body is not None:
            for account in self._accounts(backlog.address):
                account.leave(body)
            self._forget_if_empty(backlog.address)

    def has_room(self) -> bool:
        """Whether more may be written in this turn of the event loop; called before each of many writes.
        Connections over a limit are cut off at once. Their bytes stay in memory until the turn ends, so that
        nothing more is written once these reach the limit.
        """
        if self._is_relief_due:
            self._relieve()
        return self._just_cut_bytes <= self._limits.total_bytes

    def hurry(self, patience_seconds: float) -> None:
        """From now on cut off a client that has read nothing for so long, if the limit is longer."""
        self._most_patience_seconds = min(self._most_patience_seconds, patience_seconds)

    def move(self, backlog: Backlog, address: str | None) -> None:
        """Count a proxy's connection to another client, unless bytes of the last one are unread."""
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
        """Cut connections off if a limit is exceeded; soon, since the caller is in the middle of a write."""
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
        limit = self._limits.address_bytes
        full = [address for address, account in self._of_address.items() if account.total_bytes > limit]
        for address in full:
            own = [backlog for backlog in self._waiting if backlog.address == address]
            self._cut_dearest(own, self._of_address[address], limit)
        if self._all.total_bytes > self._limits.total_bytes:
            self._cut_dearest(list(self._waiting), self._all, self._limits.total_bytes)

    def _cut_dearest(self, backlogs: list[Backlog], account: _Account, limit_bytes: int) -> None:
        now = asyncio.get_running_loop().time()
        dearest_first = sorted(backlogs, key=lambda backlog: self._rent(backlog, now), reverse=True)
        for backlog in dearest_first[:-1]:
            if account.total_bytes <= limit_bytes * _RELIEVED_SHARE:
                return
            self._cut(backlog)

    def _rent(self, backlog: Backlog, now: float) -> float:
        share = len(backlog.body) / self._all.bodies[id(backlog.body)] if backlog.body is not None else 0.0
        return (backlog.counted_bytes + share) * (now - backlog.since)

    def _cut(self, backlog: Backlog) -> None:
        if not self._just_cut_bytes:
            asyncio.get_running_loop().call_soon(self._forget_cut)
        self._just_cut_bytes += backlog.counted_bytes
        self.settle(backlog)
        self.release(backlog)
        self._on_cut(backlog.address)
        backlog.writer.abort()

    def _forget_cut(self) -> None:
        self._just_cut_bytes = 0

    def _check_later(self) -> None:
        pause_seconds = min(_CHECK_EVERY_SECONDS, self._limits.patience_seconds / _CHECKS_WITHIN_PATIENCE)
        self._next_check = asyncio.get_running_loop().call_later(pause_seconds, self._check_all)

    def _check_all(self) -> None:
        self._next_check = None
        now = asyncio.get_running_loop().time()
        for backlog in list(self._waiting):
            size_bytes = backlog.writer.get_write_buffer_size()
            if size_bytes < backlog.counted_bytes:
                backlog.since = now
            if now - backlog.since >= min(self._limits.patience_seconds, self._most_patience_seconds):
                self._cut(backlog)
            else:
                self._count(backlog, size_bytes)
        if self._waiting:
            self._check_later()


class _Tally:
    """Counts an event by client address, and logs the sums after a second, then once a minute."""

    def __init__(self, event: str, advice: Callable[[], str]) -> None:
        self._event = event
        self._advice = advice
        self._counts: Counter[str] = Counter()
        self._next_line: asyncio.TimerHandle | None = None

    def count(self, address: str) -> None:
        """Count one event of a client at this address."""
        is_known = address in self._counts or len(self._counts) < _MOST_COUNTED
        self._counts[address if is_known else _OTHERS] += 1
        if self._next_line is None:
            self._next_line = asyncio.get_running_loop().call_later(_SOON_SECONDS, self._write_again)

    def write(self) -> None:
        """Write the line now, if anything was counted."""
        if not self._counts:
            return
        log.warning(
            self._event,
            connections=self._counts.total(),
            addresses=dict(self._counts.most_common(_MOST_ADDRESSES)),
            advice=self._advice(),
        )
        self._counts.clear()

    def _write_again(self) -> None:
        """Write a line; after a minute without an event the next line comes within a second again."""
        self._next_line = None
        if self._counts:
            self.write()
            self._next_line = asyncio.get_running_loop().call_later(_MINUTE_SECONDS, self._write_again)
