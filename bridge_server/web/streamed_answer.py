"""A response that is too long to be made before it is sent."""

from collections.abc import AsyncIterator

import structlog
from aiohttp import hdrs, web

from bridge_server.kernel.errors import UnavailableError
from bridge_server.web.answers import ready_made

_JSON = ready_made({"Content-Type": "application/json"})

log = structlog.get_logger()


class StreamedAnswer(web.StreamResponse):
    """200 with JSON that comes in pieces. If they end too early, so does the connection: nobody who reads
    takes a part for the whole.
    """

    def __init__(self, pieces: AsyncIterator[bytes]) -> None:
        super().__init__(headers=_JSON)
        self._pieces = pieces

    async def write_eof(self, data: bytes = b"") -> None:
        request = self._req
        if request is not None and request.method != hdrs.METH_HEAD and not self._eof_sent:
            try:
                async for piece in self._pieces:
                    await self.write(piece)
            except UnavailableError as error:
                log.warning("answer_broken_off", reason=error.detail)
                if request.transport is not None:
                    request.transport.abort()
                return
        await super().write_eof(data)
