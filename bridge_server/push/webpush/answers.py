"""The meaning of a push service's answer for the message, the subscription and this server's VAPID key.

A subscriber chooses the endpoint: it may be a server of their own, or a real push service with another key.
So neither the answer of an unknown service nor a refusal of one subscription may stop other subscriptions.

| Answer | Meaning |
|---|---|
| 2xx | taken (RFC 8030, section 5) |
| 404, 410 | the subscription is dead (section 7.3) |
| 413 | this message is too large; the subscription lives on (section 7.2) |
| 429, 503 | retry after Retry-After (section 8.4), and pause all messages to this service |
| another 5xx | retry after Retry-After |
| 401, 403 of a known service that names the token | this server's credentials are wrong: see KNOWN_SERVICES |
| another 403 | the subscription was made with another key: Google 403 "do not correspond" |
| another 401 | retry (Mozilla also answers 401 for another key: then every retry fails) |
| 400 | this message will never be accepted (Apple answers 400 for another key: VapidPkHashMismatch) |
| all others, also redirects | retry (Microsoft throttles with 406) |

Sources: RFC 8030; autopush-rs, docs/src/errors.md (Mozilla); "Sending web push notifications in web apps and
browsers" (Apple); answers seen from fcm.googleapis.com (Google).
"""

from collections.abc import Mapping

from aiohttp import hdrs

from bridge_server.kernel.retry_after import parse_retry_after
from bridge_server.outgoing.outcome import Outcome, Verdict

KNOWN_SERVICES: Mapping[str, bytes] = {
    "https://fcm.googleapis.com": b"invalid JWT",  # 403 permission denied: invalid JWT provided
    "https://updates.push.services.mozilla.com": b"VAPID token",  # 401 Invalid VAPID token: …
    "https://web.push.apple.com": b"BadJwtToken",  # 403 {"reason":"BadJwtToken"}
}
"""Known push services by origin, with the text of an answer that refuses the VAPID token itself."""

_GONE = frozenset({404, 410})
_CREDENTIALS = frozenset({401, 403})
_ABOUT_ALL = frozenset({429, 503})


def judge(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    *,
    now_ms: int,
    refused_token: bytes | None,
) -> Outcome:
    """The outcome. `refused_token` is the service's text in KNOWN_SERVICES; None for an unknown service."""
    if 200 <= status < 300:
        return Outcome(Verdict.DELIVERED, status=status)
    if status in _GONE:
        return Outcome(Verdict.GONE, f"the push service answered {status}: no such subscription", status)
    if status in _CREDENTIALS and refused_token is not None and refused_token in body:
        reason = "the push service refuses the VAPID token: check vapid_subject, and this machine's clock"
        return Outcome(Verdict.BLOCKED, reason, status)
    refused = _REFUSALS.get(status)
    if refused is not None:
        return Outcome(Verdict.REFUSED, refused, status)
    reason = f"the push service answered {status}"
    if 300 <= status < 400:
        reason += ", and redirects are not followed"
    asked = headers.get(hdrs.RETRY_AFTER)
    wait = None if asked is None else parse_retry_after(asked, now_ms)
    return Outcome(Verdict.FAILED, reason, status, wait, about_lane=status in _ABOUT_ALL)


_REFUSALS = {
    400: "the push service answered 400: it does not take this message, or the key that it is signed with",
    403: "the push service answered 403: the device has probably subscribed with another VAPID key, and must"
    " subscribe again",
    413: "the push service answered 413: the message is too large",
}
