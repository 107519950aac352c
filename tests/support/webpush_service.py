"""A local Web Push service: subscriptions, the checks of RFC 8030, 8188 and 8292, and every refusal."""

import asyncio
import base64
import re
import secrets
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from json import dumps
from typing import Any
from uuid import uuid4

import orjson
from aiohttp import web
from Crypto.PublicKey import ECC
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from multidict import CIMultiDictProxy

from bridge_server.kernel.clock import Clock
from tests.support import fakes
from tests.support.credentials import verified


def _vapid_key(authorization: str, audience: str, now_seconds: float) -> str:
    """Verify an Authorization header (RFC 8292); returns its public key as base64url. Raises ValueError."""
    matched = re.fullmatch(r"vapid t=([\w.-]+), ?k=([\w-]+)", authorization, re.ASCII)
    if matched is None:
        raise ValueError("the Authorization header is not «vapid t=…, k=…»")
    token, key = matched.groups()
    _, claims = verified(token, ECC.import_key(from_base64url(key), curve_name="P-256"))
    if claims["aud"] != audience or not 0 < claims["exp"] - now_seconds <= 24 * 3_600:
        raise ValueError("it is for another server, has expired, or lasts longer than 24 hours")
    if not claims["sub"].startswith(("mailto:", "https://")):
        raise ValueError("the subject is neither mailto: nor an https URL")
    return key


@dataclass(frozen=True, slots=True)
class ReceivedPush:
    endpoint: str
    headers: CIMultiDictProxy[str]
    body: bytes
    status: int
    received_at_ms: int

    @property
    def topic(self) -> str | None:
        return self.headers.get("Topic")


Answer = Callable[["WebPushService", web.BaseRequest], Awaitable[web.StreamResponse]]


class WebPushService:
    """Checks requests and answers like a push service. `script` holds other answers for the next requests."""

    def __init__(self, clock: Clock) -> None:
        self.received: list[ReceivedPush] = []
        self.script: deque[Answer] = deque()
        self.origin = ""
        self.released = asyncio.Event()
        self._clock = clock
        self._keys: dict[str, str | None] = {}
        self._ended: set[str] = set()

    @property
    def accepted(self) -> list[ReceivedPush]:
        return [push for push in self.received if push.status == 201]

    def subscribe(self, p256dh: str, auth: str, application_server_key: str | None = None) -> str:
        """A browser's `JSON.stringify(subscription)`; with a key, only its owner may send to it."""
        path = f"/push/{uuid4().hex}"
        self._keys[path] = application_server_key
        keys = {"p256dh": p256dh, "auth": auth}
        return dumps({"endpoint": self.origin + path, "expirationTime": None, "keys": keys})

    def unsubscribe_all(self) -> None:
        """End every subscription: its requests are answered 410 from now on."""
        self._ended.update(self._keys)

    def waiting(self) -> list[ReceivedPush]:
        """The messages that offline devices would receive now: the last of each topic, within its TTL."""
        last = {(push.endpoint, push.topic or uuid4().hex): push for push in self.accepted}.values()
        now_ms = self._clock.now_ms()
        return [each for each in last if now_ms < each.received_at_ms + int(each.headers["TTL"]) * 1_000]

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        answer = self.script.popleft() if self.script else None
        code, reason = (0, "") if answer is not None else self._verdict(request, body)
        endpoint, now_ms = self.origin + request.path_qs, self._clock.now_ms()
        self.received.append(ReceivedPush(endpoint, request.headers, body, code, now_ms))
        if answer is not None:
            return await answer(self, request)
        headers = {"Location": f"{self.origin}/message/{uuid4().hex}"} if code == 201 else {}
        return web.Response(status=code, text=reason, headers=headers)

    def _verdict(self, request: web.BaseRequest, body: bytes) -> tuple[int, str]:
        if request.path not in self._keys:
            return 404, "no such subscription"
        if request.path in self._ended:
            return 410, "the subscription has ended"
        headers, urgencies = request.headers, ("very-low", "low", "normal", "high")
        try:
            key = _vapid_key(headers.get("Authorization", ""), self.origin, self._clock.now_ms() / 1_000)
        except ValueError as error:
            return 401, f"invalid JWT: {error}"
        if self._keys[request.path] not in (None, key):
            return 403, "the VAPID credentials are not those of the subscription"
        if not headers.get("TTL", "").isdecimal() or headers.get("Urgency", "normal") not in urgencies:
            return 400, "the TTL is no number of seconds, or the Urgency is not one of RFC 8030"
        if not re.fullmatch(r"[A-Za-z0-9_-]{1,32}", headers.get("Topic", "none")):
            return 400, "the Topic is not 1 to 32 characters of base64url"
        if len(body) > 4_096:
            return 413, "the message is too large"
        return 201, ""


status, hang, reset = fakes.status, fakes.hang, fakes.reset


@asynccontextmanager
async def web_push_service(clock: Clock) -> AsyncIterator[WebPushService]:
    service = WebPushService(clock)
    runner = web.ServerRunner(web.Server(service.handle, access_log=None), shutdown_timeout=1)
    async with fakes.listening(runner, service.released) as port:
        service.origin = f"http://127.0.0.1:{port}"
        yield service


_CURVE = ec.SECP256R1()


class Browser:
    """One subscription's keys (RFC 8291, section 2); it decrypts by another library than the server's."""

    def __init__(self, private: int | None = None) -> None:
        self._key = (
            ec.generate_private_key(_CURVE) if private is None else ec.derive_private_key(private, _CURVE)
        )
        self._auth = secrets.token_bytes(16)

    @property
    def point(self) -> bytes:
        return self._key.public_key().public_bytes(Encoding.X962, PublicFormat.UncompressedPoint)

    @property
    def p256dh(self) -> str:
        return base64url(self.point)

    @property
    def auth(self) -> str:
        return base64url(self._auth)

    def subscribe(self, service: WebPushService, application_server_key: str | None = None) -> str:
        """Subscribe at the service; returns the JSON that the page sends to its server."""
        return service.subscribe(self.p256dh, self.auth, application_server_key)

    def decrypt(self, body: bytes) -> bytes:
        """The plaintext of one record, with its padding taken off (RFC 8188, section 2; RFC 8291, 3.4)."""
        salt, size, sender = body[:16], int.from_bytes(body[16:20], "big"), body[21 : 21 + body[20]]
        record = body[21 + body[20] :]
        assert 17 <= len(record) <= size
        shared = self._key.exchange(ec.ECDH(), ec.EllipticCurvePublicKey.from_encoded_point(_CURVE, sender))
        secret = _hkdf(self._auth, shared, b"WebPush: info\0" + self.point + sender, 32)
        key = _hkdf(salt, secret, b"Content-Encoding: aes128gcm\0", 16)
        nonce = _hkdf(salt, secret, b"Content-Encoding: nonce\0", 12)
        padded = AESGCM(key).decrypt(nonce, record, None).rstrip(b"\0")
        assert padded[-1:] == b"\x02"
        return padded[:-1]

    def read(self, body: bytes) -> Any:
        return orjson.loads(self.decrypt(body))


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def from_base64url(text: str) -> bytes:
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def _hkdf(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    return HKDF(SHA256(), size, salt, info).derive(secret)
