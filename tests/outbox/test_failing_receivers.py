"""What a sender makes of receivers and networks that fail it."""

import asyncio
import threading
from dataclasses import replace

import pytest
from aiohttp import ClientOSError, ClientPayloadError
from structlog.testing import CapturingLogger

from bridge_server.outbox import guarded_client
from bridge_server.outbox.guarded_client import Outcome, Verdict, failure
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from tests.outbox.running import HOOK, OPEN
from tests.support.certificates import self_signed
from tests.support.loop_time import PassTime
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver, hang, open_receiver, reset


async def send(url: str, settings: SenderSettings = OPEN) -> Outcome:
    async with WebhookSender(settings) as webhooks:
        return await webhooks.send(OutgoingMessage("message-1", url, b"{}", HOOK), 0)


async def test_a_receiver_that_hangs_is_given_up_in_time(
    receiver: WebhookReceiver, pass_time: PassTime
) -> None:
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

    message = OutgoingMessage("message-1", "http://host.test/", b"{}", HOOK)
    async with WebhookSender(replace(OPEN, connect_seconds=5), look_up=hangs) as webhooks:
        sending = asyncio.create_task(webhooks.send(message, 0))
        await asyncio.to_thread(has_begun.wait, 60)
        await pass_time(5)
        outcome = await sending
        may_end.set()

    assert outcome == Outcome(Verdict.FAILED, "no connection in time")


async def test_a_broken_connection_is_a_failure(receiver: WebhookReceiver) -> None:
    receiver.otherwise = reset

    outcome = await send(receiver.url())

    assert outcome == Outcome(Verdict.FAILED, "the connection was closed before an answer")


async def test_a_closed_port_is_a_failure() -> None:
    async with open_receiver() as receiver:
        url = receiver.url()

    outcome = await send(url)

    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("no connection: ")


async def test_a_name_that_does_not_exist_is_a_failure() -> None:
    outcome = await send("http://" + "a" * 64 + ".invalid/")

    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("the name does not resolve: ")


async def test_tls_with_a_server_that_speaks_none_is_a_failure(receiver: WebhookReceiver) -> None:
    outcome = await send(receiver.url().replace("http:", "https:"))

    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("no TLS connection: ")


async def test_an_untrusted_certificate_is_a_failure() -> None:
    async with open_receiver(tls=self_signed("127.0.0.1")) as receiver:
        outcome = await send(receiver.url().replace("http:", "https:"))

        assert outcome == Outcome(Verdict.FAILED, "the certificate is not valid: self-signed certificate")
        assert receiver.requests == []


async def test_an_unexpected_error_is_a_failure_and_logged_without_the_url(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(guarded_client, "log", log)

    def broken(host: str) -> list[str]:
        secret_url = f"http://{host}/?token=" + "hush"
        raise RuntimeError(secret_url)

    async with WebhookSender(OPEN, look_up=broken) as webhooks:
        outcome = await webhooks.send(OutgoingMessage("message-1", "http://host.test/", b"{}", HOOK), 0)

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


RAW_ANSWERS = {
    "nothing": b"",
    "noise": b"\x00\xff\x00 this is not HTTP\r\n\r\n",
    "a long line": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 100_000 + b"\r\n\r\n",
    "many headers": b"HTTP/1.1 200 OK\r\n" + b"".join(b"X-%d: x\r\n" % n for n in range(20_000)) + b"\r\n",
    "a bad length": b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
    "a cut header": b"HTTP/1.1 200 OK\r\nContent-Le",
    "a bad status": b"HTTP/1.1 2OO OK\r\n\r\n",
}


@each_row("answer", list(RAW_ANSWERS.values()), ids=list(RAW_ANSWERS))
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
