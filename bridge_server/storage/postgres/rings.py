"""A ring: the events of some commits of one lane, as payloads of NOTIFY.

A payload is a JSON array: the number of the process, the lane, its count of commits before and after, and the
events. Instead of an event it may have "*": anything may have changed.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import orjson

MOST_BYTES = 7_900
"""PostgreSQL refuses payloads from 8,000 bytes on."""
ANYTHING = "*"
_ANYTHING = b'"*"'


class UnreadableRingError(Exception):
    """The payload is not a ring's: another version of the program rings."""


class Ring(NamedTuple):
    """The content of one payload."""

    process: int
    lane: int
    since: int
    until: int
    events: Sequence[Any]
    """The parsed events, or ANYTHING."""


def write_ring(process: int, lane: int, since: int, until: int, events: Sequence[bytes]) -> list[str]:
    """The payloads, each with whole events. Only the last payload says that all events are there."""
    room = MOST_BYTES - len(_payload(process, lane, until, until, ()))
    parts = list(_parts([event if len(event) < room else _ANYTHING for event in events], room))
    first = [_payload(process, lane, since, since, part) for part in parts[:-1]]
    return [part.decode() for part in (*first, _payload(process, lane, since, until, parts[-1]))]


def read_ring(payload: str) -> Ring:
    """Raises UnreadableRingError."""
    try:
        parsed = orjson.loads(payload)
    except ValueError:
        parsed = None
    match parsed:
        case [int(process), int(lane), int(since), int(until), list(events)]:
            return Ring(process, lane, since, until, events)
    raise UnreadableRingError


def _parts(events: Sequence[bytes], room: int) -> Iterator[Sequence[bytes]]:
    part: list[bytes] = []
    size = 0
    for event in events:
        if part and size + len(event) + 1 > room:
            yield part
            part, size = [], 0
        part.append(event)
        size += len(event) + 1
    yield part


def _payload(process: int, lane: int, since: int, until: int, events: Sequence[bytes]) -> bytes:
    return b"[%d,%d,%d,%d,[%s]]" % (process, lane, since, until, b",".join(events))
