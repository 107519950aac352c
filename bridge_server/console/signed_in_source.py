"""Events for a signed-in browser: they end when its session does."""

import asyncio
from collections.abc import Awaitable, Callable

from bridge_server.kernel.background import cancelled
from bridge_server.web.event_stream import EventStream, Source

_LOOK_SECONDS = 15.0


class SignedInSource:
    """The events of another source, for as long as the session `lasts`."""

    def __init__(self, source: Source, lasts: Callable[[], Awaitable[bool]]) -> None:
        self._source = source
        self._lasts = lasts

    async def flow(self, outlet: EventStream) -> None:
        """Let the events flow until there are no more, or the session has ended."""
        flowing = asyncio.ensure_future(self._source.flow(outlet))
        try:
            while not (await asyncio.wait([flowing], timeout=_LOOK_SECONDS))[0]:
                if not await self._lasts():
                    return
            flowing.result()
        finally:
            await cancelled([flowing])

    def leave(self) -> None:
        """Release the source: the stream is over, or never began."""
        self._source.leave()
