"""One list of the requests of several processes, each of which numbers its own."""

from collections.abc import Mapping, Sequence

from bridge_server.admin.neighbours import Fields, Reply, listed_processes
from bridge_server.admin.traffic.positions import read_pairs, write_positions
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.rfc3339 import milliseconds_of

_ENDED = 0


class PlaceAtEach:
    """How far a reader of pages has come at each process: the number of the last request that was shown."""

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
    shown = read_pairs(text)
    if shown is None:
        raise InvalidInputError(f"{text[:40]!r} does not come from `next` of the page before.")
    return PlaceAtEach(shown)


def page_query(cursor: PlaceAtEach, process: int, limit: int, words: str) -> Mapping[str, str] | None:
    """The query for the next page of one process; None if it has no more."""
    if cursor.has_ended(process):
        return None
    after = cursor.of(process)
    return {"limit": str(limit), "filter": words, **({} if after is None else {"after": str(after)})}


def merged_page(
    cursor: PlaceAtEach, own_number: int, own: Fields | None, replies: Sequence[Reply], limit: int
) -> Fields:
    """The newest requests of these pages, each with its process."""
    pages = _answered(own_number, own, replies)
    shown = sorted(_listed(pages), key=lambda each: (each["at"], each["number"]), reverse=True)[:limit]
    return {
        "requests": shown,
        "last": write_positions({number: int(page["last"]) for number, page in pages.items()}),
        "next": _next(cursor, pages, shown),
        "processes": listed_processes(own_number, replies),
    }


def merged_news(
    positions: Mapping[int, int], own_number: int, own: Fields, replies: Sequence[Reply], limit: int
) -> Fields:
    """The first of the changes after these positions, each with its process, and the positions after them."""
    pages = _answered(own_number, own, replies)
    shown = sorted(_in_order(pages), key=lambda pair: pair[0])[:limit]
    requests = [request for _, request in shown]
    return {
        "requests": requests,
        "last": write_positions({**positions, **_positions_after(positions, pages, requests)}),
        "processes": listed_processes(own_number, replies),
    }


def changed_at_ms(request: Fields) -> int:
    """The moment of a request's last change: its answer, or its beginning while it waits."""
    return milliseconds_of(request["at"]) + round(request["milliseconds"] or 0)


def _answered(own_number: int, own: Fields | None, replies: Sequence[Reply]) -> dict[int, Fields]:
    pages = {reply.number: reply.fields for reply in replies if reply.fields is not None}
    return pages if own is None else {**pages, own_number: own}


def _listed(pages: Mapping[int, Fields]) -> list[Fields]:
    return [{**request, "process": number} for number, page in pages.items() for request in page["requests"]]


def _in_order(pages: Mapping[int, Fields]) -> list[tuple[int, Fields]]:
    """The requests with the times that order them. A process's own stay in the order of their changes."""
    found = []
    for number, page in pages.items():
        moment_ms = 0
        for request in page["requests"]:
            moment_ms = max(moment_ms, changed_at_ms(request))
            found.append((moment_ms, {**request, "process": number}))
    return found


def _positions_after(
    positions: Mapping[int, int], pages: Mapping[int, Fields], shown: Sequence[Fields]
) -> dict[int, int]:
    """The last change of each process that is known with these requests."""
    after = {}
    for number, page in pages.items():
        changes = [each["change"] for each in shown if each["process"] == number]
        is_whole = len(changes) == len(page["requests"])
        after[number] = int(page["last"]) if is_whole else max([positions.get(number, 0), *changes])
    return after


def _next(cursor: PlaceAtEach, pages: Mapping[int, Fields], shown: Sequence[Fields]) -> str | None:
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
