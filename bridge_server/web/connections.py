"""Every open connection: the number per address, the longest silence, and the end of all of them.

`Guarded` is a connection as this module sees it; `connection` implements it.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass
from itertools import islice, takewhile
from typing import Protocol

from aiohttp import web

from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.tally import Tally
from bridge_server.web.unread import Unread, UnreadLimits

BODY_GRACE_SECONDS = 2.0
"""The longest time in which the rest of a body may arrive once the server stops."""

_LAST_CALL_SECONDS = 4.0
"""The time after that moment at which open connections are cut off."""

_LAST_PATIENCE_SECONDS = 1.0
"""The longest time for which a client may read nothing meanwhile."""

_ARRIVAL_TICK_SECONDS = 0.02
_LOOK_EVERY_SECONDS = 1.0
_LOOKS_FOR_IDLE = 64
_EXEMPT = "exempt"


@dataclass(slots=True)
class ConnectionLimits:
    """Open connections per client address and in all, seconds until the first request, what may be unread.

    They may be changed at any time. Over the number in all no connection is refused, but each new one ends
    the oldest that is still silent, or else a connection that waits for its next request.
    """

    per_address: int
    in_all: int
    head_seconds: float
    unread: UnreadLimits


class Guarded(Protocol):
    """A connection as it is seen from here."""

    @property
    def peer_key(self) -> str | None:
        """The key of its address; None if no limit per address applies to it."""
        ...

    @property
    def has_asked(self) -> bool:
        """Whether the head of a request has come."""
        ...

    @property
    def is_idle(self) -> bool:
        """Whether everything that it asked for was answered."""
        ...

    @property
    def is_receiving(self) -> bool:
        """Whether the body of a request is on its way."""
        ...

    def hang_up(self) -> None:
        """Close it regularly, without an answer."""
        ...

    def give_up_receiving(self) -> None:
        """Have the request whose body is on its way answered without the rest."""
        ...

    def cut(self) -> None:
        """Break it off."""
        ...


class Connections:
    """The open connections of one server, and their limits."""

    def __init__(self, addresses: ClientAddresses, limits: ConnectionLimits) -> None:
        self.addresses = addresses
        self.is_stopping = False
        self.refused = 0
        self.silent = 0
        self.cut = 0
        self.unread = Unread(limits.unread, self._note_cut)
        self._limits = limits
        self._open: dict[Guarded, None] = {}
        self._open_from: Counter[str] = Counter()
        self._silent_since: dict[Guarded, float] = {}
        self._next_look: asyncio.TimerHandle | None = None
        self._refusals = Tally(
            "connections_refused",
            lambda: f"max_address_connections is {limits.per_address}: see trusted_proxies too",
        )
        self._room_made = Tally(
            "connections_made_room",
            lambda: f"more than {limits.in_all} are open: raise the limit of open files (LimitNOFILE=)",
        )
        self._cuts = Tally("unread_connections_cut", lambda: "their clients do not read their answers")

    @property
    def open(self) -> int:
        """The number of connections."""
        return len(self._open)

    def open_from(self, address: str) -> int:
        """The number of connections of the clients that are counted under this address."""
        return self._open_from.get(address, 0)

    def all(self) -> list[Guarded]:
        """The connections that are open."""
        return list(self._open)

    def admit(self, connection: Guarded) -> bool:
        """Whether the address may have one more. An admitted connection must be forgotten in the end."""
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
            self._make_room()
        self._silent_since[connection] = loop.time()
        if self._next_look is None:
            self._look_later(self._limits.head_seconds)
        return True

    def forget(self, connection: Guarded) -> None:
        """Forget a connection that is closed."""
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
        """The server stops: each answer is its connection's last, and in the end all are cut off."""
        if not self.is_stopping:
            self.is_stopping = True
            self._refusals.tell()
            self._room_made.tell()
            self._cuts.tell()
            self.unread.hurry(_LAST_PATIENCE_SECONDS)
            asyncio.get_running_loop().call_later(_LAST_CALL_SECONDS, self._cut_all)

    async def bodies_received(self, grace_seconds: float = BODY_GRACE_SECONDS) -> None:
        """Wait for bodies that are on their way; in the end their requests are answered 503 without them."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + grace_seconds
        while receiving := [connection for connection in self._open if connection.is_receiving]:
            if loop.time() >= deadline:
                for connection in receiving:
                    connection.give_up_receiving()
                return
            await asyncio.sleep(_ARRIVAL_TICK_SECONDS)

    def _end_silent(self) -> None:
        """Close connections on which no request came in time, the oldest first."""
        self._next_look = None
        latest = asyncio.get_running_loop().time() - self._limits.head_seconds
        for connection in list(
            takewhile(lambda each: self._silent_since[each] <= latest, self._silent_since)
        ):
            del self._silent_since[connection]
            if not connection.has_asked:
                self.silent += 1
                connection.hang_up()
        if self._silent_since:
            earliest = next(iter(self._silent_since.values()))
            self._look_later(max(earliest - latest, self._limits.head_seconds / 10))

    def _look_later(self, pause_seconds: float) -> None:
        """Look for silent connections after the pause, and soon: the limit may be lowered meanwhile."""
        pause_seconds = min(pause_seconds, _LOOK_EVERY_SECONDS)
        self._next_look = asyncio.get_running_loop().call_later(pause_seconds, self._end_silent)

    def _make_room(self) -> None:
        """Close an unused connection, if there is one: the longest silent, else an old idle one."""
        unused = self._longest_silent() or self._old_idle()
        if unused is not None:
            self.silent += 1
            self._room_made.count(unused.peer_key or _EXEMPT)
            unused.hang_up()

    def _longest_silent(self) -> Guarded | None:
        while self._silent_since:
            oldest = next(iter(self._silent_since))
            del self._silent_since[oldest]
            if not oldest.has_asked:
                return oldest
        return None

    def _old_idle(self) -> Guarded | None:
        """An idle connection among the oldest. Busy ones go behind all others, so that all are tried."""
        for connection in list(islice(self._open, _LOOKS_FOR_IDLE)):
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
