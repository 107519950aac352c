"""A local Apple Push Notification service: HTTP/2 over TLS, with Apple's checks and limits.

It verifies the provider token with the account's public key, checks each field of a request, and allows a
connection one concurrent request until the first authenticated one. A test chooses its answers: to the next
requests (`script`), to requests for one device token (`by_token`), and to all other requests (`otherwise`).
"""

import asyncio
import json
import re
import ssl
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache, partial
from typing import Any
from uuid import UUID

from Crypto.PublicKey import ECC

from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.testing.http2_server import Http2ServerConnection, ServerStream
from bridge_server.testing.jwt_check import verified

_PAYLOAD_LIMIT_BYTES = 4_096
_PATH = re.compile(r"/3/device/([^/]*)")
_DEVICE_TOKEN = re.compile(r"([0-9a-f]{2}){32,128}")
_TOKEN_LIFETIME_SECONDS = 3_600
_TOKEN_PAUSE_SECONDS = 1_200
_STATUSES = {
    "ExpiredProviderToken": 403,
    "Forbidden": 403,
    "BadCertificate": 403,
    "BadCertificateEnvironment": 403,
    "InvalidProviderToken": 403,
    "MissingProviderToken": 403,
    "UnrelatedKeyIdInToken": 403,
    "BadEnvironmentKeyIdInToken": 403,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "Unregistered": 410,
    "ExpiredToken": 410,
    "PayloadTooLarge": 413,
    "TooManyProviderTokenUpdates": 429,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "Shutdown": 503,
}
"""The status of each reason. The default is 400."""


@dataclass(frozen=True, slots=True)
class ReceivedNotification:
    """A valid, authenticated request."""

    connection: Http2ServerConnection
    device_token: str
    headers: dict[str, str]
    payload: dict[str, Any]


class ApnsService:
    """Received notifications and prepared answers. Start it with `running_apns_service`."""

    key_id = "ABC123DEFG"
    team_id = "DEF123GHIJ"

    def __init__(self, clock: Clock, topic: str, max_streams: int) -> None:
        self.topic = topic
        self.max_streams = max_streams
        self.received: list[ReceivedNotification] = []
        self.script: deque[ApnsAnswer] = deque()
        self.otherwise: ApnsAnswer = taken
        self.by_token: dict[str, ApnsAnswer] = {}
        self.connections: list[Http2ServerConnection] = []
        self.held: list[ServerStream] = []
        self.provider_tokens: list[str] = []
        self.most_at_once = 0
        self.port = 0
        self._clock = clock
        self._key = ECC.generate(curve="P-256")
        self._verified = lru_cache(partial(verified, key=self._key.public_key()))  # a millisecond each
        self._updated_at: int | None = None

    @property
    def endpoint(self) -> str:
        """Scheme, host and port."""
        return f"https://127.0.0.1:{self.port}"

    @property
    def key(self) -> str:
        """The text of the .p8 file that signs valid provider tokens."""
        return f"{self._key.export_key(format='PEM', use_pkcs8=True)!s}\n"

    def accept(self) -> Http2ServerConnection:
        """The protocol of a new connection."""
        connection = Http2ServerConnection(self.handle, max_streams=1)
        self.connections.append(connection)
        return connection

    def handle(self, stream: ServerStream) -> None:
        """Check a request and answer it."""
        if self.script:
            self.script.popleft()(self, stream)
            return
        reason = self._token_fault(stream) or _fault(stream, self.topic)
        if reason is not None:
            refusal(reason)(self, stream)
            return
        stream.connection.allow_streams(self.max_streams)
        self.most_at_once = max(self.most_at_once, stream.connection.open_streams)
        token = stream.headers[":path"].rpartition("/")[2]
        self.received.append(
            ReceivedNotification(stream.connection, token, stream.headers, json.loads(bytes(stream.body)))
        )
        self.by_token.get(token, self.otherwise)(self, stream)

    def _token_fault(self, stream: ServerStream) -> str | None:
        scheme, _, token = stream.headers.get("authorization", "").partition(" ")
        if scheme.lower() != "bearer" or not token:
            return "MissingProviderToken"
        try:
            header, claims = self._verified(token)
        except ValueError:
            return "InvalidProviderToken"
        if header.get("kid") != self.key_id or claims.get("iss") != self.team_id:
            return "InvalidProviderToken"
        return self._age_fault(token, claims.get("iat"))

    def _age_fault(self, token: str, issued_at: object) -> str | None:
        now = self._clock.now_ms() // 1_000
        if not isinstance(issued_at, int) or issued_at > now + 60:
            return "InvalidProviderToken"
        if now - issued_at > _TOKEN_LIFETIME_SECONDS:
            return "ExpiredProviderToken"
        if token not in self.provider_tokens:
            early = self._updated_at is not None and now - self._updated_at < _TOKEN_PAUSE_SECONDS
            if early:
                return "TooManyProviderTokenUpdates"
            self.provider_tokens.append(token)
            self._updated_at = now
        return None


ApnsAnswer = Callable[[ApnsService, ServerStream], None]


def taken(_: ApnsService, stream: ServerStream) -> None:
    """Accept the notification."""
    stream.respond(200, {"apns-id": stream.headers.get("apns-id", "")}, b"")


def hang(_: ApnsService, __: ServerStream) -> None:
    """Send no answer."""


def hold(service: ApnsService, stream: ServerStream) -> None:
    """Send no answer, and add the stream to `held`, where the test can answer it."""
    service.held.append(stream)


def reset(_: ApnsService, stream: ServerStream) -> None:
    """Reset the stream."""
    stream.reset()


def abort(_: ApnsService, stream: ServerStream) -> None:
    """Abort the connection without an answer."""
    stream.connection.abort()


def refusal(reason: str, **headers: str) -> ApnsAnswer:
    """Refuse with one of Apple's reasons. Underscores in the names of headers become hyphens."""

    def answer(service: ApnsService, stream: ServerStream) -> None:
        document: dict[str, str | int] = {"reason": reason}
        if _STATUSES.get(reason) == 410:
            document["timestamp"] = 1_700_000_000_000
        fields = {name.replace("_", "-"): value for name, value in headers.items()}
        stream.respond(_STATUSES.get(reason, 400), fields, json.dumps(document).encode())

    return answer


@asynccontextmanager
async def running_apns_service(
    tls: ssl.SSLContext,
    clock: Clock | None = None,
    *,
    topic: str = "com.example.wallet",
    max_streams: int = 1_000,
) -> AsyncIterator[ApnsService]:
    """Run the service on a free port of loopback until the end of the block."""
    service = ApnsService(clock or SystemClock(), topic, max_streams)
    tls.set_alpn_protocols(["h2"])
    loop = asyncio.get_running_loop()
    server = await loop.create_server(service.accept, "127.0.0.1", 0, ssl=tls)
    service.port = server.sockets[0].getsockname()[1]
    try:
        yield service
    finally:
        server.close()
        for connection in service.connections:
            connection.abort()
        opened = [connection.closed for connection in service.connections if connection.was_opened]
        if opened:
            await asyncio.wait(opened, timeout=1)


def _fault(stream: ServerStream, topic: str) -> str | None:
    fields = stream.headers
    if fields.get(":method") != "POST":
        return "MethodNotAllowed"
    path = _PATH.fullmatch(fields.get(":path", ""))
    if path is None:
        return "BadPath"
    if not path[1]:
        return "MissingDeviceToken"
    if not _DEVICE_TOKEN.fullmatch(path[1]):
        return "BadDeviceToken"
    if "apns-topic" not in fields:
        return "MissingTopic"
    if fields["apns-topic"] != topic:
        return "TopicDisallowed"
    return _field_fault(fields) or _payload_fault(bytes(stream.body))


def _field_fault(fields: dict[str, str]) -> str | None:
    if len(fields.get("apns-collapse-id", "").encode()) > 64:
        return "BadCollapseId"
    if not fields.get("apns-expiration", "0").isdecimal():
        return "BadExpirationDate"
    if fields.get("apns-priority", "10") not in {"1", "5", "10"}:
        return "BadPriority"
    if fields.get("apns-push-type") not in {"alert", "background", "voip", "complication", "liveactivity"}:
        return "InvalidPushType"
    try:
        UUID(fields.get("apns-id", str(UUID(int=0))))
    except ValueError:
        return "BadMessageId"
    return None


def _payload_fault(body: bytes) -> str | None:
    if not body:
        return "PayloadEmpty"
    return "PayloadTooLarge" if len(body) > _PAYLOAD_LIMIT_BYTES else None
