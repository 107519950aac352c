"""The requests of all processes on a database: each process keeps a record of those that came to it."""

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from functools import partial
from itertools import islice

from bridge_server.admin.handles import Handles
from bridge_server.admin.merged_pages import page_query, read_cursor
from bridge_server.admin.neighbours import Fields, Neighbours, Reply
from bridge_server.admin.traffic import merging, wire
from bridge_server.admin.traffic.errors import RequestNotKeptError
from bridge_server.admin.traffic.filtering import Filter, read_filter
from bridge_server.admin.traffic.positions import read_position, read_positions
from bridge_server.admin.traffic.stream import TrafficStreams
from bridge_server.kernel.background import cancelled
from bridge_server.web.exchanges import Recorded
from bridge_server.web.traffic import MOST_REQUESTS

TRAFFIC = "/admin/traffic"


class TrafficEverywhere:
    """The lists of requests, of all processes together or of one. Without `neighbours` there is but one.

    `spell` makes the fields of an own request; others answer with all that they have.
    """

    def __init__(
        self, streams: TrafficStreams, spell: wire.Spell, handles: Handles, neighbours: Neighbours | None
    ) -> None:
        self._streams = streams
        self._traffic = streams.traffic
        self._spell = spell
        self._handles = handles
        self._neighbours = neighbours

    async def page(self, words: str, after: str, limit: int, process: str | int | None = None) -> Fields:
        """A page of the requests that pass the filter in `words`, newest first. Raises InvalidInputError."""
        neighbours = self._neighbours
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            query = {"filter": words, "after": after, "limit": str(limit)}
            return await neighbours.ask_one(process, TRAFFIC, query)
        if neighbours is None or process is not None:
            return self._page(self._filter(words), wire.read_number(after), limit)
        return await self._page_of_all(neighbours, words, after, limit)

    async def changes(
        self, words: str, following: wire.Following, limit: int, process: str | int | None = None
    ) -> Fields:
        """What has changed, oldest first; with a wait, once there is something. Raises InvalidInputError."""
        neighbours, since, wait_seconds = self._neighbours, following.since, following.wait_seconds
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            query = {"filter": words, "since": since, "wait": str(wait_seconds), "limit": str(limit)}
            return await neighbours.ask_one(process, TRAFFIC, query, wait_seconds)
        if neighbours is None or process is not None:
            known = (
                wire.read_number(since) if neighbours is None else read_position(since, neighbours.own_number)
            )
            found = await self._news(self._filter(words), known or 0, wait_seconds)
            return wire.news_fields(found, limit, self._traffic.newest(), self._spell)
        return await self._changes_of_all(neighbours, words, following, limit)

    async def one(self, number: int, process: str | int | None = None) -> Fields:
        """One request. Raises RequestNotKeptError, NotFoundError, InvalidInputError, UnavailableError."""
        neighbours = self._neighbours
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            return await neighbours.ask_one(process, f"{TRAFFIC}/{number}", {})
        found = self._traffic.find(number)
        if found is None:
            raise RequestNotKeptError(MOST_REQUESTS)
        return self._spell(found)

    def _page(self, chosen: Filter, after: int | None, limit: int) -> Fields:
        found = list(islice(filter(chosen.passes, self._traffic.before(after)), limit + 1))
        return wire.page_fields(found, limit, self._traffic.newest(), self._spell)

    async def _page_of_all(self, neighbours: Neighbours, words: str, after: str, limit: int) -> Fields:
        cursor, chosen, own = read_cursor(after), self._filter(words), neighbours.own_number
        mine = None if cursor.has_ended(own) else self._page(chosen, cursor.of(own), limit)
        replies = await neighbours.ask_all(TRAFFIC, partial(page_query, cursor, {"filter": words}, limit))
        return merging.merged_requests(cursor, own, mine, replies, limit)

    async def _news(self, chosen: Filter, since: int, wait_seconds: float) -> Sequence[Recorded]:
        """The changes after one that is known, the oldest first; they wait until there is one."""
        traffic = self._traffic
        since = since if since <= traffic.newest() else 0  # the record was cleared

        async def read() -> Sequence[Recorded] | None:
            return [each for each in traffic.changed_after(since) if chosen.passes(each)] or None

        self._streams.rouse()
        changes = await traffic.news(read, wait_seconds) or ()
        return list(reversed(changes))

    async def _changes_of_all(
        self, neighbours: Neighbours, words: str, following: wire.Following, limit: int
    ) -> Fields:
        own, chosen = neighbours.own_number, self._filter(words)
        positions: Mapping[int, int] = read_positions(following.since, own) or {}
        now = asyncio.get_running_loop().time
        ends_at = now() + following.wait_seconds
        while True:
            replies = await neighbours.ask_all(TRAFFIC, partial(_query, words, positions, limit))
            mine = await self._news(chosen, positions.get(own, 0), 0.0)
            page = wire.news_fields(mine, limit, self._traffic.newest(), self._spell)
            found = merging.merged_news(positions, own, page, replies, limit)
            left_seconds = ends_at - now()
            if found["requests"] or left_seconds <= 0:
                return found
            positions = read_positions(found["last"], own) or {}
            await self._some_news(neighbours, words, chosen, positions, left_seconds)

    async def _some_news(
        self,
        neighbours: Neighbours,
        words: str,
        chosen: Filter,
        positions: Mapping[int, int],
        wait_seconds: float,
    ) -> None:
        """Return once some process has news, or the time is over."""

        def query(number: int) -> Mapping[str, str]:
            return {**_query(words, positions, 1, number), "wait": f"{wait_seconds:.3f}"}

        async def own() -> bool:
            return bool(await self._news(chosen, positions.get(neighbours.own_number, 0), wait_seconds))

        questions = await neighbours.questions(TRAFFIC, query, wait_seconds)
        pending = {asyncio.create_task(own())}
        pending |= {asyncio.create_task(_has_news(question)) for question in questions}
        try:
            while pending:
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                if any(task.result() for task in done):
                    return
        finally:
            await cancelled(pending)

    def _filter(self, words: str) -> Filter:
        return read_filter(words, self._handles)


def _query(words: str, positions: Mapping[int, int], limit: int, number: int) -> Mapping[str, str]:
    """What a process is asked for its changes."""
    return {"filter": words, "since": str(positions.get(number, 0)), "limit": str(limit)}


async def _has_news(question: Awaitable[Reply]) -> bool:
    reply = await question
    return reply.fields is not None and bool(reply.fields["requests"])
