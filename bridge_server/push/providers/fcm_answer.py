"""The meaning of FCM's answers for a message and for its registration token.

https://firebase.google.com/docs/reference/fcm/rest/v1/ErrorCode and
https://firebase.google.com/docs/cloud-messaging/error-codes
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.providers.answer import ServiceAnswer

_FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"
_CODE = re.compile(r"[A-Z][A-Z_]{0,63}")
# "If there is no retry-after header, default to 60 seconds" (docs/cloud-messaging/scale-fcm).
_QUOTA_WAIT_SECONDS = 60.0

# Answers that pause all messages. FCM also limits single devices, with the same code.
_ABOUT_ALL_STATUSES = frozenset({429, 503})
_ABOUT_ALL = frozenset({"QUOTA_EXCEEDED", "UNAVAILABLE"})

_VERDICTS = {
    "UNREGISTERED": Verdict.GONE,
    "UNAUTHENTICATED": Verdict.BLOCKED,
    "PERMISSION_DENIED": Verdict.BLOCKED,
}
_HINTS = {
    "THIRD_PARTY_AUTH_ERROR": ": the APNs or Web Push key in the Firebase project is missing or not valid",
    "PERMISSION_DENIED": ": the service account may not send, or the project's FCM API is off",
    "SENDER_ID_MISMATCH": ": the token belongs to another Firebase project",
}


def is_unauthenticated(answer: ServiceAnswer) -> bool:
    """Whether FCM refuses the access token. 401 can also mean that FCM's own keys for APNs are refused."""
    return answer.status == 401 and _code(answer.document) != "THIRD_PARTY_AUTH_ERROR"


def judge(answer: ServiceAnswer, *, proven: bool) -> Outcome:
    """The outcome. `proven` says that FCM has accepted a message with these credentials before.

    A token of another project (SENDER_ID_MISMATCH) will never work here, so it counts as dead. But a service
    account of the wrong project causes the same answer for every token, and Firebase advises to check the
    account first. So the answer counts as a failure until FCM has accepted one message, and no token is lost.
    """
    if answer.taken:
        return Outcome(Verdict.DELIVERED, status=answer.status)
    code = _code(answer.document)
    reason = f"FCM answered {answer.status}{f' {code}' if code else ''}{_HINTS.get(code, '')}"
    wait = answer.retry_after_seconds
    if wait is None and answer.status == 429:
        wait = _QUOTA_WAIT_SECONDS
    about_all = answer.status in _ABOUT_ALL_STATUSES or code in _ABOUT_ALL
    return Outcome(_verdict(code, answer, proven), reason, answer.status, wait, about_lane=about_all)


def _verdict(code: str, answer: ServiceAnswer, proven: bool) -> Verdict:
    if code == "INVALID_ARGUMENT":
        return Verdict.GONE if _is_about_the_token(answer.document) else Verdict.REFUSED
    if code == "SENDER_ID_MISMATCH" and proven:
        return Verdict.GONE
    if answer.status == 413:
        return Verdict.REFUSED
    return _VERDICTS.get(code, Verdict.FAILED)


def _code(document: Mapping[str, Any]) -> str:
    """FCM's error code if there is one, else the general status; empty if neither has a valid form."""
    candidates = [detail.get("errorCode") for detail in _details(document, _FCM_ERROR)]
    candidates.append(_error(document).get("status"))
    return next((text for text in candidates if isinstance(text, str) and _CODE.fullmatch(text)), "")


def _is_about_the_token(document: Mapping[str, Any]) -> bool:
    """Whether INVALID_ARGUMENT means the token and not the message, which only the details show.

    FCM names a malformed token by its field, or only in the text of the error.
    """
    for detail in _details(document, _BAD_REQUEST):
        violations = detail.get("fieldViolations")
        for violation in violations if isinstance(violations, list) else []:
            if isinstance(violation, dict) and violation.get("field") == "message.token":
                return True
    text = _error(document).get("message")
    return isinstance(text, str) and "registration token is not a valid" in text


def _details(document: Mapping[str, Any], kind: str) -> Iterator[Mapping[str, Any]]:
    details = _error(document).get("details")
    for detail in details if isinstance(details, list) else []:
        if isinstance(detail, dict) and detail.get("@type") == kind:
            yield detail


def _error(document: Mapping[str, Any]) -> Mapping[str, Any]:
    error = document.get("error")
    return error if isinstance(error, dict) else {}
