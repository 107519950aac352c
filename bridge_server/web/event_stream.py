"""Server-sent events (the HTML standard, section 9.2): a response that goes on until one side has enough.

Events for thousands of clients are framed once and written straight to their transports:
waking a task for each would cost more than the writing.
"""

import asyncio
from typing import NamedTuple, Protocol

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from bridge_server.web.answers import ready_made
from bridge_server.web.connection import Connection, connection_of

MOST_BUFFERED_BYTES = 256 * 1024
"""The unread bytes of a slow client; with more, the connection ends and the client resumes."""

_HEADERS = ready_made(
    {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
)
_OPENING = b"retry: 2000\n\n"


class Piece(NamedTuple):
    """Some events as they are, and as a chunk of HTTP/1.1."""

    plain: bytes
    chunk: bytes


KEEP_ALIVE = b":\n\n"
"""A comment, which clients ignore."""


def piece(plain: bytes) -> Piece:
    """Frame events that many clients are sent."""
    return Piece(plain, b"%x\r\n%b\r\n" % (len(plain), plain))


class Source(Protocol):
    """The source of a client's events."""

    async def flow(self, outlet: "EventStream") -> None:
        """Write events, and return when there are to be no more."""
        ...

    def leave(self) -> None:
        """Release the source: the stream is over, or never began. Called at least once, whatever happens."""
        ...


class EventStream(web.StreamResponse):
    """200 with the events of a source."""

    def __init__(self, source: Source) -> None:
        super().__init__(headers=_HEADERS)
        self._source = source
        self._transport: asyncio.Transport | None = None
        self._connection: Connection | None = None
        self._request: web.BaseRequest | None = None
        self._in_chunks = False

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self._request = request
        try:
            return await super().prepare(request)
        except BaseException:  # the client has left: nothing will be streamed
            self._source.leave()
            raise

    def abandon(self) -> None:
        """The response will not be sent: the source may end."""
        self._source.leave()

    async def write_eof(self, data: bytes = b"") -> None:
        request, self._request = self._request, None
        try:
            if request is not None and request.method != hdrs.METH_HEAD:
                self._transport, self._connection = request.transport, connection_of(request)
                self._in_chunks = self.headers.get(hdrs.TRANSFER_ENCODING) == "chunked"
                await self.write(_OPENING)
                await self._source.flow(self)
        finally:
            self._source.leave()
        await super().write_eof(data)

    def push(self, events: Piece) -> None:
        """Write at once; a client that lets too much pile up is cut off."""
        transport = self._transport
        if transport is None or transport.is_closing():
            return
        written = events.chunk if self._in_chunks else events.plain
        transport.write(written)
        if self._connection is not None:
            self._connection.wrote(len(written))
        if transport.get_write_buffer_size() > MOST_BUFFERED_BYTES:
            transport.abort()

    def hurry(self) -> None:
        """Break the connection off if the client is not reading."""
        if self._transport is not None and self._transport.get_write_buffer_size():
            self._transport.abort()
