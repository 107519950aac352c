"""The record of requests as server-sent events. Requests pile up for a moment and are written together, the
newest hundred at most, and a hundred a second while there are more: what a stream costs does not grow with
the traffic.
"""

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import islice
from typing import TypeAlias

import orjson

from bridge_server.admin.other_processes import Fields, Neighbours, changed_at_ms, write_positions
from bridge_server.admin.traffic_records import Filter, Spell, TooManyFollowersError
from bridge_server.kernel.background import cancelled, running
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.kernel.values import dataclass
from bridge_server.storage.database import Process
from bridge_server.web.answers import KEEP_ALIVE, EventStream, piece
from bridge_server.web.traffic import Recorded, TrafficLog

MOST_STREAMS = 16
MOST_INNER_STREAMS = 256  # streams that other processes have open, one for each of their own streams
MOST_AT_ONCE = 100  # requests in one batch after a quiet moment; of the others only the number is sent
MOST_IN_TURN = 25  # in each batch while requests go on: nobody reads more, and one costs a third of a poll

_PAUSE_SECONDS = 0.25
_PAUSES_BETWEEN_KEEP_ALIVES = 60


class UnseenChanges:
    """The changes that a reader has not got yet; at most as many at once as its allowance."""

    def __init__(self, traffic: TrafficLog, chosen: Filter, position: int) -> None:
        self._traffic, self._chosen = traffic, chosen
        self.position, self._allowance = position, MOST_AT_ONCE

    def take(self) -> tuple[Sequence[Recorded], int]:
        """The changes since the last time, oldest first, and how many changes are left out."""
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


class OpenStream(ABC):
    """One stream. It belongs to the streams until `leave`."""

    def __init__(self, streams: "TrafficStreams", *, is_inner: bool = False) -> None:
        """Another process opens an `is_inner` one, for a stream of its own."""
        self.is_inner, self._streams = is_inner, streams
        self._outlet: EventStream | None = None
        self._ended = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        """Stay open for `push` until the stream ends."""
        self._outlet = outlet
        self.push()
        await self._ended.wait()

    @abstractmethod
    def push(self) -> None:
        """Write the changes since the last time."""

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
        self.traffic, self.spell = traffic, spell
        self._open: dict[OpenStream, None] = {}
        self._is_closed = False
        self._roused = asyncio.Event()
        self._events: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, chosen: Filter, last_event: int | None, *, is_inner: bool = False) -> TrafficStream:
        """Open a stream of changes after `last_event`; None: from now on. Raises TooManyFollowersError."""
        stream = TrafficStream(self, self.changes(chosen, last_event), is_inner=is_inner)
        self.admit(stream)
        return stream

    def changes(self, chosen: Filter, last_event: int | None) -> UnseenChanges:
        """The changes after `last_event`; None: those from now on."""
        known = self.traffic.newest() if last_event is None else last_event
        return UnseenChanges(self.traffic, chosen, known)

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
        """Wake `push_forever`: a request waits for news."""
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


# The records of all processes on a database as one stream, in the order of time.
#
# The process that answers reads the streams of the others. What comes is kept for a moment, so that a change
# of one process is not written before an earlier change of another.

TRAFFIC = "/admin/traffic"
_STREAM = f"{TRAFFIC}/stream"
_CHECK_SECONDS = 2.0
_AGAIN_SECONDS = 1.0
_KEPT_MS = 500  # longer than processes gather changes before they send them, so that all have come


Respell: TypeAlias = Callable[[Fields], Fields]  # spells what another process answers as this stream does


@dataclass(frozen=True, slots=True)
class WantedStream:
    """The filter, also in words; the process, None for all; the last known changes, None to begin now."""

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
    """Requests of one process that are not written yet. `read` is the last change that has come."""

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
        self._neighbours, self._respell, self._wanted = neighbours, respell, wanted
        self._own = neighbours.own_number
        known = wanted.positions
        self._changes = streams.changes(wanted.chosen, None if known is None else known.get(self._own, 0))
        self._followed = {self._own: _Followed(self._changes.position)}
        self._written: dict[int, int] = {self._own: self._changes.position}
        self._has_begun = False
        self._allowance = MOST_AT_ONCE
        self._skipped = 0

    async def begin(self) -> None:
        """Read the last change of each process, if the stream begins now: later changes are in the stream."""
        if self._has_begun:
            return
        self._has_begun = True
        known = self._wanted.positions
        if known is None:
            # The newest change of each process that answers; others are asked again once they can be read.
            is_wanted = self._wanted.takes
            replies = await self._neighbours.ask_all(
                TRAFFIC, lambda number: {"limit": "1"} if is_wanted(number) else None
            )
            self._followed.update({each.number: _Followed(None) for each in replies})
            known = {each.number: int(each.fields["last"]) for each in replies if each.fields is not None}
        self._written.update(known)
        for number, change in known.items():
            self._followed[number] = _Followed(change)

    async def flow(self, outlet: EventStream) -> None:
        await self.begin()
        async with running(self._follow_forever()):
            await super().flow(outlet)

    def push(self) -> None:
        """Write the lines that are old enough, at most as many as the stream's allowance."""
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
        events = []
        for line in ready[left_out:]:
            self._written[line.process] = line.change
            place = write_positions(self._written).encode()
            events.append(b"id: %b\nevent: request\ndata: %b\n\n" % (place, orjson.dumps(line.fields)))
        self._write(events, skipped)

    async def _follow_forever(self) -> None:
        """Read the streams of all others that run; a process that comes or goes joins or leaves."""
        try:
            while True:
                with suppress(UnavailableError):  # the streams that are open go on without the database
                    self._adjust(await self._neighbours.others())
                await asyncio.sleep(_CHECK_SECONDS)
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
        """Forget a process that has stopped, once its last lines are written."""
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
