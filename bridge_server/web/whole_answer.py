"""A response that is whole from the start, written in one piece.

aiohttp prepares a response as if it might be streamed, compressed or given cookies, which costs more than
all else that a poll costs here. A short answer on a connection that stays open needs none of that; in
every other case aiohttp's own way is taken.
"""

from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from aiohttp.http import HttpVersion11

_SHORT_BYTES = 64 * 1024
_NO_CONTENT = 204


class WholeAnswer(web.Response):
    """Its body is bytes or nothing. Its header values must be our own words or checked: they are not here."""

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        transport = request.transport
        body = self.body or b""
        if (
            self.prepared
            or transport is None
            or transport.is_closing()
            or request.version != HttpVersion11
            or not request.keep_alive
            or request.method == hdrs.METH_HEAD
            or not isinstance(body, bytes)
            or len(body) > _SHORT_BYTES
        ):
            return await super().prepare(request)
        transport.write(self._head(len(body)).encode() + body)
        if transport.get_write_buffer_size() > _SHORT_BYTES:  # a client that asks and does not read
            await request.writer.drain()
        self._keep_alive = True
        self._eof_sent = True
        return None

    def _head(self, length_bytes: int) -> str:
        lines = [f"HTTP/1.1 {self.status} {self.reason}"]
        lines += [f"{name}: {value}" for name, value in self.headers.items()]
        lines.append(f"Date: {rfc822_formatted_time()}")
        if self.status != _NO_CONTENT:
            lines.append(f"Content-Length: {length_bytes}")
        return "\r\n".join(lines) + "\r\n\r\n"
