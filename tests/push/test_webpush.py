"""Pushes to browsers over a local push service: what arrives, and what comes of every answer."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.push.providers.webpush import WebPushProvider, WebPushSettings
from tests.push.webpush import KEYS, NOTICE, OPEN
from tests.support.browser import Browser
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.loop_time import PassTime
from tests.support.rows import each_row
from tests.support.webhook_receiver import open_receiver
from tests.support.webpush_service import WebPushService, hang, reset, status, web_push_service


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
async def service(clock: ManualClock) -> AsyncIterator[WebPushService]:
    async with web_push_service(clock) as service:
        yield service


@pytest.fixture
async def provider(clock: ManualClock) -> AsyncIterator[WebPushProvider]:
    async with WebPushProvider(OPEN, clock) as provider:
        yield provider


async def push_once(token: str, clock: ManualClock, settings: WebPushSettings = OPEN) -> Outcome:
    async with WebPushProvider(settings, clock) as provider:
        return await provider.push(token, NOTICE)


async def test_a_browser_gets_what_was_pushed(provider: WebPushProvider, service: WebPushService) -> None:
    browser = Browser()
    token = browser.subscribe(service, provider.public_key)

    outcome = await provider.push(provider.checked_token(token), NOTICE)

    assert outcome == Outcome(Verdict.DELIVERED, status=201)
    (push,) = service.accepted
    assert browser.read(push.body) == {
        "title": NOTICE.title,
        "body": NOTICE.body,
        "url": NOTICE.url,
        "id": NOTICE.message_id,
        "data": {"topic": "t-1"},
    }


async def test_the_service_gets_what_it_needs(provider: WebPushProvider, service: WebPushService) -> None:
    await provider.push(Browser().subscribe(service), NOTICE)

    (push,) = service.accepted
    assert provider.public_key == KEYS.public_key
    assert push.headers["TTL"] == "86400"
    assert push.headers["Urgency"] == "high"
    assert push.headers["Content-Encoding"] == "aes128gcm"
    assert push.headers["Content-Type"] == "application/octet-stream"
    assert push.headers["User-Agent"] == "Bridge-Server/1"
    assert push.headers["Authorization"].endswith(f", k={KEYS.public_key}")
    assert (len(push.body) - 86 - 17) % 256 == 0


async def test_the_urgency_is_a_setting(clock: ManualClock, service: WebPushService) -> None:
    await push_once(Browser().subscribe(service), clock, replace(OPEN, urgency="low"))

    assert service.accepted[0].headers["Urgency"] == "low"


@pytest.mark.parametrize(("wanted", "sent"), [(-1, "0"), (0, "0"), (60, "60"), (10**9, "2419200")])
async def test_the_time_to_live_is_kept_within_what_services_take(
    provider: WebPushProvider, service: WebPushService, wanted: int, sent: str
) -> None:
    await provider.push(Browser().subscribe(service), replace(NOTICE, ttl_seconds=wanted))

    assert service.accepted[0].headers["TTL"] == sent


async def test_a_repeat_replaces_the_message_that_waits_and_another_does_not(
    provider: WebPushProvider, service: WebPushService
) -> None:
    browser = Browser()
    token = browser.subscribe(service)

    for message_id in ("m.1", "m.1", "m.2"):
        await provider.push(token, replace(NOTICE, message_id=message_id))

    assert len(service.accepted) == 3
    assert [browser.read(push.body)["id"] for push in service.waiting()] == ["m.1", "m.2"]
    assert all((push.topic or "").isalnum() for push in service.accepted)


async def test_no_two_messages_share_a_key_or_a_salt(
    provider: WebPushProvider, service: WebPushService
) -> None:
    token = Browser().subscribe(service)

    await asyncio.gather(*(provider.push(token, NOTICE) for _ in range(20)))

    assert len({push.body[:16] for push in service.accepted}) == 20
    assert len({push.body[21:86] for push in service.accepted}) == 20


async def test_a_token_is_shared_until_it_has_to_be_renewed(
    provider: WebPushProvider, service: WebPushService, clock: ManualClock
) -> None:
    token = Browser().subscribe(service)

    for hours in (0, 10, 2, 24):
        clock.advance(hours * 3_600)
        assert (await provider.push(token, NOTICE)).verdict is Verdict.DELIVERED

    first, kept, renewed, again = (push.headers["Authorization"] for push in service.accepted)
    assert first == kept
    assert len({kept, renewed, again}) == 3


async def test_a_subscription_that_has_ended_is_gone(
    provider: WebPushProvider, service: WebPushService
) -> None:
    token = Browser().subscribe(service)
    service.unsubscribe_all()

    assert (await provider.push(token, NOTICE)).verdict is Verdict.GONE
    unknown = token.replace("/push/", "/push/0")
    assert (await provider.push(unknown, NOTICE)).status == 404


async def test_a_subscription_with_another_key_is_refused_and_says_why(
    provider: WebPushProvider, service: WebPushService
) -> None:
    token = Browser().subscribe(service, Browser().p256dh)

    outcome = await provider.push(token, NOTICE)

    assert (outcome.verdict, outcome.status) == (Verdict.REFUSED, 403)
    assert "must subscribe again" in outcome.reason


async def test_a_notice_that_is_too_large_is_refused_and_not_sent(
    provider: WebPushProvider, service: WebPushService
) -> None:
    browser = Browser()
    token = browser.subscribe(service)

    large = await provider.push(token, replace(NOTICE, data={"more": "a" * 4_000}))
    long = await provider.push(token, replace(NOTICE, body="ä" * 4_000))

    assert (large.verdict, long.verdict) == (Verdict.REFUSED, Verdict.DELIVERED)
    (push,) = service.accepted
    assert len(push.body) in range(4_090, 4_097)
    assert browser.read(push.body)["body"].endswith("ä…")


async def test_a_service_that_takes_less_refuses_only_this_message(
    provider: WebPushProvider, service: WebPushService
) -> None:
    token = Browser().subscribe(service)
    service.script.append(status(413))

    assert (await provider.push(token, NOTICE)).verdict is Verdict.REFUSED
    assert (await provider.push(token, NOTICE)).verdict is Verdict.DELIVERED


@each_row("code", [429, 500, 503])
async def test_retry_after_of_a_push_service_is_kept(
    provider: WebPushProvider, service: WebPushService, code: int
) -> None:
    service.script.append(status(code, Retry_After="90"))

    outcome = await provider.push(Browser().subscribe(service), NOTICE)

    assert outcome == Outcome(Verdict.FAILED, f"the push service answered {code}", code, 90, code != 500)


async def test_a_service_whose_clock_is_another_refuses_the_token(
    provider: WebPushProvider, clock: ManualClock
) -> None:
    later = ManualClock(clock.now_ms() + 13 * 3_600 * 1_000)
    async with web_push_service(later) as service:
        outcome = await provider.push(Browser().subscribe(service), NOTICE)

    assert (outcome.verdict, outcome.status) == (Verdict.FAILED, 401)


async def test_a_known_service_that_refuses_the_token_blocks_the_channel(clock: ManualClock) -> None:
    later = ManualClock(clock.now_ms() + 13 * 3_600 * 1_000)
    async with web_push_service(later) as service:
        known = {service.origin: b"invalid JWT"}
        async with WebPushProvider(OPEN, clock, known_services=known) as provider:
            outcome = await provider.push(Browser().subscribe(service), NOTICE)

    assert (outcome.verdict, outcome.status) == (Verdict.BLOCKED, 401)


async def test_a_redirect_is_not_followed(provider: WebPushProvider, service: WebPushService) -> None:
    async with open_receiver() as elsewhere:
        service.script.append(status(307, Location=elsewhere.url()))

        outcome = await provider.push(Browser().subscribe(service), NOTICE)

        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason == "the push service answered 307, and redirects are not followed"
        assert elsewhere.requests == []


async def test_a_service_that_says_nothing_is_given_up(
    clock: ManualClock, service: WebPushService, pass_time: PassTime
) -> None:
    asked = asyncio.Event()

    async def say_nothing(service: WebPushService, request: web.BaseRequest) -> web.StreamResponse:
        asked.set()
        return await hang(service, request)

    service.script.append(say_nothing)
    pushing = asyncio.create_task(push_once(Browser().subscribe(service), clock))
    await asked.wait()

    await pass_time(OPEN.timeout_seconds)

    assert await pushing == Outcome(Verdict.FAILED, "no answer in time")


async def test_a_service_that_hangs_up_may_be_tried_again(
    provider: WebPushProvider, service: WebPushService
) -> None:
    service.script.append(reset)

    outcome = await provider.push(Browser().subscribe(service), NOTICE)

    assert (outcome.verdict, outcome.status) == (Verdict.FAILED, None)


async def test_a_service_that_cannot_be_reached_may_be_tried_again(
    provider: WebPushProvider, clock: ManualClock
) -> None:
    async with web_push_service(clock) as service:
        token = Browser().subscribe(service)

    outcome = await provider.push(token, NOTICE)

    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("no connection")


async def test_a_slow_service_does_not_delay_another(
    provider: WebPushProvider, service: WebPushService, clock: ManualClock
) -> None:
    async with web_push_service(clock) as slow:
        slow.script.append(hang)
        waiting = asyncio.create_task(provider.push(Browser().subscribe(slow), NOTICE))

        outcome = await provider.push(Browser().subscribe(service), NOTICE)

        assert outcome.verdict is Verdict.DELIVERED
        assert not waiting.done()
        slow.released.set()
        await waiting


@each_row("host", ["127.0.0.1", "10.0.0.1", "[::1]", "169.254.169.254", "[fd00::1]"])
async def test_an_endpoint_inside_the_network_is_not_connected_to(clock: ManualClock, host: str) -> None:
    token = Browser().subscribe(WebPushService(clock)).replace("/push/", f"https://{host}/push/", 1)

    outcome = await push_once(token, clock, replace(OPEN, allow_private=False))

    assert outcome.verdict is Verdict.REFUSED
    assert "is not public" in outcome.reason


async def test_a_name_that_leads_inside_is_not_connected_to(clock: ManualClock) -> None:
    token = Browser().subscribe(WebPushService(clock)).replace("/push/", "https://inside.test/push/", 1)
    settings = replace(OPEN, allow_private=False)

    async with WebPushProvider(settings, clock, look_up=lambda host: ["127.0.0.1"]) as provider:
        outcome = await provider.push(token, NOTICE)

    assert outcome == Outcome(Verdict.REFUSED, "the address 127.0.0.1 is not public (loopback)")


async def test_plain_http_is_for_development(clock: ManualClock, service: WebPushService) -> None:
    token = Browser().subscribe(service)
    provider = WebPushProvider(replace(OPEN, allow_private=False), clock)

    with pytest.raises(ValueError, match="must be an https URL"):
        provider.checked_token(token)
    async with provider:
        outcome = await provider.push(token, NOTICE)

    assert outcome == Outcome(Verdict.REFUSED, "the subscription's endpoint must be an https URL")
    assert service.received == []


@each_row(
    ("changed", "reason"),
    [
        (replace(OPEN, vapid_private_key=KEYS.public_key), "private key"),
        (replace(OPEN, vapid_subject="push@example.org"), "subject"),
    ],
)
def test_bad_credentials_fail_before_anything_is_sent(
    clock: ManualClock, changed: WebPushSettings, reason: str
) -> None:
    with pytest.raises(ValueError, match=f"the VAPID {reason}"):
        WebPushProvider(changed, clock)


async def test_credentials_and_capabilities_are_neither_logged_nor_shown(
    provider: WebPushProvider, service: WebPushService
) -> None:
    token = Browser().subscribe(service)
    service.script.extend([status(401), status(403), status(500), reset])

    with capture_logs() as logs:
        outcomes = [await provider.push(token, NOTICE) for _ in range(5)]

    shown = repr((logs, outcomes, OPEN, provider))
    assert "/push/" not in shown
    assert KEYS.private_key not in shown
    assert "vapid t=" not in shown


async def test_a_provider_can_be_closed_while_pushes_are_under_way(
    clock: ManualClock, service: WebPushService
) -> None:
    async def arrived() -> bool:
        return bool(service.received)

    service.script.append(hang)
    async with WebPushProvider(OPEN, clock) as provider:
        push = asyncio.create_task(provider.push(Browser().subscribe(service), NOTICE))
        await eventually(arrived)
        push.cancel()

    with pytest.raises(asyncio.CancelledError):
        await push
