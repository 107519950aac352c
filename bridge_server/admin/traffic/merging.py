"""One list of the requests of several processes, each of which numbers its own."""

from collections.abc import Mapping, Sequence

from bridge_server.admin.merged_pages import PlaceAtEach, merged_page, pages_of
from bridge_server.admin.neighbours import Fields, Reply, listed_processes
from bridge_server.admin.traffic.positions import write_positions
from bridge_server.kernel.rfc3339 import milliseconds_of


def merged_requests(
    cursor: PlaceAtEach, own_number: int, own: Fields | None, replies: Sequence[Reply], limit: int
) -> Fields:
    """The newest requests of these pages, each with its process."""
    pages = pages_of(own_number, own, replies)
    last = write_positions({number: int(page["last"]) for number, page in pages.items()})
    return {**merged_page("requests", cursor, own_number, own, replies, limit), "last": last}


def merged_news(
    positions: Mapping[int, int], own_number: int, own: Fields, replies: Sequence[Reply], limit: int
) -> Fields:
    """The first of the changes after these positions, each with its process, and the positions after them."""
    pages = pages_of(own_number, own, replies)
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
