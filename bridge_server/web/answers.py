"""Answers: whole, streamed, server-sent events, documents, static files, and the headers of pages."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from contextlib import aclosing
from hashlib import sha256
from pathlib import Path
from time import time
from typing import NamedTuple, Protocol

import orjson
import structlog
from aiohttp import hdrs, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.helpers import rfc822_formatted_time
from multidict import CIMultiDict, CIMultiDictProxy, istr

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.version import NAME
from bridge_server.web.aiohttp_internals import ReadyResponse, lets_be_quick
from bridge_server.web.connection import Connection, connection_of

_SHORT_BYTES = 64 * 1024
_NO_CONTENT = 204
_MOST_HEADS = 256

REQUEST_ID_HEADER = istr("X-Request-ID")
_POLICY, _STANDING = istr("RateLimit-Policy"), istr("RateLimit")
_EXPOSED = "Link, Preference-Applied, RateLimit, RateLimit-Policy, Retry-After, X-Request-ID"
_SHARED_WITH_ANY = f"Access-Control-Allow-Origin: *\r\nAccess-Control-Expose-Headers: {_EXPOSED}\r\n"

log = structlog.get_logger()

MOST_BUFFERED_BYTES = 256 * 1024
"""The unread bytes of a slow client; with more, the connection ends and the client resumes."""

_OPENING = b"retry: 2000\n\n"
KEEP_ALIVE = b":\n\n"
"""A comment, which clients ignore."""

_ETAG_DIGITS = 32
_MEDIA_TYPES = {".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8"}
_DIGEST_DIGITS = 12

_PAGE_POLICY = {
    "default-src": "'none'",
    "script-src": "'self'",
    "style-src": "'self'",
    "connect-src": "'self'",
    "img-src": "'self' data:",
    "form-action": "'self'",
    "frame-ancestors": "'none'",
    "base-uri": "'none'",
}


def ready_made(headers: Mapping[str, str]) -> CIMultiDictProxy[str]:
    """Headers to hand to `web.Response`, with the server's name among them."""
    return CIMultiDictProxy(CIMultiDict({"Server": NAME.replace(" ", "-"), **headers}))


_JSON = ready_made({"Content-Type": "application/json"})
_NOTHING = ready_made({})
_TEXT = ready_made({"Content-Type": "text/plain; charset=utf-8"})
_EVENT_HEADERS = ready_made(
    {"Content-Type": "text/event-stream", "Cache-Control": "no-store", "X-Accel-Buffering": "no"}
)

_heads: dict[tuple[int, int], tuple[bytes, int, CIMultiDictProxy[str]]] = {}
"""The beginnings of heads by their status and the identity of their ready-made headers, each with the second
in which it was made, and with the headers, which are kept alive. These are constants, some dozens in all."""


def _head_of(status: int, reason: str, headers: CIMultiDictProxy[str]) -> bytes:
    second = int(time())
    found = _heads.get((status, id(headers)))
    if found is not None and found[1] == second:
        return found[0]
    head = _lines(status, reason, headers).encode()
    if found is not None or len(_heads) < _MOST_HEADS:
        _heads[status, id(headers)] = head, second, headers
    return head


def _lines(status: int, reason: str, headers: Mapping[str, str]) -> str:
    fields = [f"{name}: {value}\r\n" for name, value in headers.items()]
    return "".join([f"HTTP/1.1 {status} {reason}\r\n", *fields, f"Date: {rfc822_formatted_time()}\r\n"])


class WholeAnswer(ReadyResponse):
    """An answer whose body, bytes or none, is whole from the start. On a connection that stays open a short
    one is a ready-made head, some fields and the body, joined once: what aiohttp does, in case a response is
    streamed, compressed or given cookies, costs more than all else of a poll. In every other case aiohttp's
    way is taken, with the headers as a mapping. Header values are not checked: they are constant or were
    checked before. A long body goes out in slices: a slow client keeps the body itself waiting, which others
    may be sent too, and no copy.
    """

    ready = _NOTHING
    request_id: str | None = None
    limits: tuple[str, str] | None = None
    """The fields RateLimit-Policy and RateLimit."""
    is_for_any_origin = False
    depends_on_origin = False
    """Whether pages of some origins may read it, and this client is no such page."""
    _envelope = (b"", b"")
    _request: web.BaseRequest | None = None
    """The request of a long body that is still to be sent."""
    _is_sent = False
    _ends_connection = False

    def add_fields(self, headers: CIMultiDict[str]) -> None:
        if self.limits is not None:
            headers[_POLICY], headers[_STANDING] = self.limits
        if self.is_for_any_origin:
            share(headers)
        if self.depends_on_origin:
            headers[hdrs.VARY] = hdrs.ORIGIN
        if self.request_id is not None:
            headers[REQUEST_ID_HEADER] = self.request_id

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
        protocol = request.protocol
        transport, body = protocol.transport, self._body or b""
        if (
            transport is None
            or transport.is_closing()
            or self._ends_connection
            or not lets_be_quick(request)
            or not isinstance(body, bytes)
            or len(body) > _SHORT_BYTES
        ):
            self._request = request
            return await super().prepare(request)
        if self._is_sent:
            return None
        transport.write(self._written(body))
        if protocol.writing_paused:  # a client that asks and does not read
            await request.writer.drain()
        self._is_sent = True
        return None

    def _written(self, body: bytes) -> bytes:
        if self.own_headers is not None:
            head, fields = _lines(self._status, self._reason, self.own_headers).encode(), ""
        else:
            head, fields = _head_of(self._status, self._reason, self.ready), self._fields()
        if self._status == _NO_CONTENT:
            return head + f"{fields}\r\n".encode()
        return b"".join((head, f"{fields}Content-Length: {len(body)}\r\n\r\n".encode(), body))

    def _fields(self) -> str:
        fields = ""
        if self.limits is not None:
            policy, standing = self.limits
            fields = f"RateLimit-Policy: {policy}\r\nRateLimit: {standing}\r\n"
        if self.is_for_any_origin:
            fields += _SHARED_WITH_ANY
        if self.depends_on_origin:
            fields += "Vary: Origin\r\n"
        if self.request_id is not None:
            fields += f"X-Request-ID: {self.request_id}\r\n"
        return fields

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


# What the layers add to an answer: to a whole one beside its ready-made head, to any other among its headers.


def name_on(response: web.StreamResponse, request_id: str) -> None:
    """Add the request's id."""
    if isinstance(response, WholeAnswer) and response.own_headers is None:
        response.request_id = request_id
    else:
        response.headers[REQUEST_ID_HEADER] = request_id


def declare_on(response: web.StreamResponse, policy: str, standing: str) -> None:
    """Add the fields about the client's limits and what is left of them, before those about other limits."""
    if isinstance(response, WholeAnswer) and response.own_headers is None:
        if response.limits is not None:
            policy, standing = f"{policy}, {response.limits[0]}", f"{standing}, {response.limits[1]}"
        response.limits = policy, standing
        return
    headers = response.headers
    for name, value in ((_POLICY, policy), (_STANDING, standing)):
        headers[name] = f"{value}, {headers[name]}" if name in headers else value


def share_on(response: web.StreamResponse) -> None:
    """Let web pages of every origin read it."""
    if isinstance(response, WholeAnswer) and response.own_headers is None:
        response.is_for_any_origin = True
    else:
        share(response.headers)


def share_with(response: web.StreamResponse, origin: str | None, *, is_allowed: bool) -> None:
    """Let web pages of this origin read it if that is allowed. `Vary` says that the answer depends on it."""
    if (
        not is_allowed
        and isinstance(response, WholeAnswer)
        and response.own_headers is None
        and hdrs.VARY not in response.ready
    ):
        response.depends_on_origin = True
        return
    headers = response.headers
    vary = headers.get(hdrs.VARY)
    headers[hdrs.VARY] = hdrs.ORIGIN if vary is None else f"{vary}, {hdrs.ORIGIN}"
    if origin is not None and is_allowed:
        share(headers, origin)


def share(headers: CIMultiDict[str], origin: str = "*") -> None:
    """Let web pages of the origin read the response with these headers; `*` for every origin."""
    headers["Access-Control-Allow-Origin"] = origin
    headers["Access-Control-Expose-Headers"] = _EXPOSED


def json_answer(body: bytes) -> web.Response:
    """200 with JSON that is encoded already."""
    return WholeAnswer(body=body, headers=_JSON)


def text_answer(text: str) -> web.Response:
    """200 with plain text."""
    return WholeAnswer(body=text.encode(), headers=_TEXT)


def no_content() -> web.Response:
    """204, without a body."""
    return WholeAnswer(status=204, headers=_NOTHING)


class StreamedAnswer(web.StreamResponse):
    """200 with JSON in pieces. If they end too early, the connection ends: no part passes for the whole."""

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


class Piece(NamedTuple):
    """Some events as they are, and as a chunk of HTTP/1.1."""

    plain: bytes
    chunk: bytes


def piece(plain: bytes) -> Piece:
    """Frame events that many clients are sent."""
    return Piece(plain, b"%x\r\n%b\r\n" % (len(plain), plain))


class Source(Protocol):
    """The source of a client's events."""

    async def flow(self, outlet: "EventStream") -> None:
        """Write events, and return when there are to be no more."""

    def leave(self) -> None:
        """Release the source: the stream is over, or never began. Called at least once, whatever happens."""


class EventStream(web.StreamResponse):
    """200 with server-sent events (the HTML standard, section 9.2), until the source or the client has
    enough. Events for thousands of clients are framed once and written straight to their transports: waking a
    task for each would cost more than the writing.
    """

    def __init__(self, source: Source) -> None:
        super().__init__(headers=_EVENT_HEADERS)
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


class DocumentPage:
    """Answers the JSON document of `make`, made in a thread when first asked for; 304 to one that has it."""

    def __init__(self, make: Callable[[], object]) -> None:
        self._make = make
        self._turn = asyncio.Lock()
        self._written: tuple[bytes, str, CIMultiDictProxy[str]] | None = None

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The document, which a client may keep and must ask about each time."""
        async with self._turn:
            if self._written is None:
                self._written = await asyncio.to_thread(self._write)
        body, etag, headers = self._written
        if any(tag.value in (etag, "*") for tag in request.if_none_match or ()):
            return web.Response(status=304, headers=headers)
        return WholeAnswer(body=body, headers=headers)

    def _write(self) -> tuple[bytes, str, CIMultiDictProxy[str]]:
        body = orjson.dumps(self._make())
        etag = sha256(body).hexdigest()[:_ETAG_DIGITS]
        headers = {"Content-Type": "application/json", "Cache-Control": "no-cache", "ETag": f'"{etag}"'}
        return body, etag, ready_made(headers)


STYLESHEET = Path(__file__).parent / "pages.css"
"""The stylesheet of the console and of the documentation."""


class StaticFiles:
    """Scripts and stylesheets below `root`, read once; browsers keep them, since names hold a digest."""

    def __init__(self, root: str, files: Iterable[Path]) -> None:
        self._root = root
        self._files: dict[str, tuple[bytes, CIMultiDictProxy[str]]] = {}
        self.paths = {path.name: self._add(path) for path in files if path.suffix in _MEDIA_TYPES}
        """The path of each file, by its name."""

    async def answer(self, request: web.Request) -> web.StreamResponse:
        """The file that the path names, with its digest. Raises HTTPNotFound."""
        name = request.match_info["name"]
        if name not in self._files:
            raise web.HTTPNotFound
        body, headers = self._files[name]
        return WholeAnswer(body=body, headers=headers)

    def _add(self, path: Path) -> str:
        body = path.read_bytes()
        name = f"{path.stem}.{sha256(body).hexdigest()[:_DIGEST_DIGITS]}{path.suffix}"
        headers = {
            "Content-Type": _MEDIA_TYPES[path.suffix],
            "Cache-Control": "public, max-age=31536000, immutable",
            "X-Content-Type-Options": "nosniff",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
        self._files[name] = body, ready_made(headers)
        return f"{self._root}/{name}"


def page_headers(**policy: str) -> CIMultiDictProxy[str]:
    """The headers of an HTML page that runs only scripts from here, in no frame; `policy` adds directives."""
    directives = _PAGE_POLICY | {name.replace("_", "-"): value for name, value in policy.items()}
    return ready_made(
        {
            "Content-Type": "text/html; charset=utf-8",
            "Content-Security-Policy": "; ".join(f"{name} {value}" for name, value in directives.items()),
            "X-Frame-Options": "DENY",
            "X-Content-Type-Options": "nosniff",
            "Cache-Control": "no-store",
            "Referrer-Policy": "same-origin",  # without a referrer, forms would have the origin null
            "Cross-Origin-Opener-Policy": "same-origin",
            "Cross-Origin-Resource-Policy": "same-origin",
        }
    )
