"""Pages of a list that several processes keep, each of which numbers its own entries; newest first."""

import re
from collections.abc import Mapping, Sequence

from bridge_server.admin.neighbours import Fields, Reply, listed_processes
from bridge_server.kernel.errors import InvalidInputError

_PAIRS = re.compile(r"[0-9]{1,15}:[0-9]{1,15}(?:,[0-9]{1,15}:[0-9]{1,15}){0,127}", re.ASCII)
_ENDED = 0


class PlaceAtEach:
    """How far a reader of pages has come at each process: the number of the last entry that was shown."""

    def __init__(self, shown: Mapping[int, int]) -> None:
        self.shown = shown

    def of(self, process: int) -> int | None:
        """The last entry of the process that was shown; None: begin with the newest."""
        return self.shown.get(process)

    def has_ended(self, process: int) -> bool:
        """Whether every entry of the process was shown."""
        return self.shown.get(process) == _ENDED


def read_pairs(text: str) -> dict[int, int] | None:
    """The numbers of processes, each with another number, in a text such as `1:12,2:7`; None in any other."""
    if not _PAIRS.fullmatch(text):
        return None
    pairs = [part.split(":") for part in text.split(",")]
    return {int(process): int(number) for process, number in pairs}


def write_pairs(pairs: Mapping[int, int]) -> str:
    """The text that `read_pairs` reads; empty for none."""
    return ",".join(f"{process}:{number}" for process, number in sorted(pairs.items()))


def read_cursor(text: str) -> PlaceAtEach:
    """The parameter `after` of a page of all processes. Raises InvalidInputError."""
    shown = read_pairs(text) if text else {}
    if shown is None:
        raise InvalidInputError(f"{text[:40]!r} does not come from `next` of the page before.")
    return PlaceAtEach(shown)


def page_query(
    cursor: PlaceAtEach, query: Mapping[str, str], limit: int, process: int
) -> Mapping[str, str] | None:
    """The query for the next page of one process; None if it has no more."""
    if cursor.has_ended(process):
        return None
    after = cursor.of(process)
    return {**query, "limit": str(limit), **({} if after is None else {"after": str(after)})}


def pages_of(own_number: int, own: Fields | None, replies: Sequence[Reply]) -> dict[int, Fields]:
    """The answers by the numbers of their processes."""
    pages = {reply.number: reply.fields for reply in replies if reply.fields is not None}
    return pages if own is None else {**pages, own_number: own}


def merged_page(
    name: str, cursor: PlaceAtEach, own_number: int, own: Fields | None, replies: Sequence[Reply], limit: int
) -> Fields:
    """The newest entries of these pages, which each has under the name, with their processes."""
    pages = pages_of(own_number, own, replies)
    shown = _newest_first(name, pages)[:limit]
    return {
        name: shown,
        "next": _next(name, cursor, pages, shown),
        "processes": listed_processes(own_number, replies),
    }


def _newest_first(name: str, pages: Mapping[int, Fields]) -> list[Fields]:
    """The entries by time. Entries of one process stay in the order of their numbers.

    A slow request has a greater number than a quick one that began after it. The cursor has one number of a
    process, so a page that was cut between them in the order of time alone would skip one for good.
    """
    found = []
    for process, page in pages.items():
        moment = ""
        for entry in reversed(page[name]):
            moment = max(moment, entry["at"])
            found.append((moment, entry["number"], {**entry, "process": process}))
    return [entry for _, _, entry in sorted(found, key=lambda each: each[:2], reverse=True)]


def _next(name: str, cursor: PlaceAtEach, pages: Mapping[int, Fields], shown: Sequence[Fields]) -> str | None:
    """The cursor of the page that follows; None if every process has shown all that it has."""
    places = dict(cursor.shown)
    for process, page in pages.items():
        numbers = [each["number"] for each in shown if each["process"] == process]
        if len(numbers) == len(page[name]) and page["next"] is None:
            places[process] = _ENDED
        elif numbers:
            places[process] = min(numbers)
    if all(places.get(process) == _ENDED for process in pages):
        return None
    return write_pairs(places) or None
