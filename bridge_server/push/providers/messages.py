"""The requests to push services, and the meaning of their answers: APNs, FCM, Web Push."""

import re
from bisect import bisect_right
from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any
from uuid import UUID, uuid5

import orjson
from aiohttp import hdrs
from yarl import URL

from bridge_server.kernel.fields import parse_retry_after
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.provider import ServiceAnswer

LONGEST_TTL_SECONDS = 2_419_200
"""4 weeks: Google refuses longer ones, of FCM and of Web Push."""

# The request to APNs.

APNS_PAYLOAD_LIMIT_BYTES = 4_096

_COLLAPSE_ID = re.compile(r"[!-~]{1,64}")
_APNS_IDS = UUID("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")  # the namespace of apns-ids, a random UUID


def apns_headers(notice: PushNotice, topic: str, now_ms: int) -> list[tuple[str, str]]:
    """The header fields of the request that describe the notification."""
    return [
        ("apns-topic", topic),
        ("apns-push-type", "alert"),
        ("apns-priority", "10"),
        ("apns-expiration", expiration(notice.ttl_seconds, now_ms)),
        ("apns-collapse-id", collapse_id(notice.message_id)),
        ("apns-id", str(uuid5(_APNS_IDS, notice.message_id))),
    ]


def apns_payload(notice: PushNotice) -> bytes:
    """The JSON that the app receives. Members of `data` cannot replace the members of this server."""
    aps = {"alert": {"title": notice.title, "body": notice.body}, "sound": "default"}
    url = {} if notice.url is None else {"url": notice.url}
    return orjson.dumps({**notice.data, "aps": aps, "id": notice.message_id, **url})


def expiration(ttl_seconds: int, now_ms: int) -> str:
    """The time after which APNs may drop it, in seconds since the Unix epoch; 0: never store it."""
    return "0" if ttl_seconds <= 0 else str(now_ms // 1_000 + ttl_seconds)


def collapse_id(message_id: str) -> str:
    """An id of at most 64 bytes, the same in every attempt, so that a repeat replaces the notification."""
    return message_id if _COLLAPSE_ID.fullmatch(message_id) else sha256(message_id.encode()).hexdigest()


# The meaning of APNs' answers for a notification and for its device token.
#
# https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns

_APNS_REASON = re.compile(r"[A-Z][A-Za-z]{0,63}")
_TOKEN_UPDATE_WAIT_SECONDS = 1_200.0

# Reasons that concern all notifications. TooManyRequests is not among them: it concerns one device token.
_APNS_ABOUT_ALL_REASONS = frozenset({"ServiceUnavailable", "Shutdown", "TooManyProviderTokenUpdates"})

_APNS_VERDICTS = {
    # The notification is at fault: every retry would get the same answer.
    **dict.fromkeys(
        ("BadCollapseId", "BadExpirationDate", "BadMessageId", "BadPriority", "DuplicateHeaders",
         "InvalidPushType", "MissingDeviceToken", "PayloadEmpty"),
        Verdict.REFUSED,
    ),
    # The settings are at fault: the key, its ids or the topic.
    **dict.fromkeys(
        ("BadCertificate", "BadCertificateEnvironment", "BadEnvironmentKeyIdInToken", "BadTopic",
         "ExpiredProviderToken", "Forbidden", "InvalidProviderToken", "MissingProviderToken", "MissingTopic",
         "TopicDisallowed", "UnrelatedKeyIdInToken"),
        Verdict.BLOCKED,
    ),
}  # fmt: skip
# A mistake in the settings causes these for every token: the other environment, or another topic.
_APNS_DOUBTFUL_TOKENS = frozenset({"BadDeviceToken", "DeviceTokenNotForTopic"})
_APNS_HINTS = {
    "BadDeviceToken": ": the token is malformed, or belongs to the other environment",
    "BadEnvironmentKeyIdInToken": ": the key is for the other environment",
    "DeviceTokenNotForTopic": ": the token belongs to another app",
    "ExpiredProviderToken": " for a fresh token: check this machine's clock",
    "InvalidProviderToken": ": check the key, the key id and the team id",
    "TopicDisallowed": ": the key may not push to this bundle id",
}


def says_expired(answer: ServiceAnswer) -> bool:
    """Whether APNs calls the provider token expired, so that a new one may help."""
    return answer.status == 403 and answer.document.get("reason") == "ExpiredProviderToken"


def judge_apns(answer: ServiceAnswer, *, proven: bool) -> Outcome:
    """The outcome. A malformed device token (BadDeviceToken) and one of another app (DeviceTokenNotForTopic)
    count as dead. But the wrong environment or topic causes these answers for every token: until APNs has
    accepted a notification with these settings (`proven`), they count as failures, and no token is lost.
    """
    if answer.taken:
        return Outcome(Verdict.DELIVERED, status=answer.status)
    text = answer.document.get("reason")
    name = text if isinstance(text, str) and _APNS_REASON.fullmatch(text) else ""
    reason = f"APNs answered {answer.status}{f' {name}' if name else ''}{_APNS_HINTS.get(name, '')}"
    wait = answer.retry_after_seconds
    if wait is None and name == "TooManyProviderTokenUpdates":
        wait = _TOKEN_UPDATE_WAIT_SECONDS
    verdict = _APNS_VERDICTS.get(name, Verdict.FAILED)
    if answer.status == 410 or (answer.status != 413 and name in _APNS_DOUBTFUL_TOKENS and proven):
        verdict = Verdict.GONE
    elif answer.status == 413:
        verdict = Verdict.REFUSED
    about_all = answer.status == 503 or name in _APNS_ABOUT_ALL_REASONS
    return Outcome(verdict, reason, answer.status, wait, about_lane=about_all)


# The message in a request to FCM.
#
# https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages


def fcm_message(token: str, notice: PushNotice, now_ms: int) -> dict[str, Any]:
    """The body of `messages:send` for every platform, in which a repeat replaces the first message. On
    Android the `tag` does that, and no collapse key: FCM stores only four of them per device.
    """
    ttl_seconds = min(max(notice.ttl_seconds, 0), LONGEST_TTL_SECONDS)
    url = {} if notice.url is None else {"url": notice.url}
    link = _fcm_link(notice.url or "")
    return {
        "message": {
            "token": token,
            "notification": {"title": notice.title, "body": notice.body},
            "data": {**notice.data, "id": notice.message_id, **url},
            "android": {
                "priority": "HIGH",
                "ttl": f"{ttl_seconds}s",
                "notification": {"tag": notice.message_id, "default_sound": True},
            },
            "apns": {
                "headers": {
                    "apns-priority": "10",
                    "apns-expiration": expiration(ttl_seconds, now_ms),
                    "apns-collapse-id": collapse_id(notice.message_id),
                },
                "payload": {"aps": {"sound": "default"}},
            },
            "webpush": {
                "headers": {"TTL": str(ttl_seconds), "Urgency": "high"},
                "notification": {"tag": notice.message_id},
                **({} if link is None else {"fcm_options": {"link": link}}),
            },
        }
    }


def _fcm_link(url: str) -> str | None:
    """The URL in the form that FCM accepts, https and ASCII; None if it has no such form."""
    if not url.startswith("https://"):
        return None
    try:
        return url if url.isascii() else str(URL(url))
    except ValueError:  # the host has no ASCII form
        return None


# The meaning of FCM's answers for a message and for its registration token.
#
# https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode and
# https://firebase.google.com/docs/cloud-messaging/error-codes

_FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_QUOTA_FAILURE = "type.googleapis.com/google.rpc.QuotaFailure"
_FCM_CODE = re.compile(r"[A-Z][A-Z_]{0,63}")
# "If there is no retry-after header, default to 60 seconds" (docs/cloud-messaging/scale-fcm).
_QUOTA_WAIT_SECONDS = 60.0

# FCM limits the project and single devices, with one code (docs/cloud-messaging/throttling-and-quotas).
_FCM_LIMITED = (429, "QUOTA_EXCEEDED")
_FCM_ABOUT_ALL = (503, "UNAVAILABLE")

_FCM_VERDICTS = {
    "UNREGISTERED": Verdict.GONE,
    "UNAUTHENTICATED": Verdict.BLOCKED,
    "PERMISSION_DENIED": Verdict.BLOCKED,
}
_FCM_HINTS = {
    "THIRD_PARTY_AUTH_ERROR": ": the APNs or Web Push key in the Firebase project is missing or not valid",
    "PERMISSION_DENIED": ": the service account may not send, or the project's FCM API is off",
    "SENDER_ID_MISMATCH": ": the token belongs to another Firebase project",
}


def is_unauthenticated(answer: ServiceAnswer) -> bool:
    """Whether FCM refuses the access token. 401 can also mean that FCM's own keys for APNs are refused."""
    return answer.status == 401 and _fcm_code(answer.document) != "THIRD_PARTY_AUTH_ERROR"


def judge_fcm(answer: ServiceAnswer, *, proven: bool) -> Outcome:
    """The outcome. A token of another project (SENDER_ID_MISMATCH) counts as dead. But a service account of
    the wrong project causes this answer for every token: until FCM has accepted a message with these
    credentials (`proven`), the answer counts as a failure, and no token is lost.
    """
    if answer.taken:
        return Outcome(Verdict.DELIVERED, status=answer.status)
    code = _fcm_code(answer.document)
    reason = f"FCM answered {answer.status}{f' {code}' if code else ''}{_FCM_HINTS.get(code, '')}"
    wait = answer.retry_after_seconds
    if wait is None and answer.status == 429:
        wait = _QUOTA_WAIT_SECONDS
    about_all: bool | None = answer.status in _FCM_ABOUT_ALL or code in _FCM_ABOUT_ALL
    if answer.status in _FCM_LIMITED or code in _FCM_LIMITED:
        about_all = False if _is_about_the_device(answer.document) else None
    return Outcome(_fcm_verdict(code, answer, proven), reason, answer.status, wait, about_lane=about_all)


def _fcm_verdict(code: str, answer: ServiceAnswer, proven: bool) -> Verdict:
    if code == "INVALID_ARGUMENT":
        return Verdict.GONE if _is_about_the_token(answer.document) else Verdict.REFUSED
    if code == "SENDER_ID_MISMATCH" and proven:
        return Verdict.GONE
    if answer.status == 413:
        return Verdict.REFUSED
    return _FCM_VERDICTS.get(code, Verdict.FAILED)


def _fcm_code(document: Mapping[str, Any]) -> str:
    """FCM's error code if there is one, else the general status; empty if neither has a valid form."""
    candidates = [detail.get("errorCode") for detail in _fcm_details(document, _FCM_ERROR)]
    candidates.append(_fcm_error(document).get("status"))
    return next((text for text in candidates if isinstance(text, str) and _FCM_CODE.fullmatch(text)), "")


def _is_about_the_token(document: Mapping[str, Any]) -> bool:
    """Whether INVALID_ARGUMENT means the token: FCM names its field, or says so only in the error's text."""
    violations = _fcm_violations(document, _BAD_REQUEST, "fieldViolations")
    if any(violation.get("field") == "message.token" for violation in violations):
        return True
    text = _fcm_error(document).get("message")
    return isinstance(text, str) and "registration token is not a valid" in text


def _is_about_the_device(document: Mapping[str, Any]) -> bool:
    """Whether a quota is one of the device. Google documents that it says which quota, but not the words."""
    violations = _fcm_violations(document, _QUOTA_FAILURE, "violations")
    return any(
        "device" in f"{violation.get('subject')} {violation.get('description')}".lower()
        for violation in violations
    )


def _fcm_violations(document: Mapping[str, Any], kind: str, member: str) -> Iterator[Mapping[str, Any]]:
    for detail in _fcm_details(document, kind):
        violations = detail.get(member)
        for violation in violations if isinstance(violations, list) else []:
            if isinstance(violation, dict):
                yield violation


def _fcm_details(document: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    details = _fcm_error(document).get("details")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and detail.get("@type") == kind:
            yield detail


def _fcm_error(document: Mapping[str, Any]) -> Mapping[str, Any]:
    error = document.get("error")
    return error if isinstance(error, dict) else {}


# The payload for a page's service worker, `{title, body, url, id, data}`, cut to the largest size.

LARGEST_PLAINTEXT_BYTES = 3_993
"""The plaintext that fits into the 4,096 bytes that every push service accepts (RFC 8291, section 4)."""

_ELLIPSIS = "…"
_PADDING_STEP_BYTES = 256


def write_payload(notice: PushNotice) -> bytes | None:
    """The notice as JSON of at most 3,993 bytes; None if that is impossible or it is not valid Unicode. A
    body that is too long is shortened, with an ellipsis. Title, url, id and data are never cut.
    """

    def cut(kept: int) -> bytes:
        return _payload(notice, notice.body[:kept] + _ELLIPSIS)

    try:
        whole = _payload(notice, notice.body)
        if len(whole) <= LARGEST_PLAINTEXT_BYTES:
            return whole
        kept = bisect_right(range(len(notice.body)), LARGEST_PLAINTEXT_BYTES, key=lambda n: len(cut(n))) - 1
        return None if kept < 0 else cut(kept)
    except orjson.JSONEncodeError:  # half of a surrogate pair
        return None


def _payload(notice: PushNotice, body: str) -> bytes:
    named = {"title": notice.title, "body": body, "url": notice.url, "id": notice.message_id}
    return orjson.dumps({**named, "data": dict(notice.data)})


def padding_for(payload: bytes) -> int:
    """The bytes that pad the payload to a multiple of 256, to hide its size (RFC 8291, section 4)."""
    room = LARGEST_PLAINTEXT_BYTES - len(payload)
    return min(-len(payload) % _PADDING_STEP_BYTES, room)


# The meaning of a push service's answer for the message, the subscription and this server's VAPID key.
#
# A subscriber chooses the endpoint: it may be a server of their own, or a real push service with another key.
# So neither the answer of an unknown service nor a refusal of one subscription may stop other subscriptions.
#
# 2xx: taken (RFC 8030, section 5).
# 404, 410: the subscription is dead (section 7.3).
# 413: this message is too large; the subscription lives on (section 7.2).
# 429: retry after Retry-After (section 8.4); the limit may be one of the subscription or of this server.
# 503: retry after Retry-After, and pause all messages to this service.
# Another 5xx: retry after Retry-After.
# 401, 403 of a known service that names the token: this server's credentials are wrong (KNOWN_SERVICES).
# Another 403: the subscription was made with another key (Google: "do not correspond").
# Another 401: retry. Mozilla also answers 401 for another key; then every retry fails.
# 400: this message will never be accepted. Apple answers it for another key (VapidPkHashMismatch).
# All others, also redirects: retry. Microsoft throttles with 406.
#
# Sources: RFC 8030; autopush-rs, docs/src/errors.md (Mozilla); "Sending web push notifications in web apps
# and browsers" (Apple); answers seen from fcm.googleapis.com (Google).

KNOWN_SERVICES: Mapping[str, bytes] = {
    "https://fcm.googleapis.com": b"invalid JWT",  # 403 permission denied: invalid JWT provided
    "https://updates.push.services.mozilla.com": b"VAPID token",  # 401 Invalid VAPID token: …
    "https://web.push.apple.com": b"BadJwtToken",  # 403 {"reason":"BadJwtToken"}
}
"""Known push services by origin, with the text of an answer that refuses the VAPID token itself."""

_WEBPUSH_REFUSALS = {
    400: "the push service answered 400: it does not take this message, or the key that it is signed with",
    403: "the push service answered 403: the device has probably subscribed with another VAPID key, and must"
    " subscribe again",
    413: "the push service answered 413: the message is too large",
}


def judge_webpush(
    status: int, headers: Mapping[str, str], body: bytes, *, now_ms: int, refused_token: bytes | None
) -> Outcome:
    """The outcome. `refused_token` is the service's text in KNOWN_SERVICES; None for an unknown service."""
    if 200 <= status < 300:
        return Outcome(Verdict.DELIVERED, status=status)
    if status in (404, 410):
        return Outcome(Verdict.GONE, f"the push service answered {status}: no such subscription", status)
    if status in (401, 403) and refused_token is not None and refused_token in body:
        reason = "the push service refuses the VAPID token: check vapid_subject, and this machine's clock"
        return Outcome(Verdict.BLOCKED, reason, status)
    refused = _WEBPUSH_REFUSALS.get(status)
    if refused is not None:
        return Outcome(Verdict.REFUSED, refused, status)
    reason = f"the push service answered {status}"
    if 300 <= status < 400:
        reason += ", and redirects are not followed"
    asked = headers.get(hdrs.RETRY_AFTER)
    wait = None if asked is None else parse_retry_after(asked, now_ms)
    return Outcome(Verdict.FAILED, reason, status, wait, about_lane=None if status == 429 else status == 503)
