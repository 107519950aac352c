"""The meaning of APNs' answers for a notification and for its device token.

https://developer.apple.com/documentation/usernotifications/handling-notification-responses-from-apns
"""

import re

from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.providers.answer import ServiceAnswer

_REASON = re.compile(r"[A-Z][A-Za-z]{0,63}")
_TOKEN_UPDATE_WAIT_SECONDS = 1_200.0

# Reasons that concern all notifications. TooManyRequests is not among them: it concerns one device token.
_ABOUT_ALL = frozenset({"ServiceUnavailable", "Shutdown", "TooManyProviderTokenUpdates"})

_VERDICTS = {
    "BadDeviceToken": Verdict.GONE,
    # The notification is at fault: every retry would get the same answer.
    "BadCollapseId": Verdict.REFUSED,
    "BadExpirationDate": Verdict.REFUSED,
    "BadMessageId": Verdict.REFUSED,
    "BadPriority": Verdict.REFUSED,
    "DuplicateHeaders": Verdict.REFUSED,
    "InvalidPushType": Verdict.REFUSED,
    "MissingDeviceToken": Verdict.REFUSED,
    "PayloadEmpty": Verdict.REFUSED,
    # The settings are at fault: the key, its ids or the topic.
    "BadCertificate": Verdict.BLOCKED,
    "BadCertificateEnvironment": Verdict.BLOCKED,
    "BadEnvironmentKeyIdInToken": Verdict.BLOCKED,
    "BadTopic": Verdict.BLOCKED,
    "ExpiredProviderToken": Verdict.BLOCKED,
    "Forbidden": Verdict.BLOCKED,
    "InvalidProviderToken": Verdict.BLOCKED,
    "MissingProviderToken": Verdict.BLOCKED,
    "MissingTopic": Verdict.BLOCKED,
    "TopicDisallowed": Verdict.BLOCKED,
    "UnrelatedKeyIdInToken": Verdict.BLOCKED,
}
_HINTS = {
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


def judge(answer: ServiceAnswer, *, proven: bool) -> Outcome:
    """The outcome. `proven` says that APNs has accepted a notification with this key and topic before.

    A device token of another app (DeviceTokenNotForTopic) will never work here, so it counts as dead. But a
    mistyped topic causes the same answer for every token. So the answer counts as a failure until APNs has
    accepted one notification, and no token is lost.
    """
    if answer.taken:
        return Outcome(Verdict.DELIVERED, status=answer.status)
    text = answer.document.get("reason")
    name = text if isinstance(text, str) and _REASON.fullmatch(text) else ""
    reason = f"APNs answered {answer.status}{f' {name}' if name else ''}{_HINTS.get(name, '')}"
    wait = answer.retry_after_seconds
    if wait is None and name == "TooManyProviderTokenUpdates":
        wait = _TOKEN_UPDATE_WAIT_SECONDS
    about_all = answer.status == 503 or name in _ABOUT_ALL
    return Outcome(_verdict(name, answer.status, proven), reason, answer.status, wait, about_lane=about_all)


def _verdict(name: str, status: int, proven: bool) -> Verdict:
    if status == 410:
        return Verdict.GONE
    if status == 413:
        return Verdict.REFUSED
    if name == "DeviceTokenNotForTopic" and proven:
        return Verdict.GONE
    return _VERDICTS.get(name, Verdict.FAILED)
