"""One stream, and the streams of one account."""

import asyncio
from collections.abc import Callable, Sequence

import structlog

from bridge_server.inbox.models import InboxNotification, Reader
from bridge_server.inbox.notification_wire import write_event
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.event_stream import EventOutlet, Piece

_PAGE = 100
_RETRY_SECONDS = 0.5

log = structlog.get_logger()


class StreamAudience:
    """The streams of an account. `arrivals` counts what was announced for it since the first of them."""

    def __init__(self, number: int, store: InboxStore, forget: Callable[[int], None]) -> None:
        self.number = number
        self._store = store
        self.arrivals = 0
        self.streams: dict[Stream, None] = {}
        self._forget = forget

    @property
    def position(self) -> int | None:
        """What the live stream that is furthest behind was given last; None when none is live."""
        return min((stream.position for stream in self.streams if stream.is_live), default=None)

    def leave(self, stream: "Stream") -> None:
        """Forget a stream, and with the last also the audience."""
        if stream in self.streams:
            del self.streams[stream]
            if not self.streams:
                self._forget(self.number)

    async def page_after(self, position: int) -> Sequence[InboxNotification]:
        """What the account has after this position, oldest first; waits as long as that cannot be read."""
        while True:
            try:
                return await self._store.page_after(self.number, position, _PAGE)
            except UnavailableError as error:
                log.warning("streams_delayed", reason=error.detail)
                await asyncio.sleep(_RETRY_SECONDS)


class Stream:
    """Implements the source of an event stream. It belongs to its audience until it leaves."""

    __slots__ = ("_audience", "_clock", "_ended", "_is_over", "_outlet", "is_live", "position", "reader")

    def __init__(self, audience: StreamAudience, reader: Reader, position: int, clock: Clock) -> None:
        self.reader = reader
        self.position = position
        self.is_live = False
        self._audience = audience
        self._clock = clock
        self._outlet: EventOutlet | None = None
        self._ended: asyncio.Future[None] | None = None
        self._is_over = False
        audience.streams[self] = None

    async def flow(self, outlet: EventOutlet) -> None:
        """Write what came before, then let others push what comes, until the stream is ended."""
        self._outlet = outlet
        await self._replay(outlet)
        if not self._is_over:
            self._ended = asyncio.get_running_loop().create_future()
            await self._ended

    def push(self, events: Piece, sending: int | None, now_ms: int) -> None:
        """Write to a stream that is live what it was not given yet; one whose token has expired ends."""
        if now_ms >= self.reader.expires_at_ms:
            self.end()
        elif self.is_live and self._outlet is not None and (sending is None or sending > self.position):
            self._outlet.push(events)
            if sending is not None:
                self.position = sending

    def end(self) -> None:
        """Write no more events, and close in good order a stream whose client keeps up."""
        if self._is_over:
            return
        self._is_over, self.is_live = True, False
        if self._outlet is not None:
            self._outlet.hurry()
        if self._ended is not None and not self._ended.done():
            self._ended.set_result(None)

    def leave(self) -> None:
        """Be forgotten: there is nobody to write to."""
        self.is_live = False
        self._audience.leave(self)

    async def _replay(self, outlet: EventOutlet) -> None:
        """Write what the store has, until nothing has come while it was asked."""
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
