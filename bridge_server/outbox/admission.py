"""A limited number of places, shared so that receivers that hang do not delay receivers that answer.

There are three pools, so that none fills another: for hosts that took their last message, for hosts of which
nothing is known, and for messages that were tried before. In a pool that is full, and at a host that has as
many requests as it may have, waiting queues are served in a fair order. Requests that take too long there are
given up, a few at a time, beginning with the client that has the most. Such a request counts as a failure and
is tried again.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from bridge_server.outbox.models import Claimant, Queue
from bridge_server.outbox.places import Place, PlacePool


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of requests under way, and of their time while other queues wait: less time when many wait.

    A retry has its full time: its receiver may only be slow.
    """

    known: int = 64
    strangers: int = 128
    retries: int = 64
    host: int = 16
    waiting: int = 10_000
    patience_seconds: float = 2.0
    patience_in_crowd_seconds: float = 0.5
    patience_with_known_seconds: float = 5.0
    look_every_seconds: float = 0.02


class Admission:
    """Gives places to the queues that ask: `grant` is called with each place, at once or later.

    Channels are the operator's choice and have limits of their own: they get a place without waiting.
    """

    def __init__(
        self, limits: Limits, is_known: Callable[[str], bool], grant: Callable[[Place], None]
    ) -> None:
        self._limits = limits
        self._is_known = is_known
        self._grant = grant
        self._known = PlacePool(limits.known)
        self._strangers = PlacePool(limits.strangers)
        self._retries = PlacePool(limits.retries)
        self._hosts: dict[str, PlacePool] = {}
        self._waiting: dict[Queue, Claimant] = {}
        self._payers: Counter[str] = Counter()
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False
        self.has_turned_away = False

    def __len__(self) -> int:
        return len(self._waiting)

    def close(self) -> None:
        """Give no more places."""
        self._is_closed = True
        self._waiting.clear()
        if self._timer is not None:
            self._timer.cancel()

    def ask(self, claimant: Claimant, *, had_a_turn: bool = False) -> None:
        """Ask for a place for the queue, unless it waits for one already.

        When too many queues wait, it is refused, and must be found in the store again.
        """
        if self._is_closed:
            return
        if not claimant.host:
            self._grant(Place(claimant, None))
            return
        asked = self._waiting.get(claimant.queue)
        if asked is not None:
            if asked.has_failed <= claimant.has_failed:
                return
            self._forget(asked)
        pool, host = self._pool_of(claimant), self._hosts.get(claimant.host)
        is_free_at_host = host is None or (host.has_room and not host.waiting)
        if is_free_at_host and pool.has_room and not pool.waiting:
            self._give(claimant, pool)
        elif len(self._waiting) >= self._limits.waiting and self._payers[_payer(claimant)]:
            self.has_turned_away = True
        else:
            self._let_wait(claimant, pool if host is None or is_free_at_host else host, had_a_turn)

    def is_waiting(self, queue: Queue) -> bool:
        """Whether the queue waits for a place."""
        return queue in self._waiting

    def renew(self, place: Place) -> bool:
        """Keep the place for another request, unless a queue waits for it."""
        if self._is_closed:
            return False
        if place.group is None:
            return True
        host = self._hosts[place.claimant.host]
        if place.group.waiting or host.waiting or place.has_ended:
            return False
        for group in (place.group, host):
            del group.taken[place]
        self._start(place, place.group, host)
        return True

    def leave(self, place: Place) -> None:
        """Give the place back; a waiting queue gets it."""
        pool = place.group
        if pool is None:
            return
        host = self._hosts[place.claimant.host]
        del pool.taken[place], host.taken[place]
        self._serve_host(place.claimant.host)
        self._serve_pool(pool)

    def _give(self, claimant: Claimant, pool: PlacePool) -> None:
        place = Place(claimant, pool)
        host = self._hosts.get(claimant.host)
        if host is None:
            host = self._hosts[claimant.host] = PlacePool(self._limits.host)
        self._start(place, pool, host)
        self._grant(place)

    def _start(self, place: Place, *groups: PlacePool) -> None:
        place.started = asyncio.get_running_loop().time()
        for group in groups:
            group.taken[place] = None

    def _let_wait(self, claimant: Claimant, group: PlacePool, had_a_turn: bool) -> None:
        if len(self._waiting) >= self._limits.waiting:
            self._turn_one_away()
        self._waiting[claimant.queue] = claimant
        self._payers[_payer(claimant)] += 1
        group.waiting.add(_path(claimant), claimant, had_a_turn=had_a_turn)
        self._look_later()

    def _turn_one_away(self) -> None:
        self.has_turned_away = True
        for group in (self._retries, self._strangers, self._known):
            claimant = self._next(group)
            if claimant is not None:
                return

    def _serve_host(self, name: str) -> None:
        host = self._hosts[name]
        for _ in range(host.places - len(host.taken)):
            claimant = self._next(host)
            if claimant is None:
                break
            pool = self._pool_of(claimant)
            if pool.has_room and not pool.waiting:
                self._give(claimant, pool)
            else:
                self._let_wait(claimant, pool, had_a_turn=False)
        if not host.taken and not host.waiting:
            del self._hosts[name]

    def _serve_pool(self, pool: PlacePool) -> None:
        while pool.has_room and (claimant := self._next(pool)) is not None:
            host = self._hosts.get(claimant.host)
            if host is None or host.has_room:
                self._give(claimant, pool)
            else:
                self._let_wait(claimant, host, had_a_turn=False)

    def _next(self, group: PlacePool) -> Claimant | None:
        """Remove and return the queue that is next in the group."""
        while (claimant := group.waiting.take()) is not None:
            if self._waiting.get(claimant.queue) is claimant:
                self._forget(claimant)
                return claimant
        return None

    def _forget(self, claimant: Claimant) -> None:
        del self._waiting[claimant.queue]
        payer = _payer(claimant)
        self._payers[payer] -= 1
        if not self._payers[payer]:
            del self._payers[payer]

    def _pool_of(self, claimant: Claimant) -> PlacePool:
        if claimant.has_failed:
            return self._retries
        return self._known if self._is_known(claimant.host) else self._strangers

    def _look_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limits.look_every_seconds, self._look)

    def _look(self) -> None:
        """Give up requests that take too long where a queue waits for their place."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        patience_seconds = self._patience_seconds()
        for name in [name for name, host in self._hosts.items() if host.waiting]:
            self._serve_host(name)
            if name in self._hosts:
                self._hosts[name].end_late(now, patience_seconds)
        for pool in (self._known, self._strangers, self._retries):
            self._serve_pool(pool)
        self._strangers.end_late(now, patience_seconds)
        self._known.end_late(now, self._limits.patience_with_known_seconds)
        if self._waiting:
            self._look_later()

    def _patience_seconds(self) -> float:
        """The more queues wait, the shorter: then receivers that answer at once are still served at once."""
        limits = self._limits
        share = limits.strangers / max(1, len(self._waiting))
        return max(limits.patience_in_crowd_seconds, min(1.0, share) * limits.patience_seconds)


def _payer(claimant: Claimant) -> str:
    """The unit of fairness: a client's address, or the subject of messages that count to no client."""
    return claimant.client or f" {claimant.queue.name}"


def _path(claimant: Claimant) -> tuple[str, str, str, Queue]:
    return _payer(claimant), claimant.queue.name, claimant.host, claimant.queue
