"""Web Push: pushes to browsers (RFC 8030), encrypted (RFC 8291) and with VAPID (RFC 8292)."""

import asyncio
import hashlib
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from secrets import token_bytes
from typing import Literal, Self

import aiohttp
from aiohttp import hdrs
from Crypto.PublicKey import ECC

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.guard import Rule, anywhere, public_only
from bridge_server.outgoing.guarded_client import guarded_client, judge_error, read_limited
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.outgoing.resolver import LookUp, look_up
from bridge_server.push.models import PushNotice
from bridge_server.push.webpush.answers import KNOWN_SERVICES, judge
from bridge_server.push.webpush.encryption import SALT_BYTES, encrypt
from bridge_server.push.webpush.payload import padding_for, write_payload
from bridge_server.push.webpush.subscription import PushSubscription, read_subscription, write_subscription
from bridge_server.push.webpush.vapid import VapidIdentity

Urgency = Literal["very-low", "low", "normal", "high"]
"""The urgency by which a device on battery decides whether to wake up (RFC 8030, section 5.3)."""

_LONGEST_TTL_SECONDS = 28 * 86_400  # Google refuses longer ones
_TOPIC_CHARACTERS = 32


@dataclass(frozen=True, slots=True)
class WebPushSettings:
    """Settings of Web Push.

    `vapid_private_key` is a private key of `bridge-server keys vapid`; `vapid_subject` is `mailto:` and an
    address, or an https URL. `timeout_seconds` covers an attempt from the name lookup to the last byte of
    the answer. `allow_private` allows every address and port, and http, for development only.
    """

    vapid_private_key: str = field(repr=False)
    vapid_subject: str
    timeout_seconds: float
    allow_private: bool
    user_agent: str
    urgency: Urgency = "high"


class WebPushProvider:
    """The provider that sends to the push service of each subscription, over guarded connections.

    A separate thread encrypts and signs, so that the event loop does not wait for it. `known_services` are
    the services whose refusal of the VAPID token is believed. Raises ValueError if the key or the subject is
    malformed.
    """

    def __init__(
        self,
        settings: WebPushSettings,
        clock: Clock,
        *,
        rule: Rule | None = None,
        look_up: LookUp = look_up,
        random_bytes: Callable[[int], bytes] = token_bytes,
        known_services: Mapping[str, bytes] = KNOWN_SERVICES,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._rule = rule or (anywhere if settings.allow_private else public_only)
        self._look_up = look_up
        self._random_bytes = random_bytes
        self._known_services = known_services
        self._identity = VapidIdentity(settings.vapid_private_key, settings.vapid_subject)
        self._session: aiohttp.ClientSession | None = None
        self._sealing: ThreadPoolExecutor | None = None

    @property
    def public_key(self) -> str:
        """The public key, which web pages use as `applicationServerKey`."""
        return self._identity.public_key

    async def __aenter__(self) -> Self:
        self._session = guarded_client(self._rule, self._look_up, self._settings.timeout_seconds)
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
        """Attempt to deliver once. `webpush.answers` defines the meaning of every answer.

        A notice that is too large has its body shortened; if that is not enough, it is REFUSED.
        """
        assert self._session is not None, "the provider is not open"
        payload = write_payload(notice)
        if payload is None:
            return Outcome(Verdict.REFUSED, "the notice is too large for a push message, or is not text")
        try:
            subscription, headers, body = await self._sealed(token, payload)
        except ValueError as error:
            return Outcome(Verdict.REFUSED, str(error))
        try:
            return await self._post(subscription, {**headers, **self._wishes(notice)}, body)
        except Exception as error:  # a faulty service must not stop other pushes
            return judge_error(error)

    async def _post(self, subscription: PushSubscription, headers: dict[str, str], body: bytes) -> Outcome:
        assert self._session is not None
        async with self._session.post(
            subscription.endpoint, data=body, headers=headers, allow_redirects=False
        ) as response:
            text = await read_limited(response)
            return judge(
                response.status,
                response.headers,
                text,
                now_ms=self._clock.now_ms(),
                refused_token=self._known_services.get(subscription.origin),
            )

    async def _sealed(self, token: str, payload: bytes) -> tuple[PushSubscription, dict[str, str], bytes]:
        work = partial(self._seal, token, payload, self._clock.now_ms())
        return await asyncio.get_running_loop().run_in_executor(self._sealing, work)

    def _seal(
        self, token: str, payload: bytes, now_ms: int
    ) -> tuple[PushSubscription, dict[str, str], bytes]:
        """Encrypt and sign, in the thread, one message at a time."""
        subscription = self._read(token)
        body = encrypt(
            payload,
            subscription.receiver_key,
            subscription.auth_secret,
            sender_key=ECC.generate(curve="P-256", randfunc=self._random_bytes),
            salt=self._random_bytes(SALT_BYTES),
            padding_bytes=padding_for(payload),
        )
        return (
            subscription,
            {
                hdrs.AUTHORIZATION: self._identity.authorization(subscription.origin, now_ms),
                hdrs.CONTENT_ENCODING: "aes128gcm",
                hdrs.CONTENT_TYPE: "application/octet-stream",
            },
            body,
        )

    def _wishes(self, notice: PushNotice) -> dict[str, str]:
        return {
            "TTL": str(max(0, min(notice.ttl_seconds, _LONGEST_TTL_SECONDS))),
            "Urgency": self._settings.urgency,
            "Topic": _topic(notice.message_id),
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._settings.user_agent,
        }

    def _read(self, token: str) -> PushSubscription:
        return read_subscription(token, allow_http=self._settings.allow_private)


def _topic(message_id: str) -> str:
    """The Topic header, by which a repeat replaces only its own waiting message (RFC 8030, section 5.4).

    It is hexadecimal, because Mozilla documents only letters and digits of the base64url alphabet.
    """
    return hashlib.sha256(message_id.encode()).hexdigest()[:_TOPIC_CHARACTERS]
