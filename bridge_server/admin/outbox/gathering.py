"""Attempts to deliver of all processes on a database: each keeps those that it has made."""

from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import quote

from bridge_server.admin.merged_pages import merged_page, page_query, read_cursor
from bridge_server.admin.neighbours import Fields, Neighbours, Question, Reply, of_all
from bridge_server.admin.outbox import wire
from bridge_server.admin.outbox.service import OutboxDesk

_OUTBOX = "/admin/outbox"
_ATTEMPTS = f"{_OUTBOX}/attempts"
_BEFORE_ALL = 1
"""No attempt has a lower number: of a process whose attempts were all shown, the outcomes are asked for."""


class AttemptsEverywhere:
    """The last attempts, of all processes together or of one. Without `neighbours` there is but one."""

    def __init__(self, desk: OutboxDesk, neighbours: Neighbours | None) -> None:
        self._desk = desk
        self.neighbours = neighbours

    async def page(
        self, query: Mapping[str, str], after: str, limit: int, process: str | int | None = None
    ) -> Fields:
        """A page of the attempts that the query chooses, newest first. Raises InvalidInputError."""
        neighbours = self.neighbours
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            asked = {**query, "after": after, "limit": str(limit)}
            return await neighbours.ask_one(process, _ATTEMPTS, asked)
        if neighbours is None or process is not None:
            return self._page(query, wire.read_attempt_place(after), limit)
        return await self._page_of_all(neighbours, query, after, limit)

    async def one(self, number: str, process: str | int | None = None) -> Fields:
        """One attempt. Raises AttemptNotFoundError, NotFoundError, InvalidInputError, UnavailableError."""
        neighbours, found = self.neighbours, wire.read_attempt(number)
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            return await neighbours.ask_one(process, f"{_ATTEMPTS}/{found}", {})
        return wire.whole_attempt_fields(self._desk.attempt(found))

    async def message(self, row_id: int, message_id: str, process: str | int | None = None) -> Fields:
        """A message with the attempts to deliver it. Raises MessageNotFoundError."""

        async def own() -> Fields:
            found = await self._desk.message(row_id, message_id)
            headers, attempts = self._desk.headers(found), self._desk.attempts_of(message_id)
            return wire.attempted_fields(found, headers, attempts, self._desk.now_ms())

        question = Question(f"{_OUTBOX}/{row_id}-{quote(message_id, safe='')}")
        return await of_all(self.neighbours, process, question, own, wire.merged_message)

    def _page(self, query: Mapping[str, str], before: int | None, limit: int) -> Fields:
        found = self._desk.attempts(wire.read_attempt_filter(query), before, limit)
        return wire.attempt_page_fields(found, self._desk.outcomes())

    async def _page_of_all(
        self, neighbours: Neighbours, query: Mapping[str, str], after: str, limit: int
    ) -> Fields:
        cursor, own = read_cursor(after), neighbours.own_number

        def asked(process: int) -> Mapping[str, str]:
            ended = {"after": str(_BEFORE_ALL), "limit": "1"}
            return page_query(cursor, query, limit, process) or ended

        mine = self._page(query, _BEFORE_ALL if cursor.has_ended(own) else cursor.of(own), limit)
        replies = await neighbours.ask_all(_ATTEMPTS, asked)
        merged = merged_page("attempts", cursor, own, mine, replies, limit)
        return {**merged, "outcomes": _added([mine["outcomes"], *_outcomes(replies)])}


def _outcomes(replies: Iterable[Reply]) -> list[Mapping[str, Mapping[str, int]]]:
    return [each.fields["outcomes"] for each in replies if each.fields is not None]


def _added(found: Iterable[Mapping[str, Mapping[str, int]]]) -> Fields:
    """By channel, how many attempts of all processes had each outcome."""
    total: dict[str, Counter[str]] = {}
    for outcomes in found:
        for channel, counts in outcomes.items():
            total.setdefault(channel, Counter()).update(counts)
    return {channel: dict(counts) for channel, counts in total.items()}
