from dataclasses import replace

import pytest
from standardwebhooks import Webhook

from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from tests.outbox.running import HOOK, OPEN
from tests.support.rows import each_row
from tests.support.webhook_receiver import (
    WebhookReceiver,
    long_body,
    open_receiver,
    status,
    stuck_body,
)

NOW_MS = 1_800_000_000_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HURRIED = replace(OPEN, timeout_seconds=1)


async def send(url: str, settings: SenderSettings = OPEN, now_ms: int = NOW_MS) -> Outcome:
    async with WebhookSender(settings) as webhooks:
        return await webhooks.send(OutgoingMessage("message-1", url, b'{"topic":"t"}', HOOK), now_ms)


async def send_twice(url: str) -> None:
    async with WebhookSender(OPEN) as webhooks:
        for number in range(2):
            outcome = await webhooks.send(OutgoingMessage(f"message-{number}", url, b"{}", HOOK), NOW_MS)
            assert outcome.verdict is Verdict.DELIVERED


async def test_a_message_arrives_as_a_post_of_json(receiver: WebhookReceiver) -> None:
    outcome = await send(receiver.url("/a%2Fb?key=1%2B1%26"))

    assert outcome == Outcome(Verdict.DELIVERED, status=200)
    (request,) = receiver.requests
    assert (request.path, request.body) == ("/a%2Fb?key=1%2B1%26", b'{"topic":"t"}')
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"] == "Bridge-Server/1"
    assert request.headers["Accept"] == "*/*"
    assert request.headers["webhook-id"] == "message-1"
    assert request.headers["webhook-timestamp"] == "1800000000"
    assert "webhook-signature" not in request.headers


async def test_a_signed_message_is_verified_by_the_receivers_library(receiver: WebhookReceiver) -> None:
    await send(receiver.url(), replace(OPEN, signing_secret=SECRET), SystemClock().now_ms())

    (request,) = receiver.requests
    assert Webhook(SECRET).verify(request.body, dict(request.headers)) == {"topic": "t"}


async def test_a_changed_secret_signs_later_messages(receiver: WebhookReceiver) -> None:
    message = OutgoingMessage("message-1", receiver.url(), b'{"topic":"t"}', HOOK)
    async with WebhookSender(OPEN) as webhooks:
        await webhooks.send(message, SystemClock().now_ms())
        webhooks.sign_with(SECRET)
        await webhooks.send(message, SystemClock().now_ms())

    unsigned, signed = receiver.requests
    assert "webhook-signature" not in unsigned.headers
    assert Webhook(SECRET).verify(signed.body, dict(signed.headers)) == {"topic": "t"}


def test_a_malformed_secret_fails_before_anything_is_sent() -> None:
    with pytest.raises(ValueError, match="must begin with whsec_"):
        WebhookSender(replace(OPEN, signing_secret="secret"))


@each_row("code", [200, 201, 202, 204, 299])
async def test_every_2xx_is_a_delivery(receiver: WebhookReceiver, code: int) -> None:
    receiver.otherwise = status(code)

    assert (await send(receiver.url())).verdict is Verdict.DELIVERED


@each_row("code", [300, 304, 400, 401, 404, 409, 418, 429, 500, 503, 599])
async def test_every_other_status_is_a_failure(receiver: WebhookReceiver, code: int) -> None:
    receiver.otherwise = status(code)

    outcome = await send(receiver.url())

    assert (outcome.verdict, outcome.status) == (Verdict.FAILED, code)
    assert outcome.reason.startswith(f"the receiver answered {code}")


async def test_an_answer_of_410_means_that_the_receiver_is_gone(receiver: WebhookReceiver) -> None:
    receiver.otherwise = status(410)

    assert await send(receiver.url()) == Outcome(Verdict.GONE, "the receiver answered 410", 410)


@each_row(("code", "asked"), [(429, 120.0), (503, 120.0), (500, None), (404, None)])
async def test_retry_after_counts_where_it_means_too_much_or_not_now(
    receiver: WebhookReceiver, code: int, asked: float | None
) -> None:
    receiver.otherwise = status(code, Retry_After="120")

    assert (await send(receiver.url())).retry_after_seconds == asked


@each_row("code", [301, 302, 303, 307, 308])
async def test_a_redirect_is_a_failure_and_is_not_followed(receiver: WebhookReceiver, code: int) -> None:
    async with open_receiver() as elsewhere:
        receiver.otherwise = status(code, Location=elsewhere.url())

        outcome = await send(receiver.url())

        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason == f"the receiver answered {code}, and redirects are not followed"
        assert elsewhere.requests == []


async def test_a_huge_answer_is_not_read_to_its_end(receiver: WebhookReceiver) -> None:
    receiver.otherwise = long_body(2**30)

    outcome = await send(receiver.url())

    assert outcome.verdict is Verdict.DELIVERED
    assert receiver.answered_bytes < 2**26


async def test_an_answer_that_never_ends_is_judged_by_its_status(receiver: WebhookReceiver) -> None:
    receiver.otherwise = stuck_body

    assert (await send(receiver.url(), HURRIED)).verdict is Verdict.DELIVERED


async def test_a_compressed_answer_is_left_as_it_is(receiver: WebhookReceiver) -> None:
    receiver.otherwise = long_body(16_384, **{"Content-Encoding": "gzip"})

    await send_twice(receiver.url())

    first, second = receiver.requests
    assert first.headers["Accept-Encoding"] == "identity"
    assert first.connection is second.connection  # no error of decompression broke it


async def test_a_connection_is_used_again_after_a_short_answer_only(receiver: WebhookReceiver) -> None:
    receiver.script.extend([long_body(49_152), long_body(81_920)])

    await send_twice(receiver.url())
    await send_twice(receiver.url())

    short, long, after_long, last = (request.connection for request in receiver.requests)
    assert short is long
    assert after_long is last
    assert long is not after_long


async def test_cookies_are_not_kept(receiver: WebhookReceiver) -> None:
    receiver.otherwise = status(200, Set_Cookie="a=1")

    await send_twice(receiver.url())

    assert ["Cookie" in request.headers for request in receiver.requests] == [False, False]


async def test_a_proxy_in_the_environment_is_not_used(
    receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_receiver() as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url())
        monkeypatch.setenv("http_proxy", proxy.url())

        await send(receiver.url())

        assert (len(receiver.requests), len(proxy.requests)) == (1, 0)


@each_row(
    "url",
    [
        "",
        "hook",
        "//127.0.0.1/",
        "http:///a",
        "ftp://127.0.0.1/",
        "ws://127.0.0.1/",
        "http://127.0.0.1:99999/",
    ],
)
async def test_a_message_without_an_http_url_is_refused(url: str) -> None:
    outcome = await send(url)

    assert outcome == Outcome(Verdict.REFUSED, "the URL is not an absolute http or https URL")
