"""A document that lasts as long as the server runs; a client that has it is not sent it again (ETag)."""

from collections.abc import Callable
from functools import cached_property
from hashlib import sha256

from aiohttp import web
from multidict import CIMultiDictProxy

from bridge_server.web.answers import ready_made
from bridge_server.web.whole_answer import WholeAnswer

_DIGITS = 32


class KeptDocument:
    """Answers the document, which is made at the first request."""

    def __init__(self, make: Callable[[], bytes], content_type: str) -> None:
        self._make = make
        self._content_type = content_type

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """200 with the document; 304 for a client that has it."""
        known = request.if_none_match or ()
        if any(tag.value in (self._etag, "*") for tag in known):
            return web.Response(status=304, headers=self._headers)
        return WholeAnswer(body=self._body, headers=self._headers)

    @cached_property
    def _body(self) -> bytes:
        return self._make()

    @cached_property
    def _etag(self) -> str:
        return sha256(self._body).hexdigest()[:_DIGITS]

    @cached_property
    def _headers(self) -> CIMultiDictProxy[str]:
        return ready_made(
            {
                "Content-Type": self._content_type,
                "Cache-Control": "no-cache",
                "ETag": f'"{self._etag}"',
                "X-Content-Type-Options": "nosniff",
            }
        )
