"""The record of requests as server-sent events, for the operators who look at it now.

Requests pile up for a moment and are written together, the newest hundred at most, and a hundred a second
while there are more: what a stream costs does not grow with the traffic.
"""

import asyncio
from collections.abc import Callable
from itertools import islice
from typing import Any, TypeAlias

import orjson

from bridge_server.admin.traffic.errors import TooManyFollowersError
from bridge_server.admin.traffic.filtering import Filter
from bridge_server.web.event_stream import KEEP_ALIVE, EventStream, piece
from bridge_server.web.exchanges import Recorded
from bridge_server.web.traffic import TrafficLog

MOST_STREAMS = 16
MOST_AT_ONCE = 100
"""Requests in one batch of events after a quiet moment; of the others only the number is sent."""
MOST_IN_TURN = 25
"""Requests in each batch while requests go on: nobody reads more, and each costs a third of a poll."""

_PAUSE_SECONDS = 0.25
_PAUSES_BETWEEN_KEEP_ALIVES = 60

Spell: TypeAlias = Callable[[Recorded], dict[str, Any]]


class TrafficStream:
    """One stream. It belongs to the streams until `leave`."""

    def __init__(self, streams: "TrafficStreams", chosen: Filter, position: int) -> None:
        self._streams = streams
        self._chosen = chosen
        self._position = position
        self._allowance = MOST_AT_ONCE
        self._outlet: EventStream | None = None
        self._ended = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        """Stay open for `push` until the stream ends."""
        self._outlet = outlet
        self.push()
        await self._ended.wait()

    def push(self) -> None:
        """Write what has changed since the last time, as far as the stream's allowance goes."""
        self._allowance = min(MOST_AT_ONCE, self._allowance + MOST_IN_TURN)
        traffic = self._streams.traffic
        last = traffic.newest()
        if self._position > last:  # the record was cleared
            self._position = 0
        if self._outlet is None or last == self._position:
            return
        changes = traffic.changed_after(self._position)
        found = list(islice(filter(self._chosen.passes, changes), self._allowance))
        skipped = found[-1].change - self._position - 1 if len(found) == self._allowance else 0
        self._allowance -= len(found)
        self._position = last
        events = [self._streams.event(each) for each in reversed(found)]
        if skipped > 0:
            events.append(b'event: skipped\ndata: {"changes":%d}\n\n' % skipped)
        if events:
            self._outlet.push(piece(b"".join(events)))

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


class TrafficStreams:
    """Every open stream. `push_forever` must be running."""

    def __init__(self, traffic: TrafficLog, spell: Spell) -> None:
        self.traffic = traffic
        self._spell = spell
        self._open: dict[TrafficStream, None] = {}
        self._is_closed = False
        self._roused = asyncio.Event()
        self._events: dict[int, bytes] = {}

    def __len__(self) -> int:
        return len(self._open)

    def join(self, chosen: Filter, last_event: int | None) -> TrafficStream:
        """Open a stream of the changes after `last_event`; None: of the changes from now on.

        The caller must call the stream's `leave`. Raises TooManyFollowersError.
        """
        if len(self._open) >= MOST_STREAMS:
            raise TooManyFollowersError(MOST_STREAMS)
        position = self.traffic.newest() if last_event is None else last_event
        stream = TrafficStream(self, chosen, position)
        self._open[stream] = None
        self.rouse()
        if self._is_closed:
            stream.end()
        return stream

    def rouse(self) -> None:
        """Have `push_forever` look soon: a request waits for news."""
        self._roused.set()

    def forget(self, stream: TrafficStream) -> None:
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
            text = orjson.dumps(self._spell(recorded))
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
