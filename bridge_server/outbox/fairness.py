"""A limited number of places for requests under way, shared so that receivers that hang do not delay
receivers that answer; and the fair order of the queues that wait for a place.
"""

import asyncio
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable, Iterable, Sequence
from typing import Any, Generic, TypeVar

from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import Claimant, Queue

Item = TypeVar("Item")

_DEPTH = 4  # of the fair order: payer, subject, host, queue


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
    check_every_seconds: float = 0.02
    grace_seconds: float = 2.0
    """The time that attempts under way have when the server stops."""


class Place:
    """The right to have one request under way, until the place is given back."""

    __slots__ = ("claimant", "group", "has_ended", "limit", "started")

    def __init__(self, claimant: Claimant, group: "PlacePool | None") -> None:
        self.claimant = claimant
        self.group = group
        self.limit: asyncio.Timeout | None = None
        self.started = 0.0
        self.has_ended = False

    def is_late(self, now: float, patience_seconds: float) -> bool:
        """Whether its request has taken longer than the patience and was not given up yet."""
        return not self.has_ended and now - self.started >= patience_seconds

    def end(self, now: float) -> None:
        """Give up the request that is under way."""
        if self.limit is not None and not self.limit.expired():
            self.has_ended = True
            self.limit.reschedule(now)


class PlacePool:
    """Places that are limited together, and the queues that wait for one of them."""

    __slots__ = ("_ended_at", "places", "taken", "waiting")

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken: dict[Place, None] = {}  # in the order of their requests' starts
        self.waiting: FairOrder[Claimant] = FairOrder(_DEPTH)
        self._ended_at = 0.0

    @property
    def has_room(self) -> bool:
        """Whether a place is free."""
        return len(self.taken) < self.places

    def end_late(self, now: float, patience_seconds: float) -> None:
        """If a queue waits, give up requests that take too long: no more of them than let every place change
        hands once within the patience, so that a place is always about to be free.
        """
        turns = int((now - self._ended_at) * self.places / patience_seconds)
        if self.has_room or not self.waiting or not turns:
            return
        late = [place for place in self.taken if place.is_late(now, patience_seconds)]
        if late:
            self._ended_at = now
            for place in self._heaviest_first(late)[: min(turns, max(1, self.places // 16))]:
                place.end(now)

    def _heaviest_first(self, late: Iterable[Place]) -> list[Place]:
        held = [place.claimant for place in self.taken]
        clients = Counter(claimant.client for claimant in held)
        subjects = Counter(claimant.queue.name for claimant in held)
        hosts = Counter(claimant.host for claimant in held)

        def weight(place: Place) -> tuple[int, int, int]:
            whose = place.claimant
            return clients[whose.client] if whose.client else 0, subjects[whose.queue.name], hosts[whose.host]

        return sorted(late, key=weight, reverse=True)


class Admission:
    """Gives places to the queues that ask: `grant` is called with each place, at once or later. Channels are
    the operator's choice and have limits of their own: they get a place without waiting.
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
        """Ask for a place, unless the queue waits for one. If refused, it must be found in the store."""
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
        payer = _payer(claimant)
        self._payers[payer] += 1
        path = payer, claimant.queue.name, claimant.host, claimant.queue
        group.waiting.add(path, claimant, had_a_turn=had_a_turn)
        self._check_later()

    def _turn_one_away(self) -> None:
        self.has_turned_away = True
        for group in (self._retries, self._strangers, self._known):
            if self._next(group) is not None:
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

    def _check_later(self) -> None:
        if self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._limits.check_every_seconds, self._check)

    def _check(self) -> None:
        """Give up requests that take too long where a queue waits for their place."""
        self._timer = None
        now = asyncio.get_running_loop().time()
        limits = self._limits
        # The more queues wait, the shorter: then receivers that answer at once are still served at once.
        share = limits.strangers / max(1, len(self._waiting))
        patience_seconds = max(limits.patience_in_crowd_seconds, min(1.0, share) * limits.patience_seconds)
        for name in [name for name, host in self._hosts.items() if host.waiting]:
            self._serve_host(name)
            if name in self._hosts:
                self._hosts[name].end_late(now, patience_seconds)
        for pool in (self._known, self._strangers, self._retries):
            self._serve_pool(pool)
        self._strangers.end_late(now, patience_seconds)
        self._known.end_late(now, self._limits.patience_with_known_seconds)
        if self._waiting:
            self._check_later()


def _payer(claimant: Claimant) -> str:
    """The unit of fairness: a client's address, or the subject of messages that count to no client."""
    return claimant.client or f" {claimant.queue.name}"


class FairOrder(Generic[Item]):
    """Waiting items in a fair order, by paths of `depth` keys: the client's address or the subject, then
    finer ones.

    On each level every second turn goes to the newest key that had no turn yet. The other turns go to the key
    whose last turn is longest ago and to the oldest key that had no turn. So a new key is served before
    thousands that came at once, and each of these is served as well.
    """

    def __init__(self, depth: int) -> None:
        self._depth = depth
        self._root = _Level()

    def __bool__(self) -> bool:
        return bool(self._root)

    def add(self, path: Sequence[Hashable], item: Item, *, had_a_turn: bool = False) -> None:
        """Let the item wait; an item that waits under this path already is replaced."""
        level = self._root
        for key in path[:-1]:
            level = level.level(key, had_a_turn)
        level.put(path[-1], item, had_a_turn)

    def take(self) -> Item | None:
        """Remove and return the next item in the fair order; None when nothing waits."""
        item: Item | None = _take(self._root, self._depth) if self._root else None
        return item


class _Level:
    __slots__ = ("_newcomers", "_regulars", "_turn")

    def __init__(self) -> None:
        self._newcomers: OrderedDict[Hashable, Any] = OrderedDict()
        self._regulars: OrderedDict[Hashable, Any] = OrderedDict()
        self._turn = 0

    def __bool__(self) -> bool:
        return bool(self._newcomers or self._regulars)

    def level(self, key: Hashable, had_a_turn: bool) -> "_Level":
        found: _Level | None = self._newcomers.get(key) or self._regulars.get(key)
        if found is None:
            found = _Level()
            self.put(key, found, had_a_turn)
        return found

    def put(self, key: Hashable, value: object, had_a_turn: bool) -> None:
        place = self._newcomers if key in self._newcomers else self._regulars
        if key not in place and not had_a_turn:
            place = self._newcomers
        place[key] = value

    def next(self) -> tuple[Hashable, Any]:
        self._turn = (self._turn + 1) % 4
        if self._regulars and (self._turn == 2 or not self._newcomers):
            return self._regulars.popitem(last=False)
        return self._newcomers.popitem(last=self._turn != 0)


def _take(level: _Level, depth: int) -> Any:
    key, value = level.next()
    if depth == 1:
        return value
    item = _take(value, depth - 1)
    if value:
        level.put(key, value, had_a_turn=True)
    return item
