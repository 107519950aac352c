"""What every answer of a push service means."""

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.providers.messages import KNOWN_SERVICES, judge_webpush
from tests.support.rows import each_row

NOW_MS = 1_800_000_000_000
GOOGLE = KNOWN_SERVICES["https://fcm.googleapis.com"]
MOZILLA = KNOWN_SERVICES["https://updates.push.services.mozilla.com"]
APPLE = KNOWN_SERVICES["https://web.push.apple.com"]

GOOGLE_BAD_TOKEN = b"permission denied: invalid JWT provided\n"
GOOGLE_OTHER_KEY = (
    b"the VAPID credentials in the authorization header do not correspond to the credentials used to create"
    b" the subscriptions.\n"
)
MOZILLA_BAD_TOKEN = b'{"code":401,"errno":109,"error":"Unauthorized","message":"Invalid VAPID token: Auth"}'
MOZILLA_OTHER_KEY = b'{"code":401,"errno":109,"error":"Unauthorized","message":"VAPID public key mismatch"}'
APPLE_BAD_TOKEN = b'{"reason":"BadJwtToken"}'
APPLE_OTHER_KEY = b'{"reason":"VapidPkHashMismatch"}'


def judged(
    status: int, body: bytes = b"", refused_token: bytes | None = None, retry_after: str | None = None
) -> Outcome:
    headers = {} if retry_after is None else {"Retry-After": retry_after}
    return judge_webpush(status, headers, body, now_ms=NOW_MS, refused_token=refused_token)


@each_row("status", [200, 201, 202, 204, 299])
def test_every_2xx_is_a_delivery(status: int) -> None:
    assert judged(status) == Outcome(Verdict.DELIVERED, status=status)


@each_row("status", [404, 410])
def test_404_and_410_say_that_the_subscription_is_dead(status: int) -> None:
    reason = f"the push service answered {status}: no such subscription"

    assert judged(status) == Outcome(Verdict.GONE, reason, status)


@each_row(("status", "word"), [(400, "key"), (403, "subscribe again"), (413, "too large")])
def test_a_refusal_of_this_message_is_no_more_than_that(status: int, word: str) -> None:
    outcome = judged(status)

    assert (outcome.verdict, outcome.status) == (Verdict.REFUSED, status)
    assert word in outcome.reason


@each_row("status", [100, 304, 307, 401, 402, 405, 406, 408, 418, 429, 500, 502, 503, 507, 599])
def test_every_other_status_is_worth_another_attempt(status: int) -> None:
    outcome = judged(status)

    assert (outcome.verdict, outcome.status) == (Verdict.FAILED, status)
    assert outcome.reason.startswith(f"the push service answered {status}")


@each_row("status", [429, 500, 503])
def test_retry_after_of_the_push_service_is_kept(status: int) -> None:
    assert judged(status, retry_after="119").retry_after_seconds == 119
    assert judged(status, retry_after="Fri, 15 Jan 2027 08:01:00 GMT").retry_after_seconds == 60
    assert judged(status, retry_after="soon").retry_after_seconds is None


@each_row(("status", "about_all"), [(429, True), (503, True), (500, False), (406, False)])
def test_too_much_and_not_now_are_said_for_all_subscriptions_of_a_service(
    status: int, about_all: bool
) -> None:
    assert judged(status, retry_after="119").about_lane is about_all


@each_row(
    ("known", "status", "body"),
    [
        (GOOGLE, 403, GOOGLE_BAD_TOKEN),
        (MOZILLA, 401, MOZILLA_BAD_TOKEN),
        (APPLE, 403, APPLE_BAD_TOKEN),
    ],
)
def test_a_known_service_that_refuses_the_token_blocks(known: bytes, status: int, body: bytes) -> None:
    outcome = judged(status, body, known)

    assert (outcome.verdict, outcome.status) == (Verdict.BLOCKED, status)
    assert "vapid_subject" in outcome.reason


@each_row(
    ("known", "status", "body", "verdict"),
    [
        (GOOGLE, 403, GOOGLE_OTHER_KEY, Verdict.REFUSED),
        (MOZILLA, 401, MOZILLA_OTHER_KEY, Verdict.FAILED),
        (APPLE, 400, APPLE_OTHER_KEY, Verdict.REFUSED),
    ],
)
def test_a_subscription_with_another_key_stops_nothing_else(
    known: bytes, status: int, body: bytes, verdict: Verdict
) -> None:
    assert judged(status, body, known).verdict is verdict


@each_row("status", [401, 403])
@each_row("body", [GOOGLE_BAD_TOKEN, MOZILLA_BAD_TOKEN, APPLE_BAD_TOKEN])
def test_a_strangers_word_stops_nothing_else(status: int, body: bytes) -> None:
    assert judged(status, body).verdict is not Verdict.BLOCKED


@each_row("status", [400, 401, 403, 404, 410, 413, 429, 503])
def test_text_of_the_push_service_is_not_repeated(status: int) -> None:
    assert "secret" not in judged(status, b"secret path").reason
