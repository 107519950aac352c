"""Places for requests under way, in pools of a limited size."""

import asyncio
from collections import Counter
from collections.abc import Iterable

from bridge_server.outbox.fair_order import FairOrder
from bridge_server.outbox.models import Claimant

_DEPTH = 4  # of the fair order: payer, subject, host, queue


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
