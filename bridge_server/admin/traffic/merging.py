"""One page of the requests of several processes, each of which numbers its own."""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from bridge_server.admin.neighbours import Reply, listed_processes
from bridge_server.kernel.errors import InvalidInputError

_CURSOR = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(?:,[0-9]{1,15}:[0-9]{1,15}){0,127}", re.ASCII)
_ENDED = 0


class PlaceAtEach:
    """The position of a reader of pages at each process: the number of the last request that was shown."""

    def __init__(self, shown: Mapping[int, int]) -> None:
        self.shown = shown

    def of(self, process: int) -> int | None:
        """The last request of the process that was shown; None: begin with the newest."""
        return self.shown.get(process)

    def has_ended(self, process: int) -> bool:
        """Whether every request of the process was shown."""
        return self.shown.get(process) == _ENDED


def read_cursor(text: str) -> PlaceAtEach:
    """The parameter `after` of a page of all processes. Raises InvalidInputError."""
    if not text:
        return PlaceAtEach({})
    if not _CURSOR.fullmatch(text):
        raise InvalidInputError(f"{text[:40]!r} does not come from `next` of the page before.")
    pairs = [part.split(":") for part in text.split(",")]
    return PlaceAtEach({int(process): int(number) for process, number in pairs})


def page_query(
    cursor: PlaceAtEach, process: int, limit: int, query: Mapping[str, str]
) -> Mapping[str, str] | None:
    """The query for the next page of one process; None if it has no more."""
    if cursor.has_ended(process):
        return None
    after, words = cursor.of(process), query.get("filter")
    return {
        "limit": str(limit),
        **({} if after is None else {"after": str(after)}),
        **({} if words is None else {"filter": words}),
    }


def merged_page(
    cursor: PlaceAtEach,
    own_number: int,
    own: dict[str, Any] | None,
    replies: Sequence[Reply],
    limit: int,
    newest: int,
) -> dict[str, Any]:
    """The newest requests of these pages, each with its process; `newest` is the last change of this one."""
    pages = {reply.number: reply.fields for reply in replies if reply.fields is not None}
    if own is not None:
        pages[own_number] = own
    listed = [
        {**request, "process": number} for number, page in pages.items() for request in page["requests"]
    ]
    shown = sorted(listed, key=lambda each: (each["at"], each["number"]), reverse=True)[:limit]
    return {
        "requests": shown,
        "last": newest,
        "next": _next(cursor, pages, shown),
        "processes": listed_processes(own_number, replies),
    }


def _next(
    cursor: PlaceAtEach, pages: Mapping[int, dict[str, Any]], shown: Sequence[dict[str, Any]]
) -> str | None:
    """The cursor of the page that follows; None if every process has shown all that it has."""
    positions = dict(cursor.shown)
    for number, page in pages.items():
        numbers = [each["number"] for each in shown if each["process"] == number]
        if len(numbers) == len(page["requests"]) and page["next"] is None:
            positions[number] = _ENDED
        elif numbers:
            positions[number] = min(numbers)
    if all(positions.get(number) == _ENDED for number in pages):
        return None
    return ",".join(f"{number}:{at}" for number, at in sorted(positions.items())) or None
