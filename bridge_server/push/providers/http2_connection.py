"""One HTTP/2 connection (RFC 9113) with concurrent requests. h2 handles frames, this module the waiting.

A cancelled request resets its stream, and other requests continue. After a GOAWAY the requests that the
server has accepted are still answered, and the others can be retried on another connection.
"""

import asyncio
from collections.abc import Sequence
from typing import cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions

from bridge_server.push.providers.go_away import GoAway, GoAwayFilter
from bridge_server.push.providers.http2_exchange import (
    ConnectionLostError,
    Http2Answer,
    Http2Error,
    Http2Exchange,
    NotTakenError,
    StreamEvent,
)
from bridge_server.push.providers.http2_stream_queue import StreamQueue

_CLOSING_SECONDS = 1.0

Headers = Sequence[tuple[str, str]]


class Http2Connection(asyncio.Protocol):
    """The protocol for `loop.create_connection`. `opened()` waits for the server's settings."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._h2 = h2.connection.H2Connection(h2.config.H2Configuration(header_encoding=None))
        self._filter = GoAwayFilter()
        self._transport: asyncio.Transport | None = None
        self._exchanges: dict[int, Http2Exchange] = {}
        self._turns = StreamQueue(self._free_streams)
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._lost: asyncio.Future[None] = self._loop.create_future()
        self._retired = False
        self._flushing = False
        self._heard_at = self._used_at = self._loop.time()

    # Methods for the client.

    @property
    def usable(self) -> bool:
        """Whether the connection accepts new requests."""
        return not self._retired and not self._lost.done()

    @property
    def lost(self) -> asyncio.Future[None]:
        """A future that is done when the connection is closed."""
        return self._lost

    @property
    def idle_seconds(self) -> float:
        """Seconds since the last request ended; 0 while there is a request."""
        return 0.0 if self._exchanges else self._loop.time() - self._used_at

    async def opened(self) -> None:
        """Wait for the server's settings. Raises Http2Error if the connection breaks first."""
        await asyncio.wait([self._opened, self._lost], return_when=asyncio.FIRST_COMPLETED)
        if not self._opened.done():
            raise Http2Error("the server closed the new connection")

    async def request(self, headers: Headers, body: bytes) -> Http2Answer:
        """Send a request; returns its answer. Cancelling it resets its stream and no other."""
        await self._turn()
        stream_id, exchange = self._begin(headers, body)
        try:
            return await exchange.answer
        finally:
            self._end(stream_id, exchange)

    def retire(self) -> None:
        """Accept no new requests, and close the connection after the last answer."""
        self._retired = True
        self._turns.wake_all()
        if not self._exchanges:
            self._close()

    async def close(self) -> None:
        """Abort the requests in flight and close the connection."""
        self._retired = True
        self._turns.wake_all()
        self._close()
        await asyncio.wait([self._lost], timeout=_CLOSING_SECONDS)
        if not self._lost.done() and self._transport is not None:
            self._transport.abort()
            await asyncio.wait([self._lost], timeout=_CLOSING_SECONDS)

    # Start and end of a request.

    async def _turn(self) -> None:
        """Wait until the server allows one more stream."""
        while self.usable and not self._free_streams():
            await self._turns.next()
        if not self.usable:
            raise NotTakenError("the connection takes no more requests")

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
        if self._lost.done():
            return
        if not exchange.ended or exchange.unsent:
            self._reset(stream_id)
        if not exchange.answer.done() or exchange.answer.cancelled():
            self._doubt(exchange)
        if self._retired and not self._exchanges:
            self._close()
        self._turns.wake()

    def _reset(self, stream_id: int) -> None:
        try:
            self._h2.reset_stream(stream_id, h2.errors.ErrorCodes.CANCEL)
        except h2.exceptions.ProtocolError:  # the stream is closed already
            return
        self._flush()

    def _doubt(self, given_up: Http2Exchange) -> None:
        """Retire a connection that was silent since the start of a cancelled request: it may be dead."""
        if self._heard_at <= given_up.began_at:
            self._retired = True
            self._turns.wake_all()

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
        if not self._lost.done():
            self._lost.set_result(None)
        for exchange in self._exchanges.values():
            exchange.fail(ConnectionLostError("the connection was closed before an answer"))
        self._turns.wake_all()

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
