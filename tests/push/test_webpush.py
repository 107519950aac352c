"""Pushes to browsers over a local push service: what arrives, and the meaning of each answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass, replace

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.messages import KNOWN_SERVICES, judge_webpush
from bridge_server.push.providers.webpush import WebPushProvider
from tests.push.providers import KEYS, WEB_NOTICE, WEB_PUSH
from tests.support.clock import ManualClock, PassTime
from tests.support.rows import each_row
from tests.support.waiting import eventually
from tests.support.webhook_receiver import open_receiver
from tests.support.webpush_service import Browser, WebPushService, hang, reset, status, web_push_service

DELIVERED = Outcome(Verdict.DELIVERED, status=201)


@dataclass(frozen=True, slots=True)
class Pushing:
    """A push service, one browser that is subscribed, and the provider that pushes to it."""

    service: WebPushService
    provider: WebPushProvider
    browser: Browser
    token: str

    async def push(self, notice: PushNotice = WEB_NOTICE) -> Outcome:
        return await self.provider.push(self.token, notice)


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[WebPushService]:
    async with web_push_service(clock) as service:
        yield service


@pytest.fixture
async def pushing(clock: ManualClock, service: WebPushService) -> AsyncIterator[Pushing]:
    async with WebPushProvider(replace(WEB_PUSH, urgency="low"), clock) as provider:
        browser = Browser()
        yield Pushing(service, provider, browser, browser.subscribe(service, provider.public_key))


async def test_a_browser_gets_what_was_pushed(pushing: Pushing) -> None:
    assert await pushing.provider.push(pushing.provider.checked_token(pushing.token), WEB_NOTICE) == DELIVERED

    (push,) = pushing.service.accepted
    assert pushing.browser.read(push.body) == {
        "title": WEB_NOTICE.title,
        "body": WEB_NOTICE.body,
        "url": WEB_NOTICE.url,
        "id": WEB_NOTICE.message_id,
        "data": {"topic": "t-1"},
    }
    assert pushing.provider.public_key == KEYS.public_key
    sent = {
        "TTL": "86400",
        "Urgency": "low",
        "Content-Encoding": "aes128gcm",
        "Content-Type": "application/octet-stream",
        "User-Agent": "Bridge-Server/1",
    }
    assert {name: push.headers[name] for name in sent} == sent
    assert push.headers["Authorization"].endswith(f", k={KEYS.public_key}")
    assert (len(push.body) - 86 - 17) % 256 == 0


async def test_the_time_to_live_is_within_what_services_take(pushing: Pushing) -> None:
    for wanted, sent in ((-1, "0"), (60, "60"), (2_419_201, "2419200")):
        await pushing.push(replace(WEB_NOTICE, ttl_seconds=wanted))
        assert pushing.service.accepted[-1].headers["TTL"] == sent


async def test_a_repeat_replaces_its_message_and_no_two_share_a_key_or_a_salt(pushing: Pushing) -> None:
    await asyncio.gather(*(pushing.push(replace(WEB_NOTICE, message_id="m.1")) for _ in range(20)))
    await pushing.push(replace(WEB_NOTICE, message_id="m.2"))

    accepted = pushing.service.accepted
    waiting = [pushing.browser.read(push.body)["id"] for push in pushing.service.waiting()]
    assert waiting == ["m.1", "m.2"]
    assert all((push.topic or "").isalnum() for push in accepted)
    assert len({push.body[:16] for push in accepted}) == len(accepted) == 21
    assert len({push.body[21:86] for push in accepted}) == 21


async def test_a_token_is_shared_until_it_has_to_be_renewed(pushing: Pushing, clock: ManualClock) -> None:
    for hours in (0, 10, 2, 24):
        clock.advance(hours * 3_600)
        assert await pushing.push() == DELIVERED
    first, kept, renewed, again = (push.headers["Authorization"] for push in pushing.service.accepted)
    assert first == kept
    assert len({kept, renewed, again}) == 3


async def test_a_subscription_with_another_key_is_refused_and_an_ended_one_gone(pushing: Pushing) -> None:
    other = Browser().subscribe(pushing.service, Browser().p256dh)
    refused = await pushing.provider.push(other, WEB_NOTICE)
    assert (refused.verdict, refused.status) == (Verdict.REFUSED, 403)
    assert "must subscribe again" in refused.reason

    pushing.service.unsubscribe_all()
    assert (await pushing.push()).verdict is Verdict.GONE
    unknown = pushing.token.replace("/push/", "/push/0")
    assert (await pushing.provider.push(unknown, WEB_NOTICE)).status == 404


async def test_a_notice_that_is_too_large_is_refused_and_not_sent(pushing: Pushing) -> None:
    large = await pushing.push(replace(WEB_NOTICE, data={"more": "a" * 4_000}))
    long = await pushing.push(replace(WEB_NOTICE, body="ä" * 4_000))
    assert (large.verdict, long) == (Verdict.REFUSED, DELIVERED)
    (push,) = pushing.service.accepted
    assert len(push.body) in range(4_090, 4_097)
    assert pushing.browser.read(push.body)["body"].endswith("ä…")


@pytest.mark.parametrize(("is_known", "verdict"), [(False, Verdict.FAILED), (True, Verdict.BLOCKED)])
async def test_a_known_service_may_block(clock: ManualClock, is_known: bool, verdict: Verdict) -> None:
    later = ManualClock(clock.now_ms() + 13 * 3_600 * 1_000)
    async with web_push_service(later) as service:
        known = {service.origin: b"invalid JWT"} if is_known else KNOWN_SERVICES
        async with WebPushProvider(WEB_PUSH, clock, known_services=known) as provider:
            outcome = await provider.push(Browser().subscribe(service), WEB_NOTICE)
    assert (outcome.verdict, outcome.status) == (verdict, 401)


async def test_a_redirect_is_not_followed(pushing: Pushing) -> None:
    async with open_receiver() as elsewhere:
        pushing.service.script.append(status(307, Location=elsewhere.url()))
        told = "the push service answered 307, and redirects are not followed"
        assert await pushing.push() == Outcome(Verdict.FAILED, told, 307)
        assert elsewhere.requests == []


async def test_a_service_that_says_nothing_is_given_up(pushing: Pushing, pass_time: PassTime) -> None:
    asked = asyncio.Event()

    async def say_nothing(service: WebPushService, request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        return await hang(service, request)

    pushing.service.script.append(say_nothing)
    unanswered = asyncio.create_task(pushing.push())
    await asked.wait()

    await pass_time(WEB_PUSH.timeout_seconds)

    assert await unanswered == Outcome(Verdict.FAILED, "no answer in time")


async def test_an_endpoint_that_is_not_connected_to(clock: ManualClock, service: WebPushService) -> None:
    plain = Browser().subscribe(service)
    guarded = replace(WEB_PUSH, allow_private=False)

    async with WebPushProvider(guarded, clock, look_up=lambda host: ["127.0.0.1"]) as provider:
        for host in ("127.0.0.1", "inside.test"):
            outcome = await provider.push(plain.replace(service.origin, f"https://{host}", 1), WEB_NOTICE)
            assert outcome == Outcome(Verdict.REFUSED, "the address 127.0.0.1 is not public (loopback)")

        with pytest.raises(ValueError, match="must be an https URL"):
            provider.checked_token(plain)
        told = "the subscription's endpoint must be an https URL"
        assert await provider.push(plain, WEB_NOTICE) == Outcome(Verdict.REFUSED, told)
    assert service.received == []


async def test_credentials_and_capabilities_are_neither_logged_nor_shown(pushing: Pushing) -> None:
    pushing.service.script.extend([status(401), status(403), status(500), reset])
    with capture_logs() as logs:
        outcomes = [await pushing.push() for _ in range(5)]
    shown = repr((logs, outcomes, WEB_PUSH, pushing.provider))
    for secret in ("/push/", KEYS.private_key, "vapid t="):
        assert secret not in shown


async def test_a_provider_can_be_closed_during_a_push(clock: ManualClock, service: WebPushService) -> None:
    service.script.append(hang)
    async with WebPushProvider(WEB_PUSH, clock) as provider:
        push = asyncio.create_task(provider.push(Browser().subscribe(service), WEB_NOTICE))
        await eventually(lambda: bool(service.received))
        push.cancel()

    with pytest.raises(asyncio.CancelledError):
        await push


# The meaning of every answer.

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


def judged(status: int, body: bytes = b"", known: bytes | None = None, **headers: str) -> Outcome:
    fields = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge_webpush(status, fields, body, now_ms=1_800_000_000_000, refused_token=known)


@each_row(
    ("verdict", "codes", "words"),
    [
        (Verdict.DELIVERED, [200, 299], ""),
        (Verdict.GONE, [404, 410], "the push service answered {}: no such subscription"),
        (Verdict.REFUSED, [400], "key"),
        (Verdict.REFUSED, [403], "subscribe again"),
        (Verdict.REFUSED, [413], "too large"),
        (Verdict.FAILED, [304, 401, 406, 429, 503], "the push service answered {}"),
    ],
)
def test_every_push_service_answer_has_its_outcome(verdict: Verdict, codes: list[int], words: str) -> None:
    for code in codes:
        outcome = judged(code, b"secret path")
        assert (outcome.verdict, outcome.status) == (verdict, code)
        assert words.format(code) in outcome.reason
        assert bool(outcome.reason) is (verdict is not Verdict.DELIVERED)
        assert "secret" not in outcome.reason


def test_retry_after_is_read_and_is_for_all_subscriptions_after_not_now_and_perhaps_after_too_much() -> None:
    for code, about_all in ((429, None), (503, True), (500, False), (406, False)):
        assert judged(code, Retry_After="119").retry_after_seconds == 119
        assert judged(code, Retry_After="Fri, 15 Jan 2027 08:01:00 GMT").retry_after_seconds == 60
        assert judged(code, Retry_After="soon").retry_after_seconds is None
        assert judged(code, Retry_After="119").about_lane is about_all


@each_row(
    ("known", "code", "body", "verdict"),
    [
        (GOOGLE, 403, GOOGLE_BAD_TOKEN, Verdict.BLOCKED),
        (MOZILLA, 401, MOZILLA_BAD_TOKEN, Verdict.BLOCKED),
        (APPLE, 403, b'{"reason":"BadJwtToken"}', Verdict.BLOCKED),
        (GOOGLE, 403, GOOGLE_OTHER_KEY, Verdict.REFUSED),
        (MOZILLA, 401, MOZILLA_OTHER_KEY, Verdict.FAILED),
        (APPLE, 400, b'{"reason":"VapidPkHashMismatch"}', Verdict.REFUSED),
        (None, 401, MOZILLA_BAD_TOKEN, Verdict.FAILED),
        (None, 403, GOOGLE_BAD_TOKEN, Verdict.REFUSED),
    ],
)
def test_refused_tokens_and_other_keys(known: bytes | None, code: int, body: bytes, verdict: Verdict) -> None:
    outcome = judged(code, body, known)
    assert (outcome.verdict, outcome.status) == (verdict, code)
    assert ("vapid_subject" in outcome.reason) is (verdict is Verdict.BLOCKED)
