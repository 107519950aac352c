"""Requests that were answered in production, kept in batches from which all else is made when somebody looks.

A batch is one text of paths, one array of times and the kinds of the requests: a quarter of the memory that
an object for each request takes. What the record of requests keeps costs every later request a part of the
processor's cache.
"""

from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import orjson

from bridge_server.web.exchanges import FIRST_FAILURE, Exchange, Recorded

_BETWEEN_PATHS = "\n"
"""No path of HTTP has it."""


@dataclass(slots=True)
class Kind:
    """What requests have in common. `about` are the bytes that name a session, a call or a fault."""

    who: str
    method: str
    route: str
    status: int
    about: bytes = b""


@dataclass(frozen=True, slots=True)
class Batch:
    """Requests with successive numbers, from `first` on, in the order of their answers."""

    first: int
    _kinds: Sequence[Kind]
    _paths: str
    _times: Sequence[float]

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def last(self) -> int:
        """The number of its last request."""
        return self.first + len(self._kinds) - 1

    def newest_first(self, counter_began_at_ms: float) -> Iterator[Recorded]:
        """The requests. The performance counter was 0 at this time of day."""
        paths = self._paths.split(_BETWEEN_PATHS)
        for index in range(len(paths) - 1, -1, -1):
            began, seconds = self._times[2 * index : 2 * index + 2]
            exchange = _exchange(self._kinds[index], paths[index], seconds)
            number = self.first + index
            yield Recorded(number, number, round(counter_began_at_ms + began * 1_000), exchange)


class Columns:
    """The next batch. The observer of requests appends to each column itself."""

    def __init__(self) -> None:
        self.kinds: list[Kind] = []
        self.paths: list[str] = []
        """As they were sent, with their queries."""
        self.times: list[float] = []
        """When each began, of the performance counter, and how many seconds it took."""

    def batch(self, first: int) -> Batch:
        """A batch of what has come since the last one, at least one request."""
        made = Batch(first, tuple(self.kinds), _BETWEEN_PATHS.join(self.paths), array("d", self.times))
        self.clear()
        return made

    def clear(self) -> None:
        """Forget what has come."""
        self.kinds.clear()
        self.paths.clear()
        self.times.clear()


def _exchange(kind: Kind, path: str, seconds: float) -> Exchange:
    return Exchange(
        kind.who,
        kind.method,
        path,
        kind.route,
        kind.status,
        round(seconds * 1_000, 1),
        gist=_title(kind),
        about=kind.about,
    )


def _title(kind: Kind) -> str:
    """The title of the problem that answers a failed request; its detail may quote what the client sent."""
    if kind.status < FIRST_FAILURE or not kind.about:
        return ""
    try:
        return str(orjson.loads(kind.about)["title"])
    except (ValueError, TypeError, KeyError):
        return ""
