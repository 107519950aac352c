"""A response that is too long to be made before it is sent."""

from collections.abc import AsyncGenerator
from contextlib import aclosing

import structlog
from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter

from bridge_server.kernel.errors import BridgeError
from bridge_server.web.answers import ready_made
from bridge_server.web.connection import connection_of

_JSON = ready_made({"Content-Type": "application/json"})

log = structlog.get_logger()


class StreamedAnswer(web.StreamResponse):
    """200 with JSON that comes in pieces. If they end too early, the connection ends as well, so that no
    reader takes a part for the whole.
    """

    def __init__(self, pieces: AsyncGenerator[bytes]) -> None:
        super().__init__(headers=_JSON)
        self._pieces = pieces
        self._request: web.BaseRequest | None = None

    async def prepare(self, request: web.BaseRequest) -> AbstractStreamWriter | None:
        self._request = request
        return await super().prepare(request)

    async def write_eof(self, data: bytes = b"") -> None:
        request, self._request = self._request, None
        if request is not None and request.method != hdrs.METH_HEAD:
            connection_of(request)  # its unread bytes count to the client's address
            try:
                async with aclosing(self._pieces) as pieces:
                    async for piece in pieces:
                        await self.write(piece)
            except BridgeError as error:
                log.warning("answer_broken_off", reason=error.detail)
                if request.transport is not None:
                    request.transport.abort()
                return
        await super().write_eof(data)
