"""`webhook test`: one message at once, and what the receiver says to it."""

import asyncio
import json

import pytest

from tests.cli.conftest import Invoke
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver, status


@pytest.fixture(autouse=True)
def private_webhooks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BRIDGE_ALLOW_PRIVATE_WEBHOOKS", "true")


async def test_the_receiver_gets_a_signed_message(
    receiver: WebhookReceiver, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_WEBHOOK_SECRET", "whsec_" + "A" * 32)

    result = await asyncio.to_thread(invoke, "webhook", "test", receiver.url(), "--json")

    tested = json.loads(result.stdout)
    assert (result.exit_code, tested["delivered"], tested["status"]) == (0, True, 200)
    [request] = receiver.requests
    assert json.loads(request.body)["event"] == "test"
    assert request.headers["webhook-signature"].startswith("v1,")


async def test_the_answer_is_said_in_a_line(receiver: WebhookReceiver, invoke: Invoke) -> None:
    result = await asyncio.to_thread(invoke, "webhook", "test", receiver.url())

    assert (result.exit_code, result.stderr) == (0, "")
    assert result.stdout.startswith("the receiver took it and answered 200 in ")


async def test_a_refusal_is_one_line_and_exit_code_1(receiver: WebhookReceiver, invoke: Invoke) -> None:
    receiver.otherwise = status(500)

    result = await asyncio.to_thread(invoke, "webhook", "test", receiver.url())
    as_json = await asyncio.to_thread(invoke, "webhook", "test", receiver.url(), "--json")

    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "bridge-server: the receiver did not take it: the receiver answered 500\n"
    assert (as_json.exit_code, json.loads(as_json.stdout)["delivered"]) == (1, False)


async def test_the_address_guard_holds_for_a_test_too(
    receiver: WebhookReceiver, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BRIDGE_ALLOW_PRIVATE_WEBHOOKS", "false")

    result = await asyncio.to_thread(invoke, "webhook", "test", receiver.url())

    assert result.exit_code == 1
    assert receiver.requests == []


@each_row("url", ["app.example.org/hook", "ftp://app.example.org/hook", "http://"])
def test_a_text_that_is_no_url_is_refused(invoke: Invoke, url: str) -> None:
    result = invoke("webhook", "test", url)

    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr.startswith("bridge-server: URL must be ")
