"""The records of all processes on a database as one stream, in the order of time.

The process that answers reads the streams of the others. What comes is kept for a moment, so that a change of
one process is not written before an earlier change of another.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeAlias

import orjson

from bridge_server.admin.neighbours import Fields, Neighbours
from bridge_server.admin.traffic.filtering import Filter
from bridge_server.admin.traffic.gathering import TRAFFIC
from bridge_server.admin.traffic.merging import changed_at_ms
from bridge_server.admin.traffic.positions import write_positions
from bridge_server.admin.traffic.stream import MOST_AT_ONCE, MOST_IN_TURN, OpenStream, TrafficStreams
from bridge_server.kernel.background import cancelled, running
from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.storage.process import Process
from bridge_server.web.event_stream import EventStream

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
