"""An HTTP/2 server for tests, which can also hang, reset streams and send GOAWAY."""

import asyncio
from collections.abc import Callable
from typing import cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from hyperframe.frame import GoAwayFrame


class ServerStream:
    """A complete request and the ways to answer it. A test may also not answer."""

    def __init__(self, connection: "Http2ServerConnection", stream_id: int, headers: dict[str, str]) -> None:
        self.connection = connection
        self.stream_id = stream_id
        self.headers = headers
        self.body = bytearray()
        self.was_reset = False

    def respond(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Answer with a status, header fields and a body of at most 16,384 bytes."""
        self.connection.respond(self, status, headers, body)

    def reset(self, code: int = h2.errors.ErrorCodes.INTERNAL_ERROR) -> None:
        """Reset the stream. REFUSED_STREAM means that the request was not processed."""
        self.connection.reset(self, code)


class Http2ServerConnection(asyncio.Protocol):
    """One connection. `handle` is called with each request; `allow_streams` changes `max_streams`."""

    def __init__(self, handle: Callable[[ServerStream], None], max_streams: int) -> None:
        self._handle = handle
        self._h2 = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        self._max_streams = max_streams
        self._transport: asyncio.Transport | None = None
        self._streams: dict[int, ServerStream] = {}
        self.closed = asyncio.get_running_loop().create_future()

    @property
    def was_opened(self) -> bool:
        """Whether the TLS handshake succeeded."""
        return self._transport is not None

    @property
    def open_streams(self) -> int:
        """The number of requests without an answer."""
        return len(self._streams)

    def allow_streams(self, count: int) -> None:
        """Announce to the client how many concurrent requests it may have."""
        if count != self._max_streams:
            self._max_streams = count
            self._h2.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: count})
            self._flush()

    def respond(self, stream: ServerStream, status: int, headers: dict[str, str], body: bytes) -> None:
        """Answer a request, unless the client has reset it or closed the connection."""
        has_gone = self._h2.state_machine.state is h2.connection.ConnectionState.CLOSED
        if self._streams.pop(stream.stream_id, None) is None or has_gone:
            return
        fields = [(":status", str(status)), *headers.items()]
        self._h2.send_headers(stream.stream_id, fields, end_stream=not body)
        if body:
            self._h2.send_data(stream.stream_id, body, end_stream=True)
        self._flush()

    def reset(self, stream: ServerStream, code: int) -> None:
        """Reset a stream."""
        if self._streams.pop(stream.stream_id, None) is not None:
            self._h2.reset_stream(stream.stream_id, code)
            self._flush()

    def go_away(self, last_stream_id: int, code: int = 0, text: bytes = b"") -> None:
        """Send GOAWAY: requests after this stream get no answer, earlier ones may get one."""
        frame = GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code, additional_data=text)
        self.write(frame.serialize())

    def write(self, data: bytes) -> None:
        """Send raw bytes."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close the connection in an orderly way."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        """Abort the connection."""
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Send the settings."""
        self._transport = cast(asyncio.Transport, transport)
        self._h2.local_settings = h2.settings.Settings(
            client=False,
            initial_values={h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self._max_streams},
        )
        self._h2.initiate_connection()
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Process received frames."""
        try:
            events = self._h2.receive_data(data)
        except h2.exceptions.ProtocolError:
            self._flush()
            self.close()
            return
        for event in events:
            self._take(event)
        self._flush()

    def connection_lost(self, error: Exception | None) -> None:
        """Drop the streams and complete `closed`."""
        self._streams.clear()
        if not self.closed.done():
            self.closed.set_result(None)

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                headers = {str(name): str(value) for name, value in event.headers}
                self._streams[event.stream_id] = ServerStream(self, event.stream_id, headers)
            case h2.events.DataReceived():
                self._h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (stream := self._streams.get(event.stream_id)) is not None:
                    stream.body += event.data
            case h2.events.StreamEnded():
                if (stream := self._streams.get(event.stream_id)) is not None:
                    self._handle(stream)
            case h2.events.StreamReset():
                if (stream := self._streams.pop(event.stream_id, None)) is not None:
                    stream.was_reset = True

    def _flush(self) -> None:
        self.write(self._h2.data_to_send())
