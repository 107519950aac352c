"""Pages of a list that several processes keep."""

from typing import Any

from bridge_server.admin.other_processes import Reply, merged_page, page_query, read_cursor
from tests.support.rows import each_row

OWN, OTHER = 1, 2
BEGAN = {OWN: {1: 10, 2: 40, 3: 20, 4: 50, 5: 30}, OTHER: {1: 35, 2: 15, 3: 45}}
"""By process and number, the second at which each entry began: a slow request ends after a later one."""


def page_of(process: int, query: dict[str, str]) -> dict[str, Any]:
    """A page as one process answers it."""
    before, limit = int(query.get("after", 99)), int(query["limit"])
    numbers = sorted((number for number in BEGAN[process] if number < before), reverse=True)
    entries = [
        {"number": each, "at": f"2026-01-01T00:00:{BEGAN[process][each]}Z"} for each in numbers[:limit]
    ]
    return {"entries": entries, "next": entries[-1]["number"] if len(numbers) > limit else None}


@each_row("limit", [1, 2, 3, 4, 8])
def test_every_entry_is_on_one_page_in_the_order_of_its_process(limit: int) -> None:
    shown: list[tuple[int, int]] = []
    after: str | None = ""
    while after is not None:
        cursor = read_cursor(after)
        queries = {each: page_query(cursor, {}, limit, each) for each in (OWN, OTHER)}
        own, other = (
            None if query is None else page_of(each, dict(query)) for each, query in queries.items()
        )
        replies = [Reply(OTHER, "", other)] if other is not None else []
        page = merged_page("entries", cursor, OWN, own, replies, limit)
        assert len(page["entries"]) <= limit
        shown += [(each["process"], each["number"]) for each in page["entries"]]
        after = page["next"]

    assert [number for process, number in shown if process == OWN] == [5, 4, 3, 2, 1]
    assert [number for process, number in shown if process == OTHER] == [3, 2, 1]
