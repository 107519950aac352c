"""Live streams: what comes into an inbox goes to everybody who has it open, in order, once, at once.

A stream is *replaying* as long as it reads from the store what came before; then it is *live*, and what comes
is pushed to it. Both skip what the stream has been given, so the two may overlap but leave nothing out.
"""

import asyncio
from collections.abc import Set as AbstractSet
from itertools import chain

import structlog

from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.errors import TooManyStreamsError
from bridge_server.inbox.models import SIGNED_OUT, Arrival, Reader
from bridge_server.inbox.notification_wire import write_event
from bridge_server.inbox.store import InboxStore
from bridge_server.inbox.stream import Stream, StreamAudience
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.signals import Key, Signals
from bridge_server.web.event_stream import KEEP_ALIVE, Piece, piece

KEEP_ALIVE_SECONDS = 15.0

_ARRIVALS_AT_ONCE = 100
_WRITES_IN_A_ROW = 250
_RETRY_SECONDS = 0.25

log = structlog.get_logger()


class Streams:
    """Every open stream, by account. `deliver_forever` and `keep_alive_forever` must be running."""

    def __init__(
        self,
        store: InboxStore,
        arrivals: Arrivals,
        signals: Signals,
        clock: Clock,
        most_per_account: int,
        keep_alive_seconds: float = KEEP_ALIVE_SECONDS,
    ) -> None:
        self._store = store
        self._clock = clock
        self.most_per_account = most_per_account
        self._keep_alive_seconds = keep_alive_seconds
        self._audiences: dict[int, StreamAudience] = {}
        self._touched: set[int] = set()
        self._something_came = asyncio.Event()
        self._closed = False
        arrivals.listen(self._notice)
        signals.listen(self._end_signed_out)

    @property
    def open(self) -> int:
        """How many streams there are at this moment."""
        return sum(len(audience.streams) for audience in self._audiences.values())

    async def join(self, reader: Reader, last_event: int | None) -> Stream:
        """A stream of what came after `last_event`, or with None of what comes from now on.

        Raises TooManyStreamsError. Whoever joined must leave.
        """
        newest = await self._store.newest(reader.number)
        position = newest if last_event is None else min(last_event, newest)
        audience = self._audiences.get(reader.number)
        if audience is None:
            audience = self._audiences[reader.number] = StreamAudience(
                reader.number, self._store, self._forget
            )
        if len(audience.streams) >= self.most_per_account:
            raise TooManyStreamsError(self.most_per_account)
        stream = Stream(audience, reader, position, self._clock)
        if self._closed:
            stream.end()
        return stream

    def close(self) -> None:
        """End every stream, and from now on any that joins: the server stops."""
        self._closed = True
        for stream in self._all():
            stream.end()

    async def deliver_forever(self) -> None:
        """Bring what comes to the streams until cancelled; what cannot be read now is read later."""
        while True:
            await self._something_came.wait()
            self._something_came.clear()
            touched, self._touched = self._touched, set()
            try:
                await self._deliver(touched)
            except Exception:  # whatever it was, the streams must not miss anything for it
                log.warning("streams_delayed", exc_info=True)
                self._touched |= touched
                await asyncio.sleep(_RETRY_SECONDS)
                self._something_came.set()

    async def keep_alive_forever(self) -> None:
        """Write a comment to every stream now and then, and end those whose token has expired."""
        comment = piece(KEEP_ALIVE)
        while True:
            await asyncio.sleep(self._keep_alive_seconds)
            await self._write(self._all(), comment, None)

    async def _deliver(self, touched: AbstractSet[int]) -> None:
        while positions := self._positions(touched):
            arrivals = await self._store.arrivals(positions, _ARRIVALS_AT_ONCE)
            for arrival in arrivals:
                await self._hand_out(arrival)
            if len(arrivals) < _ARRIVALS_AT_ONCE:
                return

    def _positions(self, touched: AbstractSet[int]) -> dict[int, int]:
        """Where each account's stream is that is furthest behind; those that replay see for themselves."""
        positions = {}
        for number in touched & self._audiences.keys():
            position = self._audiences[number].position
            if position is not None:
                positions[number] = position
        return positions

    async def _hand_out(self, arrival: Arrival) -> None:
        audiences = (self._audiences.get(number) for number in arrival.accounts)
        streams = list(chain.from_iterable(audience.streams for audience in audiences if audience))
        notification = arrival.notification
        await self._write(streams, piece(write_event(notification)), notification.sending)

    async def _write(self, streams: list[Stream], events: Piece, sending: int | None) -> None:
        """Write to all that are live, letting others have a turn in between."""
        now_ms = self._clock.now_ms()
        for written, stream in enumerate(streams, 1):
            stream.push(events, sending, now_ms)
            if written % _WRITES_IN_A_ROW == 0:
                await asyncio.sleep(0)

    def _notice(self, accounts: AbstractSet[int]) -> None:
        """Before anybody else runs: who replays must know that something came while it was reading."""
        here = accounts & self._audiences.keys()
        if here:
            for number in here:
                self._audiences[number].arrivals += 1
            self._touched |= here
            self._something_came.set()

    def _end_signed_out(self, key: Key) -> None:
        if key[0] == SIGNED_OUT:
            digest = bytes.fromhex(key[1])
            for stream in self._all():
                if stream.reader.digest == digest:
                    stream.end()

    def _all(self) -> list[Stream]:
        return list(chain.from_iterable(audience.streams for audience in self._audiences.values()))

    def _forget(self, number: int) -> None:
        self._audiences.pop(number, None)
