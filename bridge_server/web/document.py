"""A JSON document that is made when it is first asked for, and does not change until the server ends."""

import asyncio
import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field

import orjson
from aiohttp import web
from multidict import CIMultiDictProxy

from bridge_server.web.answers import ready_made
from bridge_server.web.whole_answer import WholeAnswer

_DIGITS = 32


@dataclass(frozen=True, slots=True)
class _Written:
    body: bytes = field(repr=False)
    etag: str
    headers: CIMultiDictProxy[str]


class DocumentPage:
    """Answers the document; 304 to a client that has it. `make` makes its JSON values, in a thread."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._turn = asyncio.Lock()
        self._written: _Written | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The document, which a client may keep and must ask about each time."""
        async with self._turn:
            if self._written is None:
                self._written = await asyncio.to_thread(self._write)
        written = self._written
        known = request.if_none_match or ()
        if any(tag.value in (written.etag, "*") for tag in known):
            return web.Response(status=304, headers=written.headers)
        return WholeAnswer(body=written.body, headers=written.headers)

    def _write(self) -> _Written:
        body = orjson.dumps(self._make())
        etag = hashlib.sha256(body).hexdigest()[:_DIGITS]
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache", "ETag": f'"{etag}"'}
        return _Written(body, etag, ready_made(headers))
