"""Requests that were answered in production, in batches. Their records are made when somebody looks.

A batch is one text of paths, the bytes of its times and the kinds of the requests: a quarter of the memory
that an object for each request takes. What the record of requests keeps costs every later request a part of
the processor's cache.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from struct import pack

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
    _times: bytes
    """When each began, and how many seconds each took, as numbers of C."""

    def __len__(self) -> int:
        return len(self._kinds)

    @property
    def last(self) -> int:
        """The number of its last request."""
        return self.first + len(self._kinds) - 1

    def newest_first(self, counter_began_at_ms: float) -> Iterator[Recorded]:
        """The requests. The performance counter was 0 at this time of day."""
        paths, times, size = self._paths.split(_BETWEEN_PATHS), memoryview(self._times).cast("d"), len(self)
        for index in range(size - 1, -1, -1):
            exchange = _exchange(self._kinds[index], paths[index], times[size + index])
            number, at_ms = self.first + index, round(counter_began_at_ms + times[index] * 1_000)
            yield Recorded(number, number, at_ms, exchange)


def batch_of(
    first: int, kinds: Sequence[Kind], paths: Sequence[str], began: Sequence[float], took: Sequence[float]
) -> Batch:
    """A batch of requests, at least one, in columns: when each began (of the performance counter), and how
    many seconds it took.
    """
    return Batch(first, kinds, _BETWEEN_PATHS.join(paths), pack(f"{2 * len(kinds)}d", *began, *took))


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
