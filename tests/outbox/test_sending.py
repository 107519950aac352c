"""One attempt: what arrives and how it is signed, the meaning of each answer, and receivers that fail it.

White-box: a fault of the server itself, and what it logs, cannot be ordered from outside.
"""

import asyncio
import base64
import threading
import time
from dataclasses import replace

import pytest
from aiohttp import ClientOSError, ClientPayloadError
from standardwebhooks import Webhook
from structlog.testing import CapturingLogger

from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox import guarded_client
from bridge_server.outbox.guarded_client import Outcome, Verdict, failure
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender, WebhookSigner
from tests.outbox.running import HOOK, OPEN
from tests.support.clock import PassTime
from tests.support.credentials import self_signed
from tests.support.rows import each_row
from tests.support.waiting import turns
from tests.support.webhook_receiver import (
    WebhookReceiver,
    hang,
    long_body,
    open_receiver,
    reset,
    status,
    stuck_body,
)

NOW_MS = 1_800_000_000_000
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def message_to(url: str) -> OutgoingMessage:
    return OutgoingMessage("message-1", url, b'{"topic":"t"}', HOOK)


async def send(url: str, settings: SenderSettings = OPEN, now_ms: int = NOW_MS) -> Outcome:
    async with WebhookSender(settings) as webhooks:
        return await webhooks.send(message_to(url), now_ms)


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


async def test_the_receivers_library_verifies_a_signed_message(receiver: WebhookReceiver) -> None:
    message, now_ms = message_to(receiver.url()), SystemClock().now_ms()
    await send(message.url, replace(OPEN, signing_secret=SECRET), now_ms)
    async with WebhookSender(OPEN) as webhooks:
        await webhooks.send(message, now_ms)
        webhooks.sign_with(SECRET)
        await webhooks.send(message, now_ms)

    first, unsigned, later = receiver.requests
    assert "webhook-signature" not in unsigned.headers
    for signed in (first, later):
        assert Webhook(SECRET).verify(signed.body, dict(signed.headers)) == {"topic": "t"}


async def test_every_status_has_its_outcome(receiver: WebhookReceiver) -> None:
    for verdict, asked, codes in (
        (Verdict.DELIVERED, None, [200, 204, 299]),
        (Verdict.GONE, None, [410]),
        (Verdict.FAILED, 120.0, [429, 503]),
        (Verdict.FAILED, None, [400, 404, 500, 599]),
    ):
        for code in codes:
            receiver.otherwise = status(code, Retry_After="120")
            reason = "" if verdict is Verdict.DELIVERED else f"the receiver answered {code}"
            assert await send(receiver.url()) == Outcome(verdict, reason, code, asked)


async def test_nothing_is_sent_elsewhere(receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_receiver() as elsewhere:
        monkeypatch.setenv("HTTP_PROXY", elsewhere.url())
        monkeypatch.setenv("http_proxy", elsewhere.url())
        for code in (300, 301, 302, 303, 307, 308):
            receiver.otherwise = status(code, Location=elsewhere.url())
            reason = f"the receiver answered {code}, and redirects are not followed"
            assert await send(receiver.url()) == Outcome(Verdict.FAILED, reason, code)

    assert (len(receiver.requests), len(elsewhere.requests)) == (6, 0)


async def test_an_answer_is_judged_by_its_status_whatever_its_body(
    receiver: WebhookReceiver, pass_time: PassTime
) -> None:
    receiver.otherwise = long_body(2**30)
    assert (await send(receiver.url())).verdict is Verdict.DELIVERED
    assert receiver.answered_bytes < 2**26

    receiver.otherwise = stuck_body
    outcome = Outcome(Verdict.FAILED)
    while outcome.status is None:  # the time may be over before a busy machine has brought the status
        sending = asyncio.create_task(send(receiver.url()))
        await receiver.got(len(receiver.requests) + 1)
        await turns()
        await pass_time(OPEN.timeout_seconds)
        outcome = await sending
    assert outcome.verdict is Verdict.DELIVERED


async def test_no_answer_is_decompressed_and_no_cookie_is_kept(receiver: WebhookReceiver) -> None:
    receiver.otherwise = long_body(16_384, **{"Content-Encoding": "gzip", "Set-Cookie": "a=1"})
    async with WebhookSender(OPEN) as webhooks:
        for _ in range(2):
            outcome = await webhooks.send(message_to(receiver.url()), NOW_MS)
            assert outcome.verdict is Verdict.DELIVERED

    first, second = receiver.requests
    assert first.headers["Accept-Encoding"] == "identity"
    assert first.connection is second.connection  # no error of decompression broke it
    assert "Cookie" not in second.headers


async def test_a_receiver_that_hangs_is_given_up(receiver: WebhookReceiver, pass_time: PassTime) -> None:
    receiver.otherwise = hang
    sending = asyncio.create_task(send(receiver.url()))
    await receiver.got(1)

    await pass_time(OPEN.timeout_seconds)

    assert await sending == Outcome(Verdict.FAILED, "no answer in time")


async def test_a_connection_that_is_not_made_is_given_up_sooner(pass_time: PassTime) -> None:
    has_begun, may_end = threading.Event(), threading.Event()

    def hangs(host: str) -> list[str]:
        has_begun.set()
        may_end.wait(60)
        return ["127.0.0.1"]

    async with WebhookSender(replace(OPEN, connect_seconds=5), look_up=hangs) as webhooks:
        sending = asyncio.create_task(webhooks.send(message_to("http://host.test/"), 0))
        await asyncio.to_thread(has_begun.wait, 60)
        await pass_time(5)
        outcome = await sending
        may_end.set()

    assert outcome == Outcome(Verdict.FAILED, "no connection in time")


async def test_a_receiver_without_answer_port_name_or_valid_tls_fails(receiver: WebhookReceiver) -> None:
    receiver.otherwise = reset
    assert await send(receiver.url()) == Outcome(Verdict.FAILED, "the connection was closed before an answer")
    async with open_receiver(tls=self_signed("127.0.0.1")) as other:
        assert await send(other.url().replace("http:", "https:")) == Outcome(
            Verdict.FAILED, "the certificate is not valid: self-signed certificate"
        )
        assert other.requests == []
    for url, reason in (
        (other.url(), "no connection: "),
        ("http://" + "a" * 64 + ".invalid/", "the name does not resolve: "),
        (receiver.url().replace("http:", "https:"), "no TLS connection: "),
    ):
        outcome = await send(url)
        assert outcome.verdict is Verdict.FAILED
        assert outcome.reason.startswith(reason)


async def test_an_unexpected_error_is_logged_without_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(guarded_client, "log", log)

    def broken(host: str) -> list[str]:
        secret_url = f"http://{host}/?token=" + "hush"
        raise RuntimeError(secret_url)

    async with WebhookSender(OPEN, look_up=broken) as webhooks:
        outcome = await webhooks.send(message_to("http://host.test/"), 0)

    assert outcome == Outcome(Verdict.FAILED, "the request failed: RuntimeError")
    (call,) = log.calls
    assert call.kwargs["kind"] == "RuntimeError"
    assert "token=" not in str(call)


@each_row(
    ("error", "text"),
    [
        (ClientOSError(104, "Connection reset by peer"), "the connection broke: Connection reset by peer"),
        (ClientOSError(), "the connection broke: ClientOSError"),
        (ClientOSError(None, "no body for http://host.test/?hush"), "the connection broke: ClientOSError"),
        (ClientPayloadError("http://host.test/?token=hush"), "the request failed: ClientPayloadError"),
        (OSError(1, "x" * 1_000), ("the connection broke: " + "x" * 1_000)[:200]),
    ],
)
def test_a_failure_has_a_short_reason(error: Exception, text: str) -> None:
    assert failure(error) == text


@each_row(
    "answer",
    [
        b"",
        b"\x00\xff\x00 this is not HTTP\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    ],
    ids=["nothing", "noise", "a long line", "a bad length"],
)
async def test_an_answer_that_is_not_http_is_a_failure(answer: bytes) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(65_536)
        writer.write(answer)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        outcome = await send(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/hook?token=hush")

    assert outcome.verdict is Verdict.FAILED
    assert 0 < len(outcome.reason) <= 200
    assert "hush" not in outcome.reason


def secret_of(size: int) -> str:
    return "whsec_" + base64.b64encode(bytes(range(size))).decode()


def test_the_published_vector_is_reproduced_and_a_second_secret_signs_beside_the_first() -> None:
    previous = secret_of(32)
    vector = ("msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', 1_614_265_330_000)
    signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="

    assert WebhookSigner(SECRET).headers(*vector) == {
        "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
        "webhook-timestamp": "1614265330",
        "webhook-signature": signature,
    }
    signer = WebhookSigner(SECRET, previous)
    assert signer.headers(*vector)["webhook-signature"].split()[0] == signature
    headers = signer.headers("msg_1", b"{}", time.time_ns() // 1_000_000)
    for secret in (SECRET, previous):
        Webhook(secret).verify(b"{}", headers)


@each_row(
    ("secret", "complaint"),
    [
        ("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "must begin with whsec_"),
        ("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw\n", "not base64"),
        ("whsec_äöü", "not base64"),
        (secret_of(23), "and holds 23"),
        (secret_of(65), "and holds 65"),
    ],
)
def test_a_secret_of_another_length_or_form_is_named_at_once(secret: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        WebhookSigner(secret)

    for sound in (secret_of(24), secret_of(64), secret_of(25).rstrip("=")):
        assert "webhook-signature" in WebhookSigner(sound).headers("msg_1", b"{}", 0)
