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

# The words of each service for a failure, by the status of its answer.
_FCM_WORDS = {
    400: ("INVALID_ARGUMENT",),
    401: ("UNAUTHENTICATED", "THIRD_PARTY_AUTH_ERROR"),
    403: ("SENDER_ID_MISMATCH", "PERMISSION_DENIED"),
    404: ("UNREGISTERED",),
    429: ("QUOTA_EXCEEDED",),
    500: ("INTERNAL",),
    503: ("UNAVAILABLE",),
}
_APNS_WORDS = {
    400: (
        *("BadCollapseId", "BadDeviceToken", "BadExpirationDate", "BadMessageId", "BadPriority", "BadTopic"),
        *("DeviceTokenNotForTopic", "DuplicateHeaders", "IdleTimeout", "InvalidPushType"),
        *("MissingDeviceToken", "MissingTopic", "PayloadEmpty", "TopicDisallowed"),
    ),
    403: (
        *("BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken"),
        *("ExpiredProviderToken", "Forbidden", "InvalidProviderToken"),
        *("MissingProviderToken", "UnrelatedKeyIdInToken"),
    ),
    404: ("BadPath",),
    405: ("MethodNotAllowed",),
    410: ("ExpiredToken", "Unregistered"),
    413: ("PayloadTooLarge",),
    429: ("TooManyProviderTokenUpdates", "TooManyRequests"),
    500: ("InternalServerError",),
    503: ("ServiceUnavailable", "Shutdown"),
}
_WEBPUSH_SERVICE = "https://fcm.googleapis.com"
_WEBPUSH_WORDS = {
    400: ("Bad Request",),
    403: ("invalid JWT", "Forbidden"),
    404: ("Not Found",),
    410: ("Gone",),
    413: ("Payload Too Large",),
    429: ("Too Many Requests",),
    500: ("Internal Server Error",),
    503: ("Service Unavailable",),
}
_STATUSES = {
    channel: {word: status for status, words in by_status.items() for word in words}
    for channel, by_status in (("fcm", _FCM_WORDS), ("apns", _APNS_WORDS), ("webpush", _WEBPUSH_WORDS))
}

SINK_ANSWERS = {channel: frozenset(statuses) for channel, statuses in _STATUSES.items()}
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
    word, wait = refusal.answer or "", refusal.retry_after_seconds
    status = refusal.status or _STATUSES[channel][word]
    if channel == "fcm":
        answer = ServiceAnswer(status, {"error": {"status": refusal.answer}}, wait)
        return messages.judge_fcm(answer, proven=True)
    if channel == "apns":
        return messages.judge_apns(ServiceAnswer(status, {"reason": refusal.answer}, wait), proven=True)
    headers = {} if wait is None else {"Retry-After": str(wait)}
    refused_token = messages.KNOWN_SERVICES[_WEBPUSH_SERVICE]
    return messages.judge_webpush(status, headers, word.encode(), now_ms=now_ms, refused_token=refused_token)
