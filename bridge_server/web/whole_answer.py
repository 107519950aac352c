"""A response that is whole from the start, written in one piece.

aiohttp prepares a response as if it might be streamed, compressed or given cookies, which costs more than
all else that a poll costs here. A short answer on a connection that stays open needs none of that; in
every other case aiohttp's own way is taken.

A long answer goes out in slices, each when the one before has left: what waits for a slow client is the body
itself, which others may be sent too, and no copy of it.
"""

import asyncio

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion11

from bridge_server.web.connection import connection_of

_SHORT_BYTES = 64 * 1024
_NO_CONTENT = 204


class WholeAnswer(web.Response):
    """An answer whose body is bytes or none.

    Header values are not checked: they are constant or were checked before.
    """

    _envelope = (b"", b"")
    _request: web.BaseRequest | None = None
    """The request of a long body that is still to be sent."""
    _is_sent = False
    _ends_connection = False

    @property
    def prepared(self) -> bool:
        return self._is_sent or super().prepared

    @property
    def keep_alive(self) -> bool | None:
        return True if self._is_sent else super().keep_alive

    def force_close(self) -> None:
        self._ends_connection = True
        super().force_close()

    def put_into(self, before: bytes, after: bytes) -> None:
        """Put the body between these; a long body is not copied for it."""
        body = self.body or b""
        assert isinstance(body, bytes)
        if len(body) <= _SHORT_BYTES:
            self.body = before + body + after
        else:
            self._envelope = before, after
            self.headers[hdrs.CONTENT_LENGTH] = str(len(before) + len(body) + len(after))

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        body = self.body or b""
        if (
            transport is None
            or transport.is_closing()
            or request.version != HttpVersion11
            or not request.keep_alive
            or self._ends_connection
            or request.method == hdrs.METH_HEAD
            or not isinstance(body, bytes)
            or len(body) > _SHORT_BYTES
        ):
            self._request = request
            return await super().prepare(request)
        if self._is_sent:
            return None
        transport.write(self._head(len(body)).encode() + body)
        if request.protocol.writing_paused:  # a client that asks and does not read
            await request.writer.drain()
        self._is_sent = True
        return None

    async def write_eof(self, data: bytes = b"") -> None:
        if self._is_sent:
            return
        body, request, self._request = self.body, self._request, None
        if isinstance(body, bytes) and len(body) > _SHORT_BYTES and request is not None:
            if request.method != hdrs.METH_HEAD:
                await self._write_slices(request, body)
            await web.StreamResponse.write_eof(self)
        else:
            await super().write_eof(data)

    async def _write_slices(self, request: web.BaseRequest, body: bytes) -> None:
        connection = connection_of(request)
        if connection is not None:
            connection.hold(body)
        before, after = self._envelope
        try:
            await self.write(before + body[:_SHORT_BYTES])
            for start in range(_SHORT_BYTES, len(body), _SHORT_BYTES):
                await request.writer.drain()
                await asyncio.sleep(0)  # a client that takes all at once leaves others their turn
                await self.write(memoryview(body)[start : start + _SHORT_BYTES])
            await self.write(after)
            await request.writer.drain()
        finally:
            if connection is not None:
                connection.release()

    def _head(self, length_bytes: int) -> str:
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines.append(f"Date: {rfc822_formatted_time()}")
        if self.status != _NO_CONTENT:
            lines.append(f"Content-Length: {length_bytes}")
        return "\r\n".join(lines) + "\r\n\r\n"
