"""An HTTP/2 client for one server: one connection at a time, many requests on it.

It is written here because a cancelled request must not affect other requests on its connection, and answers
that a server sends after a GOAWAY must arrive. Common HTTP/2 clients close the connection in both cases.
"""

import asyncio
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self, TypeAlias, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from bridge_server.kernel.values import dataclass
from bridge_server.outbox.guarded_client import ANSWER_LIMIT_BYTES

_ATTEMPTS = 3
# NATs and firewalls drop a connection that is idle for long, without a notice.
_IDLE_SECONDS = 600.0

_CLOSING_SECONDS = 1.0

_FRAME_HEADER_BYTES = 9  # length (3), type (1), flags (1), stream (4)
_FRAME_MOST_BYTES = 16_384  # the default of SETTINGS_MAX_FRAME_SIZE; h2 refuses larger frames
_GO_AWAY_TYPE = 7
_GO_AWAY_LEAST_BYTES = 8  # last stream (4), error code (4), then optional debug data

Headers = Sequence[tuple[str, str]]

StreamEvent: TypeAlias = (
    h2.events.ResponseReceived | h2.events.DataReceived | h2.events.StreamEnded | h2.events.StreamReset
)


class Http2Error(Exception):
    """A request got no answer. The text is for people and does not quote the request."""


class NotTakenError(Http2Error):
    """The server has certainly not processed the request: it can be retried."""


class ConnectionLostError(Http2Error):
    """The connection broke before the answer: the server may have processed the request."""


@dataclass(frozen=True, slots=True)
class Http2Answer:
    """The status, the other header fields with lower-case names, and the body, cut at 64 KiB."""

    status: int
    headers: dict[str, str]
    body: bytes


class Http2Exchange:
    """A request in flight and the part of its answer that has arrived. `unsent` is the rest of the request's
    body, `ended` whether the server has closed the stream, and `began_at` the start in the event loop's time.
    """

    __slots__ = ("answer", "began_at", "body", "ended", "headers", "unsent")

    def __init__(self, body: bytes, loop: asyncio.AbstractEventLoop) -> None:
        self.unsent = memoryview(body)
        self.headers: dict[str, str] = {}
        self.body = bytearray()
        self.ended = False
        self.began_at = loop.time()
        self.answer: asyncio.Future[Http2Answer] = loop.create_future()

    def take(self, event: StreamEvent) -> None:
        """Process an event of the request's stream."""
        match event:
            case h2.events.ResponseReceived():
                self.headers = {_text(name): _text(value) for name, value in event.headers}
            case h2.events.DataReceived():
                self.body += event.data[: ANSWER_LIMIT_BYTES - len(self.body)]
                if len(self.body) >= ANSWER_LIMIT_BYTES:  # it is complete, although the stream is still open
                    self._finish()
                    self.ended = False
            case h2.events.StreamEnded():
                self._finish()
            case h2.events.StreamReset():
                self.ended, self.unsent = True, memoryview(b"")
                if event.error_code == h2.errors.ErrorCodes.REFUSED_STREAM:
                    self.fail(NotTakenError("the server refused the request before it read it"))
                else:
                    self.fail(Http2Error("the server reset the request"))

    def fail(self, error: Http2Error) -> None:
        """Raise the error where the request waits for its answer."""
        if not self.answer.done():
            self.answer.set_exception(error)

    def _finish(self) -> None:
        self.ended = True
        status = self.headers.pop(":status", "")
        if not status.isdecimal():
            self.fail(Http2Error("the answer has no status"))
        elif not self.answer.done():
            self.answer.set_result(Http2Answer(int(status), self.headers, bytes(self.body)))


def _text(field: bytes | str) -> str:
    return field if isinstance(field, str) else field.decode("latin-1")  # latin-1 decodes any bytes


class StreamQueue:
    """Requests that wait for a stream, first in, first out. `free` returns how many may be opened now."""

    def __init__(self, free: Callable[[], int]) -> None:
        self._free = free
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait to be woken. The caller then checks again whether a stream is free."""
        waiting = asyncio.get_running_loop().create_future()
        self._waiting.append(waiting)
        try:
            await waiting
        except asyncio.CancelledError:
            self.wake()  # this request may have been woken already: wake the next one
            raise

    def wake(self, *, everyone: bool = False) -> None:
        """Wake as many requests as there are free streams; everyone if the connection accepts no more."""
        count = len(self._waiting) if everyone else self._free()
        while count > 0 and self._waiting:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(None)
                count -= 1


@dataclass(frozen=True, slots=True)
class GoAway:
    """The content of a GOAWAY: requests on streams after `last_stream_id` get no answer."""

    last_stream_id: int
    error_code: int


class GoAwayFilter:
    """Splits received data into frames, and takes out every GOAWAY (RFC 9113, 6.8) before h2 reads it. h2
    would refuse every later frame, and lose the answers that the server still sends.
    """

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, data: bytes) -> list[bytes | GoAway]:
        """The complete frames in order: GOAWAY parsed, other frames as bytes. Raises ProtocolError."""
        self._buffer += data
        parts: list[bytes | GoAway] = []
        start = position = 0
        while len(self._buffer) - position >= _FRAME_HEADER_BYTES:
            length = int.from_bytes(self._buffer[position : position + 3])
            if length > _FRAME_MOST_BYTES:
                position = len(self._buffer)
                break
            end = position + _FRAME_HEADER_BYTES + length
            if end > len(self._buffer):
                break
            if self._buffer[position + 3] == _GO_AWAY_TYPE:
                if position > start:
                    parts.append(bytes(self._buffer[start:position]))
                parts.append(_go_away(bytes(self._buffer[position + _FRAME_HEADER_BYTES : end])))
                start = end
            position = end
        if position > start:
            parts.append(bytes(self._buffer[start:position]))
        del self._buffer[:position]
        return parts


def _go_away(content: bytes) -> GoAway:
    if len(content) < _GO_AWAY_LEAST_BYTES:
        raise h2.exceptions.ProtocolError("a GOAWAY frame is too short")
    return GoAway(int.from_bytes(content[:4]) & 0x7FFF_FFFF, int.from_bytes(content[4:8]))


class Http2Connection(asyncio.Protocol):
    """One connection (RFC 9113) with concurrent requests: the protocol for `loop.create_connection`. A
    cancelled request resets its stream, and other requests continue. After a GOAWAY the requests that the
    server has accepted are still answered, and the others can be retried on another connection.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._filter = GoAwayFilter()
        self._transport: asyncio.Transport | None = None
        self._exchanges: dict[int, Http2Exchange] = {}
        self._turns = StreamQueue(self._free_streams)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self.lost: asyncio.Future[None] = self._loop.create_future()
        """Done when the connection is closed."""
        self._retired = False
        self._flushing = False
        self._heard_at = self._used_at = self._loop.time()

    # Methods for the client.

    @property
    def usable(self) -> bool:
        """Whether the connection accepts new requests."""
        return not self._retired and not self.lost.done()

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while there is a request."""
        return 0.0 if self._exchanges else self._loop.time() - self._used_at

    async def opened(self) -> None:
        """Wait for the server's settings. Raises Http2Error if the connection breaks first."""
        await asyncio.wait([self._opened, self.lost], return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            raise Http2Error("the server closed the new connection")

    async def request(self, headers: Headers, body: bytes) -> Http2Answer:
        """Send a request; returns its answer. Cancelling it resets its stream and no other."""
        while self.usable and not self._free_streams():  # until the server allows one more stream
            await self._turns.next()
        if not self.usable:
            raise NotTakenError("the connection takes no more requests")
        stream_id, exchange = self._begin(headers, body)
        try:
            return await exchange.answer
        finally:
            self._end(stream_id, exchange)

    def retire(self) -> None:
        """Accept no new requests, and close the connection after the last answer."""
        self._retired = True
        self._turns.wake(everyone=True)
        if not self._exchanges:
            self._close()

    async def close(self) -> None:
        """Abort the requests in flight and close the connection."""
        self._retired = True
        self._turns.wake(everyone=True)
        self._close()
        await asyncio.wait([self.lost], timeout=_CLOSING_SECONDS)
        if not self.lost.done() and self._transport is not None:
            self._transport.abort()
            await asyncio.wait([self.lost], timeout=_CLOSING_SECONDS)

    # Start and end of a request.

    def _begin(self, headers: Headers, body: bytes) -> tuple[int, Http2Exchange]:
        try:
            stream_id = self._h2.get_next_available_stream_id()
            self._h2.send_headers(stream_id, list(headers))
        except (h2.exceptions.NoAvailableStreamIDError, h2.exceptions.TooManyStreamsError):
            self.retire()
            raise NotTakenError("the connection takes no more requests") from None
        exchange = self._exchanges[stream_id] = Http2Exchange(body, self._loop)
        self._send_body(stream_id, exchange)
        self._flush()
        return stream_id, exchange

    def _end(self, stream_id: int, exchange: Http2Exchange) -> None:
        del self._exchanges[stream_id]
        self._used_at = self._loop.time()
        if self.lost.done():
            return
        if not exchange.ended or exchange.unsent:
            with suppress(h2.exceptions.ProtocolError):  # the stream is closed already
                self._h2.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
            self._flush()
        is_given_up = not exchange.answer.done() or exchange.answer.cancelled()
        if is_given_up and self._heard_at <= exchange.began_at:  # silent since then: it may be dead
            self.retire()
        if self._retired and not self._exchanges:
            self._close()
        self._turns.wake()

    def _free_streams(self) -> int:
        return max(0, self._h2.remote_settings.max_concurrent_streams - len(self._exchanges))

    def _send_body(self, stream_id: int, exchange: Http2Exchange) -> None:
        """Send as much as flow control allows; the rest is sent when the windows grow."""
        while True:
            window = self._h2.local_flow_control_window(stream_id)
            size = min(window, self._h2.max_outbound_frame_size, len(exchange.unsent))
            last = size == len(exchange.unsent)
            if size <= 0 and not last:
                return
            self._h2.send_data(stream_id, exchange.unsent[:size].tobytes(), end_stream=last)
            exchange.unsent = exchange.unsent[size:]
            if last:
                return

    def _flush(self) -> None:
        """Schedule a write, so that concurrent requests share one."""
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._write)

    def _write(self) -> None:
        self._flushing = False
        data = self._h2.data_to_send()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _close(self) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        self._h2.close_connection()
        self._write()
        self._transport.close()

    # Callbacks of the event loop.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the preface and the settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._h2.initiate_connection()
        self._h2.update_settings({h2.settings.SettingCodes.ENABLE_PUSH: 0})
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Process received frames and resolve the requests that they answer."""
        self._heard_at = self._loop.time()
        try:
            for part in self._filter.feed(data):
                if isinstance(part, GoAway):
                    self._go_away(part)
                    continue
                for event in self._h2.receive_data(part):
                    self._handle(event)
        except h2.exceptions.ProtocolError:
            self._retired = True
            if self._transport is not None:
                self._transport.abort()
            return
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Fail the requests in flight and wake the waiting ones."""
        self._retired = True
        if not self.lost.done():
            self.lost.set_result(None)
        for exchange in self._exchanges.values():
            exchange.fail(ConnectionLostError("the connection was closed before an answer"))
        self._turns.wake(everyone=True)

    def _go_away(self, frame: GoAway) -> None:
        for stream_id, exchange in self._exchanges.items():
            if stream_id > frame.last_stream_id:
                exchange.fail(NotTakenError("the server is going away"))
        self.retire()

    def _handle(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RemoteSettingsChanged():
                if not self._opened.done():
                    self._opened.set_result(None)
                self._turns.wake()
                self._send_bodies()
            case h2.events.WindowUpdated():
                self._send_bodies()
            case h2.events.DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                self._pass_on(event)
            case h2.events.ResponseReceived() | h2.events.StreamEnded() | h2.events.StreamReset():
                self._pass_on(event)

    def _send_bodies(self) -> None:
        for stream_id, exchange in self._exchanges.items():
            if exchange.unsent and not exchange.answer.done():
                self._send_body(stream_id, exchange)

    def _pass_on(self, event: StreamEvent) -> None:
        """Hand an event of a stream to its request, unless that was given up."""
        exchange = self._exchanges.get(event.stream_id)
        if exchange is not None:
            exchange.take(event)


class Http2Client:
    """A client for `https://host:port`, and an async context manager. A request that was not processed, or
    whose connection broke, is retried on a new one, up to three attempts: it must be idempotent.
    """

    def __init__(self, host: str, port: int, tls: ssl.SSLContext, connect_seconds: float) -> None:
        self._host = host
        self._port = port
        self._tls = tls
        self._connect_seconds = connect_seconds
        self._current: Http2Connection | None = None
        self._opening: asyncio.Task[Http2Connection] | None = None
        self._connections: set[Http2Connection] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Cancel the requests in flight and close every connection."""
        self._closed = True
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait([self._opening])
        await asyncio.gather(*(connection.close() for connection in list(self._connections)))
        self._current = None

    async def request(self, headers: Headers, body: bytes) -> Http2Answer:
        """Send a request; returns its answer. Cancelling it affects no other request. Raises Http2Error."""
        for _ in range(_ATTEMPTS - 1):
            connection = await self._connection()
            try:
                return await connection.request(headers, body)
            except (NotTakenError, ConnectionLostError):
                continue
        return await (await self._connection()).request(headers, body)

    async def _connection(self) -> Http2Connection:
        """The connection in use, or a new one; concurrent callers wait for the same new connection."""
        if self._closed:
            raise Http2Error("the client was closed")
        current = self._current
        if current is not None and current.usable:
            if current.idle_seconds < _IDLE_SECONDS:
                return current
            current.retire()
        if self._opening is None or self._opening.done():
            self._opening = asyncio.create_task(self._open(), name="HTTP/2 connection")
            self._opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        opening = self._opening
        await asyncio.wait([opening])
        if opening.cancelled():
            raise Http2Error("the client was closed")
        return opening.result()

    async def _open(self) -> Http2Connection:
        try:
            async with asyncio.timeout(self._connect_seconds):
                connection = await self._connect()
        except TimeoutError:
            raise Http2Error("no connection in time") from None
        except ssl.SSLCertVerificationError as error:
            raise Http2Error(f"the certificate is not valid: {error.verify_message}") from None
        except ssl.SSLError as error:
            raise Http2Error(f"no TLS connection: {error.reason}") from None
        except OSError as error:
            raise Http2Error(f"no connection: {error.strerror or type(error).__name__}") from None
        self._current = connection
        return connection

    async def _connect(self) -> Http2Connection:
        transport, connection = await asyncio.get_running_loop().create_connection(
            Http2Connection, self._host, self._port, ssl=self._tls
        )
        self._connections.add(connection)
        connection.lost.add_done_callback(lambda _: self._connections.discard(connection))
        try:
            if transport.get_extra_info("ssl_object").selected_alpn_protocol() != "h2":
                raise Http2Error("the server does not speak HTTP/2")
            await connection.opened()
        except BaseException:
            transport.abort()
            raise
        return connection


def client_tls(ca_file: Path | str | None) -> ssl.SSLContext:
    """A TLS context for HTTP/2 that verifies the server with the certificates of the system or of a file."""
    context = ssl.create_default_context(cafile=ca_file)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["h2"])
    return context
