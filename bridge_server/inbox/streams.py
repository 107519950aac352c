"""Live streams: each notification goes to all open streams of its account, in order and once.

A stream *replays* stored notifications first; then it is *live*, and new notifications are pushed to it. Both
skip notifications at or below the position of the stream, so the two may overlap without repeats or gaps.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

import structlog

from bridge_server.inbox.models import Reader, SignedOut, StoredNotification, TooManyStreamsError
from bridge_server.inbox.store import Arrivals, InboxStore
from bridge_server.inbox.wire import write_event
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import NotAuthenticatedError, UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.web.answers import KEEP_ALIVE, EventStream, Piece, piece

KEEP_ALIVE_SECONDS = 15.0

_REPLAYED_AT_ONCE = 100

_ARRIVALS_AT_ONCE = 100
_CONFIRMED_AT_ONCE = 64
_WRITES_IN_A_ROW = 250
_REPLAY_RETRY_SECONDS = 0.5
_DELIVERY_RETRY_SECONDS = 0.25

log = structlog.get_logger()


class AccountStreams:
    """The open streams of one account. `arrivals` counts deliveries to it since the first stream opened."""

    def __init__(self, number: int, store: InboxStore, forget: Callable[[int], None]) -> None:
        self.number, self._store = number, store
        self.arrivals = 0
        self.streams: dict[Stream, None] = {}
        self._forget = forget

    @property
    def position(self) -> int | None:
        """The lowest position of a live stream; None if no stream is live."""
        return min((stream.position for stream in self.streams if stream.is_live), default=None)

    def leave(self, stream: "Stream") -> None:
        """Remove a stream; after the last one, remove the account."""
        if stream in self.streams:
            del self.streams[stream]
            if not self.streams:
                self._forget(self.number)

    async def page_after(self, position: int) -> Sequence[StoredNotification]:
        """The account's notifications after this position, oldest first. Retries while the store fails."""
        while True:
            try:
                return await self._store.page_after(self.number, position, _REPLAYED_AT_ONCE)
            except UnavailableError as error:
                log.warning("streams_delayed", reason=error.detail)
                await asyncio.sleep(_REPLAY_RETRY_SECONDS)


class Stream:
    """One stream of server-sent events. It belongs to its account's streams until `leave`."""

    __slots__ = ("_audience", "_clock", "_ended", "_is_over", "_outlet", "is_live", "position", "reader")

    def __init__(self, audience: AccountStreams, reader: Reader, position: int, clock: Clock) -> None:
        self.reader, self.position = reader, position
        self.is_live = False
        self._audience, self._clock = audience, clock
        self._outlet: EventStream | None = None
        self._ended: asyncio.Future[None] | None = None
        self._is_over = False
        audience.streams[self] = None

    async def flow(self, outlet: EventStream) -> None:
        """Write stored notifications; then stay open for `push` until the stream ends."""
        self._outlet = outlet
        await self._replay(outlet)
        if not self._is_over:
            self._ended = asyncio.get_running_loop().create_future()
            await self._ended

    def push(self, events: Piece, sending: int | None, now_ms: int) -> None:
        """Write new events if the stream is live. A stream whose token has expired ends."""
        if now_ms >= self.reader.expires_at_ms:
            self.end()
        elif self.is_live and self._outlet is not None and (sending is None or sending > self.position):
            self._outlet.push(events)
            if sending is not None:
                self.position = sending

    def end(self) -> None:
        """End the stream: write no more events, and close the connection after the pending ones."""
        if self._is_over:
            return
        self._is_over, self.is_live = True, False
        if self._outlet is not None:
            self._outlet.hurry()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def leave(self) -> None:
        """Leave the account's streams, because the connection is closed."""
        self.is_live = False
        self._audience.leave(self)

    async def _replay(self, outlet: EventStream) -> None:
        """Write stored notifications until a read finds none and no delivery came meanwhile."""
        audience = self._audience
        while not self._is_over:
            arrivals = audience.arrivals
            page = await audience.page_after(self.position)
            if self._clock.now_ms() >= self.reader.expires_at_ms:
                self.end()
            elif page:
                await outlet.write(b"".join(map(write_event, page)))
                self.position = page[-1].sending
            elif audience.arrivals == arrivals:
                self.is_live = not self._is_over
                return


class Streams:
    """Every open stream. Both `..._forever` must be running. `confirm` raises NotAuthenticatedError for
    the reader of a token that is valid no longer.
    """

    def __init__(
        self,
        store: InboxStore,
        arrivals: Arrivals,
        confirm: Callable[[Reader], Awaitable[None]],
        events: Events,
        clock: Clock,
        most_per_account: int,
    ) -> None:
        self._store, self._confirm, self._clock = store, confirm, clock
        self.most_per_account, self.keep_alive_seconds = most_per_account, KEEP_ALIVE_SECONDS
        self._audiences: dict[int, AccountStreams] = {}
        self._touched: set[int] = set()
        self._must_confirm = False
        self._something_came = asyncio.Event()
        self._closed = False
        arrivals.listen(self._notice)
        events.subscribe(SignedOut, self._end_signed_out, everywhere=True)
        events.on_gap(self._check_everywhere)

    @property
    def open(self) -> int:
        """The number of open streams."""
        return sum(len(audience.streams) for audience in self._audiences.values())

    async def join(self, reader: Reader, last_event: int | None) -> Stream:
        """Open a stream after `last_event` (None: from now on) until `leave`. Raises TooManyStreamsError."""
        newest = await self._store.newest(reader.number)
        position = newest if last_event is None else min(last_event, newest)
        audience = self._audiences.get(reader.number)
        if audience is None:
            audience = AccountStreams(reader.number, self._store, self._forget)
            self._audiences[reader.number] = audience
        if len(audience.streams) >= self.most_per_account:
            raise TooManyStreamsError(self.most_per_account)
        stream = Stream(audience, reader, position, self._clock)
        if self._closed:
            stream.end()
        return stream

    def close(self) -> None:
        """End every stream, and every stream that joins later, because the server stops."""
        self._closed = True
        self.end_all()

    def end_all(self) -> None:
        """End every stream; clients may open others."""
        for stream in self._all():
            stream.end()

    async def check_again(self) -> None:
        """End the streams whose token has expired, and write a comment to the others."""
        await self._write(self._all(), piece(KEEP_ALIVE), None)

    async def deliver_forever(self) -> None:
        """Push new notifications to the streams until cancelled. A failed read is retried."""
        while True:
            await self._something_came.wait()
            self._something_came.clear()
            touched, self._touched = self._touched, set()
            must_confirm, self._must_confirm = self._must_confirm, False
            try:
                await self._deliver(touched)
                if must_confirm:
                    streams = self._all()
                    for first in range(0, len(streams), _CONFIRMED_AT_ONCE):
                        some = streams[first : first + _CONFIRMED_AT_ONCE]
                        await asyncio.gather(*map(self._end_if_revoked, some))
            except Exception:  # no error may make the streams miss a notification
                log.warning("streams_delayed", exc_info=True)
                self._touched |= touched
                self._must_confirm |= must_confirm
                await asyncio.sleep(_DELIVERY_RETRY_SECONDS)
                self._something_came.set()

    async def keep_alive_forever(self) -> None:
        """Write a comment to every stream at intervals, and end streams whose token has expired."""
        while True:
            await asyncio.sleep(self.keep_alive_seconds)
            await self.check_again()

    async def _deliver(self, touched: AbstractSet[int]) -> None:
        while positions := self._positions(touched):
            arrivals = await self._store.arrivals(positions, _ARRIVALS_AT_ONCE)
            for arrival in arrivals:
                audiences = (self._audiences.get(number) for number in arrival.accounts)
                streams = list(chain.from_iterable(audience.streams for audience in audiences if audience))
                notification = arrival.notification
                await self._write(streams, piece(write_event(notification)), notification.sending)
            if len(arrivals) < _ARRIVALS_AT_ONCE:
                return

    def _positions(self, touched: AbstractSet[int]) -> dict[int, int]:
        """The lowest position of each account's live streams. Replaying streams read the store themselves."""
        positions = {}
        for number in touched & self._audiences.keys():
            position = self._audiences[number].position
            if position is not None:
                positions[number] = position
        return positions

    async def _write(self, streams: list[Stream], events: Piece, sending: int | None) -> None:
        """Write to all live streams, and let the event loop run other tasks in between."""
        now_ms = self._clock.now_ms()
        for written, stream in enumerate(streams, 1):
            stream.push(events, sending, now_ms)
            if written % _WRITES_IN_A_ROW == 0:
                await asyncio.sleep(0)

    def _notice(self, accounts: AbstractSet[int]) -> None:
        """Count deliveries at once, so that a replaying stream sees a delivery during its read."""
        here = accounts & self._audiences.keys()
        if here:
            for number in here:
                self._audiences[number].arrivals += 1
            self._touched |= here
            self._something_came.set()

    def _check_everywhere(self) -> None:
        """Other processes may have delivered to any account, and ended any token."""
        self._notice(self._audiences.keys())
        self._must_confirm = True
        self._something_came.set()

    async def _end_if_revoked(self, stream: Stream) -> None:
        try:
            await self._confirm(stream.reader)
        except NotAuthenticatedError:
            stream.end()

    def _end_signed_out(self, event: SignedOut) -> None:
        digest = bytes.fromhex(event.digest)
        for stream in self._all():
            if stream.reader.digest == digest:
                stream.end()

    def _all(self) -> list[Stream]:
        return list(chain.from_iterable(audience.streams for audience in self._audiences.values()))

    def _forget(self, number: int) -> None:
        self._audiences.pop(number, None)
