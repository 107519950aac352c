"""A local Apple Push Notification service over HTTP/2, which verifies the provider token, and allows a
connection one request until the first authenticated one. A test chooses its answers: to the next requests
(`script`), to those for one device token (`by_token`), and to all others (`otherwise`).
"""

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any, cast

import h2.config
import h2.connection
import h2.errors
import h2.events
import h2.exceptions
import h2.settings
from Crypto.PublicKey import ECC
from hyperframe.frame import GoAwayFrame

from bridge_server.kernel.clock import Clock
from tests.support.credentials import verified
from tests.support.fakes import with_hyphens


@dataclass(slots=True)
class ServerStream:
    """A complete request and the ways to answer it. A test may also not answer."""

    connection: "Http2ServerConnection"
    stream_id: int
    headers: dict[str, str]
    body: bytearray = field(default_factory=bytearray)
    was_reset: bool = False

    def respond(self, status: int, headers: dict[str, str], body: bytes) -> None:
        """Answer with at most 16,384 bytes, unless the client has reset the stream or gone."""
        state = self.connection.state
        has_gone = state.state_machine.state is h2.connection.ConnectionState.CLOSED
        if self.connection.streams.pop(self.stream_id, None) is None or has_gone:
            return
        fields = [(":status", str(status)), *headers.items()]
        state.send_headers(self.stream_id, fields, end_stream=not body)
        if body:
            state.send_data(self.stream_id, body, end_stream=True)
        self.connection.flush()

    def reset(self, code: int = h2.errors.ErrorCodes.INTERNAL_ERROR) -> None:
        """Reset the stream. REFUSED_STREAM means that the request was not processed."""
        if self.connection.streams.pop(self.stream_id, None) is not None:
            self.connection.state.reset_stream(self.stream_id, code)
            self.connection.flush()


class Http2ServerConnection(asyncio.Protocol):
    """One connection. `handle` is called with each request; `allow_streams` changes `max_streams`."""

    def __init__(self, handle: Callable[[ServerStream], None], max_streams: int) -> None:
        self._handle = handle
        configuration = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        self.state = h2.connection.H2Connection(configuration)
        self._max_streams = max_streams
        self.transport: asyncio.Transport | None = None
        """There is none if the TLS handshake failed."""
        self.streams: dict[int, ServerStream] = {}
        self.closed = asyncio.get_running_loop().create_future()

    def allow_streams(self, count: int) -> None:
        """Announce to the client how many concurrent requests it may have."""
        if count != self._max_streams:
            self._max_streams = count
            self.state.update_settings({h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: count})
            self.flush()

    def go_away(self, last_stream_id: int, code: int = 0, text: bytes = b"") -> None:
        """Send GOAWAY: requests after this stream get no answer, earlier ones may get one."""
        frame = GoAwayFrame(0, last_stream_id=last_stream_id, error_code=code, additional_data=text)
        self.write(frame.serialize())

    def write(self, data: bytes) -> None:
        if self.transport is not None:
            self.transport.write(data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        first = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: self._max_streams}
        self.state.local_settings = h2.settings.Settings(client=False, initial_values=first)
        self.state.initiate_connection()
        self.flush()

    def data_received(self, data: bytes) -> None:
        try:
            events = self.state.receive_data(data)
        except h2.exceptions.ProtocolError:
            self.flush()
            self.close()
            return
        for event in events:
            self._take(event)
        self.flush()

    def connection_lost(self, error: Exception | None) -> None:
        self.streams.clear()
        if not self.closed.done():
            self.closed.set_result(None)

    def _take(self, event: h2.events.Event) -> None:
        match event:
            case h2.events.RequestReceived():
                headers = {str(name): str(value) for name, value in event.headers}
                self.streams[event.stream_id] = ServerStream(self, event.stream_id, headers)
            case h2.events.DataReceived():
                self.state.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                if (stream := self.streams.get(event.stream_id)) is not None:
                    stream.body += event.data
            case h2.events.StreamEnded():
                if (stream := self.streams.get(event.stream_id)) is not None:
                    self._handle(stream)
            case h2.events.StreamReset():
                if (stream := self.streams.pop(event.stream_id, None)) is not None:
                    stream.was_reset = True

    def flush(self) -> None:
        self.write(self.state.data_to_send())


_STATUSES = {
    403: "ExpiredProviderToken Forbidden BadCertificate BadCertificateEnvironment InvalidProviderToken "
    "MissingProviderToken UnrelatedKeyIdInToken BadEnvironmentKeyIdInToken",
    404: "BadPath", 405: "MethodNotAllowed", 410: "Unregistered ExpiredToken", 413: "PayloadTooLarge",
    429: "TooManyProviderTokenUpdates TooManyRequests", 500: "InternalServerError",
    503: "ServiceUnavailable Shutdown",
}  # fmt: skip
"""The reasons of each status. Those of others are 400."""


@dataclass(frozen=True, slots=True)
class ReceivedNotification:
    connection: Http2ServerConnection
    device_token: str
    headers: dict[str, str]
    payload: dict[str, Any]


class ApnsService:
    """Received notifications and prepared answers. Start it with `running_apns_service`."""

    key_id = "ABC123DEFG"
    team_id = "DEF123GHIJ"
    topic = "com.example.wallet"

    def __init__(self, clock: Clock, max_streams: int) -> None:
        self.max_streams = max_streams
        self.received: list[ReceivedNotification] = []
        self.script: deque[ApnsAnswer] = deque()
        self.otherwise: ApnsAnswer = taken
        self.by_token: dict[str, ApnsAnswer] = {}
        self.connections: list[Http2ServerConnection] = []
        self.held: list[ServerStream] = []
        self.provider_tokens: list[str] = []
        self.most_at_once = 0
        self.endpoint = ""
        self._clock = clock
        key = ECC.generate(curve="P-256")
        self.key = f"{key.export_key(format='PEM', use_pkcs8=True)!s}\n"
        """The text of the .p8 file that signs valid provider tokens."""
        self._verified = lru_cache(partial(verified, key=key.public_key()))  # a millisecond each
        self._updated_at = 0

    def accept(self) -> Http2ServerConnection:
        connection = Http2ServerConnection(self.handle, max_streams=1)
        self.connections.append(connection)
        return connection

    def handle(self, stream: ServerStream) -> None:
        if self.script:
            self.script.popleft()(self, stream)
            return
        if (reason := self._token_fault(stream) or _fault(stream, self.topic)) is not None:
            refusal(reason)(self, stream)
            return
        stream.connection.allow_streams(self.max_streams)
        self.most_at_once = max(self.most_at_once, len(stream.connection.streams))
        token = stream.headers[":path"].rpartition("/")[2]
        payload = json.loads(bytes(stream.body))
        self.received.append(ReceivedNotification(stream.connection, token, stream.headers, payload))
        self.by_token.get(token, self.otherwise)(self, stream)

    def _token_fault(self, stream: ServerStream) -> str | None:
        """Apple takes a token for an hour, and a new one 20 minutes after the one before it."""
        token = stream.headers["authorization"].removeprefix("bearer ")
        try:
            header, claims = self._verified(token)
        except ValueError:
            return "InvalidProviderToken"
        now = self._clock.now_ms() // 1_000
        age = now - claims["iat"]
        if (header["kid"], claims["iss"]) != (self.key_id, self.team_id) or age < -60:
            return "InvalidProviderToken"
        if age > 3_600:
            return "ExpiredProviderToken"
        if token not in self.provider_tokens:
            if now - self._updated_at < 1_200:
                return "TooManyProviderTokenUpdates"
            self.provider_tokens.append(token)
            self._updated_at = now
        return None


ApnsAnswer = Callable[[ApnsService, ServerStream], None]


def taken(_: ApnsService, stream: ServerStream) -> None:
    stream.respond(200, {"apns-id": stream.headers.get("apns-id", "")}, b"")


def hang(_: ApnsService, __: ServerStream) -> None:
    """Send no answer."""


def hold(service: ApnsService, stream: ServerStream) -> None:
    """Send no answer, and add the stream to `held`, where the test can answer it."""
    service.held.append(stream)


def reset(_: ApnsService, stream: ServerStream) -> None:
    stream.reset()


def abort(_: ApnsService, stream: ServerStream) -> None:
    stream.connection.abort()


def refusal(reason: str, **headers: str) -> ApnsAnswer:
    """Refuse with one of Apple's reasons. Underscores in the names of headers become hyphens."""
    status = next((status for status, reasons in _STATUSES.items() if reason in reasons.split()), 400)
    body = json.dumps({"reason": reason}).encode()
    return lambda _, stream: stream.respond(status, with_hyphens(headers), body)


@asynccontextmanager
async def running_apns_service(
    tls: ssl.SSLContext, clock: Clock, *, max_streams: int = 1_000
) -> AsyncIterator[ApnsService]:
    service = ApnsService(clock, max_streams)
    tls.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(service.accept, "127.0.0.1", 0, ssl=tls)
    service.endpoint = f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    try:
        yield service
    finally:
        server.close()
        for connection in service.connections:
            connection.abort()
        opened = [connection.closed for connection in service.connections if connection.transport is not None]
        if opened:
            await asyncio.wait(opened, timeout=1)


def _fault(stream: ServerStream, topic: str) -> str | None:
    """The first reason for which Apple would refuse the request."""
    fields = stream.headers
    checks = {
        "BadDeviceToken": re.fullmatch(r"/3/device/(?:[0-9a-f]{2}){32,128}", fields[":path"]),
        "TopicDisallowed": fields.get("apns-topic") == topic,
        "BadCollapseId": len(fields.get("apns-collapse-id", "").encode()) <= 64,
        "PayloadTooLarge": len(stream.body) <= 4_096,
    }
    return next((reason for reason, holds in checks.items() if not holds), None)
