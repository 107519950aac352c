"""A live stream of notifications, and the streams of one account."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from bridge_server.inbox.models import Reader, StoredNotification
from bridge_server.inbox.notification_wire import write_event
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.event_stream import EventStream, Piece

_PAGE = 100
_RETRY_SECONDS = 0.5

log = structlog.get_logger()


class AccountStreams:
    """The open streams of one account. `arrivals` counts deliveries to it since the first stream opened."""

    def __init__(self, number: int, store: InboxStore, forget: Callable[[int], None]) -> None:
        self.number = number
        self._store = store
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
                return await self._store.page_after(self.number, position, _PAGE)
            except UnavailableError as error:
                log.warning("streams_delayed", reason=error.detail)
                await asyncio.sleep(_RETRY_SECONDS)


class Stream:
    """One stream of server-sent events. It belongs to its account's streams until `leave`."""

    __slots__ = ("_audience", "_clock", "_ended", "_is_over", "_outlet", "is_live", "position", "reader")

    def __init__(self, audience: AccountStreams, reader: Reader, position: int, clock: Clock) -> None:
        self.reader = reader
        self.position = position
        self.is_live = False
        self._audience = audience
        self._clock = clock
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
