"""Web Push: pushes to browsers (RFC 8030), encrypted (RFC 8291) and with VAPID (RFC 8292)."""

import asyncio
import hashlib
import hmac
import struct
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import field
from functools import partial
from secrets import token_bytes
from typing import Any, Literal, Self
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp import hdrs
from Crypto.Cipher import AES
from Crypto.Protocol.DH import key_agreement
from Crypto.PublicKey import ECC
from yarl import URL

from bridge_server.kernel import base64url
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.values import dataclass
from bridge_server.outbox import guarded_client as guarded
from bridge_server.outbox.guarded_client import LookUp, Outcome, Verdict, look_up
from bridge_server.push.keys import VapidIdentity, raw_public_key
from bridge_server.push.models import PushNotice
from bridge_server.push.providers import messages

LONGEST_SUBSCRIPTION_BYTES = 4_096

SALT_BYTES = 16
_POINT_BYTES = 65
_UNCOMPRESSED = 4
_AUTH_BYTES = 16

_RECORD_BYTES = 4_096
_RECORD_HEADER = struct.Struct("!16sIB65s")  # salt, record size, length of the key id, key id (RFC 8188, 2.1)
_LAST_RECORD = b"\x02"

_TOPIC_CHARACTERS = 32

Urgency = Literal["very-low", "low", "normal", "high"]
"""The urgency by which a device on battery decides whether to wake up (RFC 8030, section 5.3)."""


@dataclass(frozen=True, slots=True)
class WebPushSettings:
    """`vapid_private_key` is a key of `bridge-server keys vapid`; `vapid_subject` is `mailto:` and an
    address, or an https URL. `timeout_seconds` covers an attempt from the name lookup to the last byte of the
    answer. `allow_private` allows every address and port, and http, for development only.
    """

    vapid_private_key: str = field(repr=False)
    vapid_subject: str
    timeout_seconds: float
    allow_private: bool
    user_agent: str
    urgency: Urgency = "high"


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """A checked subscription, whose endpoint is a secret (W3C Push API, section 8; RFC 8291, section 2)."""

    endpoint: URL = field(repr=False)
    receiver_key: ECC.EccKey = field(repr=False)
    auth_secret: bytes = field(repr=False)

    @property
    def origin(self) -> str:
        """The origin of the push service, which is the audience of a VAPID token (RFC 8292, section 2)."""
        return str(self.endpoint.origin())


class WebPushProvider:
    """The provider that sends to the push service of each subscription, over guarded connections. A separate
    thread encrypts and signs, so that the event loop does not wait for it. `known_services` are the services
    whose refusal of the VAPID token is believed. Raises ValueError if the key or the subject is malformed.
    """

    def __init__(
        self,
        settings: WebPushSettings,
        clock: Clock,
        *,
        look_up: LookUp = look_up,
        known_services: Mapping[str, bytes] = messages.KNOWN_SERVICES,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._look_up = look_up
        self._known_services = known_services
        self._identity = VapidIdentity(settings.vapid_private_key, settings.vapid_subject)
        self.public_key = self._identity.public_key
        """The public key, which web pages use as `applicationServerKey`."""
        self._session: aiohttp.ClientSession | None = None
        self._sealing: ThreadPoolExecutor | None = None

    async def __aenter__(self) -> Self:
        rule = guarded.anywhere if self._settings.allow_private else guarded.public_only
        self._session = guarded.guarded_client(rule, self._look_up, self._settings.timeout_seconds)
        self._sealing = ThreadPoolExecutor(1, thread_name_prefix="web-push-sealing")
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._sealing is not None:
            self._sealing.shutdown(wait=False, cancel_futures=True)
            self._sealing = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def checked_token(self, token: str) -> str:
        """The subscription in its normal form. Raises ValueError."""
        return write_subscription(self._read(token))

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once. A notice that is too large has its body shortened, or is REFUSED."""
        assert self._session is not None, "the provider is not open"
        payload = messages.write_payload(notice)
        if payload is None:
            return Outcome(Verdict.REFUSED, "the notice is too large for a push message, or is not text")
        try:
            work = partial(self._seal, token, payload, self._clock.now_ms())
            subscription, fields, body = await asyncio.get_running_loop().run_in_executor(self._sealing, work)
        except ValueError as error:
            return Outcome(Verdict.REFUSED, str(error))
        try:
            return await self._post(subscription, {**fields, **self._wishes(notice)}, body)
        except Exception as error:  # a faulty service must not stop other pushes
            return guarded.judge_error(error)

    async def _post(self, subscription: PushSubscription, headers: dict[str, str], body: bytes) -> Outcome:
        assert self._session is not None
        refused = self._known_services.get(subscription.origin)
        async with self._session.post(
            subscription.endpoint, data=body, headers=headers, allow_redirects=False
        ) as response:
            text = await guarded.read_limited(response)
            return messages.judge_webpush(
                response.status, response.headers, text, now_ms=self._clock.now_ms(), refused_token=refused
            )

    def _seal(self, token: str, plain: bytes, now_ms: int) -> tuple[PushSubscription, dict[str, str], bytes]:
        """Encrypt and sign, in the thread, one message at a time."""
        subscription = self._read(token)
        receiver, secret = subscription.receiver_key, subscription.auth_secret
        sender = ECC.generate(curve="P-256", randfunc=token_bytes)
        salt, padding = token_bytes(SALT_BYTES), messages.padding_for(plain)
        body = encrypt(plain, receiver, secret, sender_key=sender, salt=salt, padding_bytes=padding)
        headers: dict[str, str] = {
            hdrs.AUTHORIZATION: self._identity.authorization(subscription.origin, now_ms),
            hdrs.CONTENT_ENCODING: "aes128gcm",
            hdrs.CONTENT_TYPE: "application/octet-stream",
        }
        return subscription, headers, body

    def _wishes(self, notice: PushNotice) -> dict[str, str]:
        # By its topic a repeat replaces only its own waiting message (RFC 8030, section 5.4). It is in
        # hexadecimal, because Mozilla documents only letters and digits of the base64url alphabet.
        topic = hashlib.sha256(notice.message_id.encode()).hexdigest()[:_TOPIC_CHARACTERS]
        return {
            "TTL": str(max(0, min(notice.ttl_seconds, messages.LONGEST_TTL_SECONDS))),
            "Urgency": self._settings.urgency,
            "Topic": topic,
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._settings.user_agent,
        }

    def _read(self, token: str) -> PushSubscription:
        return read_subscription(token, allow_http=self._settings.allow_private)


def read_subscription(text: str, *, allow_http: bool = False) -> PushSubscription:
    """Read a page's `JSON.stringify(subscription)`. Raises ValueError, whose text does not quote it."""
    fields = _fields(text)
    keys = fields.get("keys")
    if not isinstance(keys, dict):
        raise ValueError("the subscription has no keys: it must be asked for with an applicationServerKey")
    expires = fields.get("expirationTime")  # it is not stored: the service answers 410 after it
    if expires is not None and (isinstance(expires, bool) or not isinstance(expires, int | float)):
        raise ValueError("the subscription's expirationTime must be a number or null")
    return PushSubscription(
        _endpoint(fields.get("endpoint"), allow_http),
        _receiver_key(_bytes(keys, "p256dh", _POINT_BYTES)),
        _bytes(keys, "auth", _AUTH_BYTES),
    )


def _fields(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_SUBSCRIPTION_BYTES:
        raise ValueError(f"the subscription must have at most {LONGEST_SUBSCRIPTION_BYTES} bytes")
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("the token must be a push subscription as JSON: {endpoint, keys: {p256dh, auth}}")
    return fields


def _endpoint(value: Any, allow_http: bool) -> URL:
    if not isinstance(value, str):
        raise ValueError("the subscription's endpoint must be a URL")
    try:
        parts = urlsplit(http_url(value))
        origin = URL(f"{parts.scheme}://{parts.netloc}").origin()
    except ValueError as error:
        raise ValueError(f"the subscription's endpoint {error}") from None
    if parts.scheme != "https" and not allow_http:
        raise ValueError("the subscription's endpoint must be an https URL")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("the subscription's endpoint must have no user name and no fragment")
    # The path and query are sent back to the service unchanged, byte for byte.
    query = f"?{parts.query}" if parts.query else ""
    return URL(f"{origin}{parts.path or '/'}{query}", encoded=True)


def _bytes(keys: dict[str, Any], name: str, size: int) -> bytes:
    value = keys.get(name)
    if not isinstance(value, str):
        raise ValueError(f"the subscription's key {name} is missing")
    try:
        data = base64url.decode(value)
    except ValueError as error:
        raise ValueError(f"the subscription's key {name} {error}") from None
    if len(data) != size:
        raise ValueError(f"the subscription's key {name} must hold {size} bytes, and holds {len(data)}")
    return data


def _receiver_key(raw: bytes) -> ECC.EccKey:
    try:
        if raw[0] == _UNCOMPRESSED:  # import_key also accepts other formats
            return ECC.import_key(raw, curve_name="P-256")
    except ValueError:
        pass
    raise ValueError("the subscription's key p256dh is not a point of the curve P-256")


def write_subscription(subscription: PushSubscription) -> str:
    """The normal form of a subscription, in which two can be compared."""
    keys = {
        "auth": base64url.encode(subscription.auth_secret),
        "p256dh": base64url.encode(subscription.receiver_key.export_key(format="raw")),
    }
    return orjson.dumps({"endpoint": str(subscription.endpoint), "keys": keys}).decode()


def encrypt(
    plaintext: bytes,
    receiver_key: ECC.EccKey,
    auth_secret: bytes,
    *,
    sender_key: ECC.EccKey,
    salt: bytes,
    padding_bytes: int = 0,
) -> bytes:
    """The body of a push message with `Content-Encoding: aes128gcm`, in one record (RFC 8291 over RFC 8188).
    `receiver_key` and `auth_secret` are the subscription's; `sender_key` and `salt` are random and used once.
    Raises ValueError when the plaintext and its padding are too long.
    """
    if len(plaintext) + padding_bytes > messages.LARGEST_PLAINTEXT_BYTES:
        raise ValueError(f"a push message holds at most {messages.LARGEST_PLAINTEXT_BYTES} bytes")
    sender_point = raw_public_key(sender_key)
    shared = key_agreement(eph_priv=sender_key, static_pub=receiver_key, kdf=bytes)
    both = raw_public_key(receiver_key) + sender_point
    secret = _derive(auth_secret, shared, b"WebPush: info\0" + both, 32)  # RFC 8291, section 3.3
    key = _derive(salt, secret, b"Content-Encoding: aes128gcm\0", 16)  # RFC 8188, section 2.2
    nonce = _derive(salt, secret, b"Content-Encoding: nonce\0", 12)  # section 2.3, for the first record
    record = plaintext + _LAST_RECORD + bytes(padding_bytes)
    ciphertext, tag = AES.new(key, AES.MODE_GCM, nonce=nonce).encrypt_and_digest(record)
    header = _RECORD_HEADER.pack(salt, _RECORD_BYTES, len(sender_point), sender_point)
    return header + ciphertext + tag


def _derive(salt: bytes, secret: bytes, info: bytes, size: int) -> bytes:
    """HKDF with SHA-256 for at most 32 bytes, which are one block (RFC 5869)."""
    extracted = hmac.digest(salt, secret, "sha256")
    return hmac.digest(extracted, info + b"\x01", "sha256")[:size]
