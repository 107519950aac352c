"""Push services for test mode: they take every token and every push, and fail when a test orders it.

Each push is handed to a witness in the form that the service would have received. An ordered failure is
judged like an answer of the service.
"""

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple, Self, TypeAlias

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers import messages
from bridge_server.push.providers.provider import ServiceAnswer

_TOKEN = re.compile(r"[^\x00-\x1f\x7f]{1,4096}")
_APNS_TOPIC = "test"
_TAKEN = Outcome(Verdict.DELIVERED, status=200)

_FCM_STATUSES = {
    "UNREGISTERED": 404,
    "INVALID_ARGUMENT": 400,
    "SENDER_ID_MISMATCH": 403,
    "PERMISSION_DENIED": 403,
    "UNAUTHENTICATED": 401,
    "THIRD_PARTY_AUTH_ERROR": 401,
    "QUOTA_EXCEEDED": 429,
    "UNAVAILABLE": 503,
    "INTERNAL": 500,
}
_APNS_STATUSES = {
    "BadCollapseId": 400,
    "BadDeviceToken": 400,
    "BadExpirationDate": 400,
    "BadMessageId": 400,
    "BadPriority": 400,
    "BadTopic": 400,
    "DeviceTokenNotForTopic": 400,
    "DuplicateHeaders": 400,
    "IdleTimeout": 400,
    "InvalidPushType": 400,
    "MissingDeviceToken": 400,
    "MissingTopic": 400,
    "PayloadEmpty": 400,
    "TopicDisallowed": 400,
    "BadCertificate": 403,
    "BadCertificateEnvironment": 403,
    "BadEnvironmentKeyIdInToken": 403,
    "ExpiredProviderToken": 403,
    "Forbidden": 403,
    "InvalidProviderToken": 403,
    "MissingProviderToken": 403,
    "UnrelatedKeyIdInToken": 403,
    "BadPath": 404,
    "MethodNotAllowed": 405,
    "ExpiredToken": 410,
    "Unregistered": 410,
    "PayloadTooLarge": 413,
    "TooManyProviderTokenUpdates": 429,
    "TooManyRequests": 429,
    "InternalServerError": 500,
    "ServiceUnavailable": 503,
    "Shutdown": 503,
}
_WEBPUSH_SERVICE = "https://fcm.googleapis.com"
_WEBPUSH_STATUSES = {
    "Bad Request": 400,
    "invalid JWT": 403,
    "Forbidden": 403,
    "Not Found": 404,
    "Gone": 410,
    "Payload Too Large": 413,
    "Too Many Requests": 429,
    "Internal Server Error": 500,
    "Service Unavailable": 503,
}

SINK_ANSWERS: Mapping[str, frozenset[str]] = {
    "fcm": frozenset(_FCM_STATUSES),
    "apns": frozenset(_APNS_STATUSES),
    "webpush": frozenset(_WEBPUSH_STATUSES),
}
"""The failures that each service has a word for."""


class Refusal(NamedTuple):
    """A failure that a test orders: in the service's own word, or as a bare status; or no answer at all."""

    answer: str | None = None
    status: int | None = None
    retry_after_seconds: int | None = None


class SinkPush(NamedTuple):
    """A push as the service would have had it."""

    channel: str
    token: str
    notice: PushNotice
    headers: Mapping[str, str]
    payload: Any
    outcome: Outcome


Strike: TypeAlias = Callable[[str], Awaitable[Refusal | None]]
"""The failure of the next push through a channel; None when it may pass."""
Witness: TypeAlias = Callable[[SinkPush], None]


class SinkProvider:
    """Implements a provider, which reaches no device."""

    def __init__(self, channel: str, clock: Clock, strike: Strike, witness: Witness) -> None:
        self._channel = channel
        self._clock = clock
        self._strike = strike
        self._witness = witness

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        """Do nothing: nothing is open."""

    def checked_token(self, token: str) -> str:
        """Any token of 1 to 4096 characters. Raises ValueError."""
        if not _TOKEN.fullmatch(token):
            raise ValueError("a token has 1 to 4096 characters, and none that controls a terminal")
        return token

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Take the push, or fail as the test has ordered."""
        refusal = await self._strike(self._channel)
        outcome = _TAKEN if refusal is None else _judged(self._channel, refusal, self._clock.now_ms())
        headers, payload = _request(self._channel, token, notice, self._clock.now_ms())
        self._witness(SinkPush(self._channel, token, notice, headers, payload, outcome))
        return outcome


def _request(channel: str, token: str, notice: PushNotice, now_ms: int) -> tuple[Mapping[str, str], Any]:
    """The headers and the content, which a Web Push service sees only as ciphertext."""
    if channel == "fcm":
        return {}, messages.fcm_message(token, notice, now_ms)
    if channel == "apns":
        headers = dict(messages.apns_headers(notice, _APNS_TOPIC, now_ms))
        return headers, orjson.loads(messages.apns_payload(notice))
    payload = messages.write_payload(notice)
    headers = {"TTL": str(notice.ttl_seconds), "Urgency": "high"}
    return headers, None if payload is None else orjson.loads(payload)


def _judged(channel: str, refusal: Refusal, now_ms: int) -> Outcome:
    if refusal.answer is None and refusal.status is None:
        return Outcome(Verdict.FAILED, "the service closed the connection (ordered by the test)")
    wait = refusal.retry_after_seconds
    if channel == "fcm":
        status = refusal.status or _FCM_STATUSES[refusal.answer or ""]
        answer = ServiceAnswer(status, {"error": {"status": refusal.answer}}, wait)
        return messages.judge_fcm(answer, proven=True)
    if channel == "apns":
        status = refusal.status or _APNS_STATUSES[refusal.answer or ""]
        return messages.judge_apns(ServiceAnswer(status, {"reason": refusal.answer}, wait), proven=True)
    return messages.judge_webpush(
        refusal.status or _WEBPUSH_STATUSES[refusal.answer or ""],
        {} if wait is None else {"Retry-After": str(wait)},
        (refusal.answer or "").encode(),
        now_ms=now_ms,
        refused_token=messages.KNOWN_SERVICES[_WEBPUSH_SERVICE],
    )
