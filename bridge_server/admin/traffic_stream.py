"""The record of requests as server-sent events, for the operators who look at it now.

Requests pile up for a moment and are written together, the newest hundred at most, and a hundred a second
while there are more: what a stream costs does not grow with the traffic.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import partial
from itertools import islice
from typing import TypeAlias

import orjson

from bridge_server.admin.other_processes import (
    Fields,
    Neighbours,
    Reply,
    changed_at_ms,
    merged_news,
    merged_requests,
    page_query,
    read_cursor,
    read_position,
    read_positions,
    write_positions,
)
from bridge_server.admin.rows import Handles
from bridge_server.admin.traffic_records import (
    Filter,
    Following,
    RequestNotKeptError,
    Spell,
    TooManyFollowersError,
    news_fields,
    page_fields,
    read_filter,
    read_number,
)
from bridge_server.kernel.background import cancelled, running
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.values import dataclass
from bridge_server.storage.database import Process
from bridge_server.web.answers import KEEP_ALIVE, EventStream, piece
from bridge_server.web.traffic import MOST_REQUESTS, Recorded, TrafficLog

MOST_STREAMS = 16
MOST_INNER_STREAMS = 256
"""Streams that other processes have open, one for each of their own streams."""
MOST_AT_ONCE = 100
"""Requests in one batch of events after a quiet moment; of the others only the number is sent."""
MOST_IN_TURN = 25
"""Requests in each batch while requests go on: nobody reads more, and each costs a third of a poll."""

_PAUSE_SECONDS = 0.25
_PAUSES_BETWEEN_KEEP_ALIVES = 60


class UnseenChanges:
    """The changes that a reader of the record has not seen yet, as far as its allowance goes."""

    def __init__(self, traffic: TrafficLog, chosen: Filter, position: int) -> None:
        self._traffic = traffic
        self._chosen = chosen
        self.position = position
        self._allowance = MOST_AT_ONCE

    def take(self) -> tuple[Sequence[Recorded], int]:
        """What has changed since the last time, oldest first, and how many changes are left out."""
        self._allowance = min(MOST_AT_ONCE, self._allowance + MOST_IN_TURN)
        last = self._traffic.newest()
        if self.position > last:  # the record was cleared
            self.position = 0
        if last == self.position:
            return (), 0
        changes = self._traffic.changed_after(self.position)
        found = list(islice(filter(self._chosen.passes, changes), self._allowance))
        skipped = found[-1].change - self.position - 1 if len(found) == self._allowance else 0
        self._allowance -= len(found)
        self.position = last
        return found[::-1], max(0, skipped)


class OpenStream:
    """One stream. It belongs to the streams until `leave`."""

    def __init__(self, streams: "TrafficStreams", *, is_inner: bool = False) -> None:
        """Another process opens an `is_inner` one, for a stream of its own."""
        self.is_inner = is_inner
        self._streams = streams
        self._outlet: EventStream | None = None
        self._ended = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        """Stay open for `push` until the stream ends."""
        self._outlet = outlet
        self.push()
        await self._ended.wait()

    def push(self) -> None:
        """Write what has changed since the last time."""
        raise NotImplementedError

    def keep_alive(self) -> None:
        """Write a comment, which clients ignore."""
        if self._outlet is not None:
            self._outlet.push(piece(KEEP_ALIVE))

    def end(self) -> None:
        """End the stream in good order."""
        if self._outlet is not None:
            self._outlet.hurry()
        self._ended.set()

    def leave(self) -> None:
        """The connection is closed."""
        self._streams.forget(self)

    def _write(self, events: list[bytes], skipped: int) -> None:
        if skipped:
            events.append(b'event: skipped\ndata: {"changes":%d}\n\n' % skipped)
        if events and self._outlet is not None:
            self._outlet.push(piece(b"".join(events)))


class TrafficStream(OpenStream):
    """A stream of what this process records."""

    def __init__(self, streams: "TrafficStreams", changes: UnseenChanges, *, is_inner: bool = False) -> None:
        super().__init__(streams, is_inner=is_inner)
        self._changes = changes

    def push(self) -> None:
        if self._outlet is not None:
            found, skipped = self._changes.take()
            self._write([self._streams.event(each) for each in found], skipped)


class TrafficStreams:
    """Every open stream. `push_forever` must be running."""

    def __init__(self, traffic: TrafficLog, spell: Spell) -> None:
        self.traffic = traffic
        self.spell = spell
        self._open: dict[OpenStream, None] = {}
        self._is_closed = False
        self._roused = asyncio.Event()
        self._events: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, chosen: Filter, last_event: int | None, *, is_inner: bool = False) -> TrafficStream:
        """Open a stream of this process's changes after `last_event`; None: of the changes from now on.

        The caller must call the stream's `leave`. Raises TooManyFollowersError.
        """
        stream = TrafficStream(self, self.changes(chosen, last_event), is_inner=is_inner)
        self.admit(stream)
        return stream

    def changes(self, chosen: Filter, last_event: int | None) -> UnseenChanges:
        """The changes after `last_event`; None: those from now on."""
        return UnseenChanges(
            self.traffic, chosen, self.traffic.newest() if last_event is None else last_event
        )

    def admit(self, stream: OpenStream) -> None:
        """Have the stream pushed from now on, until its `leave` is called. Raises TooManyFollowersError."""
        limit = MOST_INNER_STREAMS if stream.is_inner else MOST_STREAMS
        if sum(each.is_inner is stream.is_inner for each in self._open) >= limit:
            raise TooManyFollowersError(limit)
        self._open[stream] = None
        self.rouse()
        if self._is_closed:
            stream.end()

    def rouse(self) -> None:
        """Have `push_forever` look soon: a request waits for news."""
        self._roused.set()

    def forget(self, stream: OpenStream) -> None:
        """Forget a stream that is over."""
        self._open.pop(stream, None)

    def close(self) -> None:
        """End every stream, also streams that join later: the server stops."""
        self._is_closed = True
        self.end_all()

    def end_all(self) -> None:
        """End every stream; clients may open others."""
        for stream in list(self._open):
            stream.end()

    def event(self, recorded: Recorded) -> bytes:
        """A request as an event, which is spelled once for all streams."""
        found = self._events.get(recorded.change)
        if found is None:
            text = orjson.dumps(self.spell(recorded))
            found = b"id: %d\nevent: request\ndata: %b\n\n" % (recorded.change, text)
            self._events[recorded.change] = found
        return found

    async def push_forever(self) -> None:
        """Push what has changed to every stream, and wake long polls, a few times a second."""
        known, pauses = 0, 0
        while True:
            if not self._open and not self.traffic.is_followed:
                self._roused.clear()
                await self._roused.wait()
            await asyncio.sleep(_PAUSE_SECONDS)
            pauses += 1
            if self.traffic.newest() != known:
                known = self.traffic.newest()
                self.traffic.announce()
            for stream in list(self._open):
                stream.push()
                if pauses % _PAUSES_BETWEEN_KEEP_ALIVES == 0:
                    stream.keep_alive()
            self._events.clear()


# The requests of all processes on a database: each process keeps a record of those that came to it.

TRAFFIC = "/admin/traffic"


class TrafficEverywhere:
    """The lists of requests, of all processes together or of one. Without `neighbours` there is but one.

    `spell` makes the fields of an own request; others answer with all that they have.
    """

    def __init__(
        self,
        streams: TrafficStreams,
        spell: Spell,
        handles: Handles,
        neighbours: Neighbours | None,
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
            return self._page(self._filter(words), read_number(after), limit)
        return await self._page_of_all(neighbours, words, after, limit)

    async def changes(
        self, words: str, following: Following, limit: int, process: str | int | None = None
    ) -> Fields:
        """What has changed, oldest first; with a wait, once there is something. Raises InvalidInputError."""
        neighbours, since, wait_seconds = self._neighbours, following.since, following.wait_seconds
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            query = {"filter": words, "since": since, "wait": str(wait_seconds), "limit": str(limit)}
            return await neighbours.ask_one(process, TRAFFIC, query, wait_seconds)
        if neighbours is None or process is not None:
            known = read_number(since) if neighbours is None else read_position(since, neighbours.own_number)
            found = await self._news(self._filter(words), known or 0, wait_seconds)
            return news_fields(found, limit, self._traffic.newest(), self._spell)
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
        return page_fields(found, limit, self._traffic.newest(), self._spell)

    async def _page_of_all(self, neighbours: Neighbours, words: str, after: str, limit: int) -> Fields:
        cursor, chosen, own = read_cursor(after), self._filter(words), neighbours.own_number
        mine = None if cursor.has_ended(own) else self._page(chosen, cursor.of(own), limit)
        replies = await neighbours.ask_all(TRAFFIC, partial(page_query, cursor, {"filter": words}, limit))
        return merged_requests(cursor, own, mine, replies, limit)

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
        self, neighbours: Neighbours, words: str, following: Following, limit: int
    ) -> Fields:
        own, chosen = neighbours.own_number, self._filter(words)
        positions: Mapping[int, int] = read_positions(following.since, own) or {}
        now = asyncio.get_running_loop().time
        ends_at = now() + following.wait_seconds
        while True:
            replies = await neighbours.ask_all(TRAFFIC, partial(_query, words, positions, limit))
            mine = await self._news(chosen, positions.get(own, 0), 0.0)
            page = news_fields(mine, limit, self._traffic.newest(), self._spell)
            found = merged_news(positions, own, page, replies, limit)
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


# The records of all processes on a database as one stream, in the order of time.
#
# The process that answers reads the streams of the others. What comes is kept for a moment, so that a change
# of one process is not written before an earlier change of another.

_STREAM = f"{TRAFFIC}/stream"
_LOOK_SECONDS = 2.0
_AGAIN_SECONDS = 1.0
_KEPT_MS = 500
"""Longer than a process gathers changes before it sends them, so that those of all processes have come."""

Respell: TypeAlias = Callable[[Fields], Fields]
"""Makes the JSON of a request of this stream, of what another process answers of it."""


@dataclass(frozen=True, slots=True)
class WantedStream:
    """What a stream is to have: the filter, also in words; the process, None for all; and the last known
    change of each process. Without `positions` the stream begins now.
    """

    chosen: Filter
    words: str
    process: int | None
    positions: Mapping[int, int] | None

    def takes(self, process: int) -> bool:
        """Whether the stream is to have what this process records."""
        return self.process in (None, process)


@dataclass(frozen=True, slots=True)
class _Line:
    """A request as it is written; `moment_ms` never falls from one line of a process to its next."""

    moment_ms: int
    process: int
    change: int
    fields: Fields


@dataclass(slots=True)
class _Followed:
    """What has come from one process and is not written yet. `read` is the last change that came."""

    read: int | None
    lines: deque[_Line] = field(default_factory=deque)
    reading: asyncio.Task[None] | None = None
    latest_ms: int = 0


class StreamOfAll(OpenStream):
    """A stream of what all processes record, or another one does."""

    def __init__(
        self, streams: TrafficStreams, neighbours: Neighbours, wanted: WantedStream, respell: Respell
    ) -> None:
        super().__init__(streams)
        self._neighbours = neighbours
        self._respell = respell
        self._wanted = wanted
        self._own = neighbours.own_number
        known = wanted.positions
        self._changes = streams.changes(wanted.chosen, None if known is None else known.get(self._own, 0))
        self._followed = {self._own: _Followed(self._changes.position)}
        self._written: dict[int, int] = {self._own: self._changes.position}
        self._has_begun = False
        self._allowance = MOST_AT_ONCE
        self._skipped = 0

    async def begin(self) -> None:
        """Learn where each process is, if the stream begins now: what comes after this is in the stream."""
        if self._has_begun:
            return
        self._has_begun = True
        known = self._wanted.positions
        if known is None:
            known = await self._newest()
        self._written.update(known)
        for number, change in known.items():
            self._followed[number] = _Followed(change)

    async def flow(self, outlet: EventStream) -> None:
        await self.begin()
        async with running(self._follow_forever()):
            await super().flow(outlet)

    def push(self) -> None:
        """Write what is old enough, as far as the stream's allowance goes."""
        if self._outlet is None:
            return
        self._take_own()
        ready = self._ready()
        self._allowance = min(MOST_AT_ONCE, self._allowance + MOST_IN_TURN)
        left_out = max(0, len(ready) - self._allowance)
        self._allowance -= len(ready) - left_out
        for line in ready[:left_out]:
            self._written[line.process] = line.change
        skipped, self._skipped = self._skipped + left_out, 0
        self._write([self._event(line) for line in ready[left_out:]], skipped)

    async def _newest(self) -> Mapping[int, int]:
        """The newest change of each process that answers; others are asked again once they can be read."""
        is_wanted = self._wanted.takes
        replies = await self._neighbours.ask_all(
            TRAFFIC, lambda number: {"limit": "1"} if is_wanted(number) else None
        )
        self._followed.update({each.number: _Followed(None) for each in replies})
        return {each.number: int(each.fields["last"]) for each in replies if each.fields is not None}

    async def _follow_forever(self) -> None:
        """Read the streams of all others that run; a process that comes or goes joins or leaves."""
        try:
            while True:
                with suppress(UnavailableError):  # the streams that are open go on without the database
                    self._adjust(await self._neighbours.others())
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            await cancelled(each.reading for each in self._followed.values() if each.reading is not None)

    def _adjust(self, others: Sequence[Process]) -> None:
        wanted = {each.number: each for each in others if self._wanted.takes(each.number)}
        for process in wanted.values():
            followed = self._followed.setdefault(process.number, _Followed(0))
            if process.is_running and (followed.reading is None or followed.reading.done()):
                followed.reading = asyncio.create_task(self._read_forever(process, followed))
        for number in self._followed.keys() - wanted.keys() - {self._own}:
            self._forget(number)

    def _forget(self, number: int) -> None:
        """The process has stopped: once its last lines are written, nothing is left of it."""
        followed = self._followed[number]
        if followed.reading is not None:
            followed.reading.cancel()
        if not followed.lines:
            del self._followed[number]
            self._written.pop(number, None)

    async def _read_forever(self, process: Process, followed: _Followed) -> None:
        while True:
            with suppress(BridgeError):
                if followed.read is None:  # it did not answer when this stream began
                    reply = await self._neighbours.ask_one(process.number, TRAFFIC, {"limit": "1"})
                    followed.read = self._written[process.number] = int(reply["last"])
                query = {"filter": self._wanted.words, "since": str(followed.read)}
                async with self._neighbours.stream(process, _STREAM, query) as lines:
                    await self._read(process.number, followed, lines)
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _read(self, number: int, followed: _Followed, lines: AsyncIterable[bytes]) -> None:
        kind = b""
        async for line in lines:
            name, _, value = line.rstrip(b"\n").partition(b": ")
            if name == b"event":
                kind = value
            elif name == b"data" and kind == b"request":
                fields = orjson.loads(value)
                self._keep(number, followed, fields["change"], changed_at_ms(fields), self._respell(fields))
            elif name == b"data" and kind == b"skipped":
                self._skipped += int(orjson.loads(value)["changes"])

    def _take_own(self) -> None:
        if not self._wanted.takes(self._own):
            return
        found, skipped = self._changes.take()
        self._skipped += skipped
        for recorded in found:
            moment_ms = recorded.at_ms + (0 if recorded.is_waiting else round(recorded.exchange.milliseconds))
            followed = self._followed[self._own]
            self._keep(self._own, followed, recorded.change, moment_ms, self._streams.spell(recorded))

    def _keep(self, number: int, followed: _Followed, change: int, moment_ms: int, fields: Fields) -> None:
        followed.read = change
        followed.latest_ms = max(followed.latest_ms, min(moment_ms, self._streams.traffic.now_ms()))
        followed.lines.append(_Line(followed.latest_ms, number, change, {**fields, "process": number}))

    def _ready(self) -> list[_Line]:
        """The lines that can be written, in the order of time."""
        is_alone = len(self._followed) == 1
        until_ms = self._streams.traffic.now_ms() - (0 if is_alone else _KEPT_MS)
        ready: list[_Line] = []
        for followed in self._followed.values():
            lines = followed.lines
            while lines and lines[0].moment_ms <= until_ms:
                ready.append(lines.popleft())
        return sorted(ready, key=lambda line: line.moment_ms)

    def _event(self, line: _Line) -> bytes:
        self._written[line.process] = line.change
        position = write_positions(self._written).encode()
        return b"id: %b\nevent: request\ndata: %b\n\n" % (position, orjson.dumps(line.fields))
