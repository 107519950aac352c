"""`outbox`, `webhook test`, `push test` and `device list`: what the server sends, and to whom."""

import asyncio
import json
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import orjson
import pytest
from click.testing import Result

from bridge_server.assembly.command_line import operations
from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.store import enqueue
from bridge_server.storage.data_directory import held
from tests.cli.conftest import Invoke, Operating
from tests.client.gate import saying
from tests.support import fcm_service
from tests.support.admin_client import ETHEREUM
from tests.support.clock import ManualClock
from tests.support.command import Finished, run_command
from tests.support.engines import database_of, engine_environment, settings_over
from tests.support.project import account
from tests.support.push_client import TOPIC, PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, PushServices, running_push_services
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver, status

HOOK, OTHER = "https://app.example.org/hook", "https://other.example.org/hook"
DESTINATION = "https://app.example.org:443"
_ACCOUNT = (
    "INSERT INTO accounts (id, account_key) VALUES (1, 'eip155:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb')"
)
_DEVICES = """
INSERT INTO devices
    (account, device_id, channel, address, created_at_ms, delivered_at_ms, failed_at_ms, last_error)
VALUES
    (1, 'first', 'fcm', 'fcm:secret-token', 1000, NULL, NULL, NULL),
    (1, 'second', 'apns', 'apns:secret-token', 2000, 5000, 4000, NULL),
    (1, 'third', 'webhook', 'https://secret-token.example', 3000, 5000, 6000, 'it answered 413'),
    (1, 'fourth', 'log', 'log:', 4000, NULL, 6000, 'it answered 503')
"""
_MESSAGES = """
INSERT INTO outbox
    (body, message_id, destination, url, created_at_ms, attempts, next_attempt_at_ms, device_id)
VALUES
    ('{}', 'a', 'log', 'log:', 5, 0, 9000000000000, 'fourth'),
    ('{}', 'b', 'log', 'log:', 5, 0, 9000000000000, 'fourth'),
    ('{}', 'c', 'fcm', 'fcm:secret-token', 5, 0, 9000000000000, NULL),
    ('{}', 'd', 'https://secret-token.example:443', 'https://x', 5, 9, NULL, 'third')
"""


def owe(data_dir: Path, *urls: str) -> None:
    """Messages to these URLs, as a server had left them."""

    async def stored() -> None:
        async with operations(settings_over(data_dir)) as opened:
            for number, url in enumerate(urls, 1):
                message = OutgoingMessage(f"msg-{number}", url, b"{}", Purpose("relay"), subject="s" * 40)
                await opened.foundation.database.transaction(partial(enqueue, message, 1_000))

    asyncio.run(stored())


def kill(data_dir: Path) -> None:
    """Make all messages dead letters."""
    dead = "UPDATE outbox SET died_at_ms = 2000, next_attempt_at_ms = NULL, last_error = 'it hangs'"
    with database_of(settings_over(data_dir)) as database:
        database.changed(dead)


@pytest.fixture
def owing(tmp_path: Path, invoke: Invoke) -> Operating:
    """Two messages to one receiver, and one to another."""
    owe(tmp_path / "data", HOOK, HOOK, OTHER)
    return Operating(invoke, tmp_path / "data")


def test_messages_are_listed_newest_first_and_shown_without_payload(tmp_path: Path, owing: Operating) -> None:
    def ids(*options: str) -> list[str]:
        return [each["id"] for each in owing.json("outbox", "list", *options)["messages"]]

    lines, shown = owing.text("outbox", "list").splitlines(), owing.json("outbox", "show", "1-msg-1")
    body: dict[str, object] = {
        "event": "subscribed", "notification_types": ["news", "offers"], "url": None, "more": {}
    }  # fmt: skip

    assert ids() == ["3-msg-3", "2-msg-2", "1-msg-1"]
    assert ids("--destination", DESTINATION) == ["2-msg-2", "1-msg-1"]
    assert ids("--limit", "1") == ["3-msg-3"]
    assert owing.text("outbox", "list", "--dead") == "the outbox has no such message\n"
    assert {each["state"] for each in owing.json("outbox", "list")["messages"]} == {"due"}
    assert lines[0].split() == ["message", "state", "purpose", "destination", "attempts", "since", "error"]
    assert "s" * 40 not in owing.text("outbox", "list", "--json")
    assert (shown["message_id"], shown["body"], shown["body_bytes"]) == ("msg-1", None, 2)
    assert shown["headers"]["webhook-id"] == "msg-1"
    assert "webhook-id: msg-1" in owing.text("outbox", "show", "1-msg-1")
    with database_of(settings_over(tmp_path / "data")) as database:
        event = orjson.dumps(body).decode()
        database.changed(f"UPDATE outbox SET purpose = 'project-event', body = '{event}' WHERE id = 2")
    spelled = 'event: subscribed, notification_types: ["news","offers"], url: -, more: -'
    assert spelled in owing.text("outbox", "show", "2-msg-2")


def test_messages_and_dead_letters_are_sent_again_or_dropped(owing: Operating) -> None:
    def states() -> dict[str, str]:
        return {each["id"]: each["state"] for each in owing.json("outbox", "list")["messages"]}

    for arguments, fault in (
        (("show", "9-msg-9"), "no such message"),
        (("retry",), "name one message, or all dead letters with --dead"),
        (("drop", "1-msg-1", "--destination", DESTINATION), "--destination chooses among dead letters"),
    ):
        assert fault in owing.refusal("outbox", *arguments).lower()
        assert len(states()) == 3
    kill(owing.data_dir)
    assert owing.text("outbox", "retry", "1-msg-1") == "1-msg-1 is sent again\n"
    assert states() == {"1-msg-1": "due", "2-msg-2": "dead", "3-msg-3": "dead"}
    kill(owing.data_dir)
    assert owing.json("outbox", "retry", "--dead", "--destination", DESTINATION) == {"messages": 2}
    assert states() == {"1-msg-1": "due", "2-msg-2": "due", "3-msg-3": "dead"}
    kill(owing.data_dir)
    assert owing.json("outbox", "drop", "--dead", "--destination", DESTINATION) == {"messages": 2}
    assert states() == {"3-msg-3": "dead"}
    for command in ("retry", "drop"):
        kill(owing.data_dir)
        assert owing.text("outbox", command, "--dead").startswith("1 dead letters ")
        assert owing.text("outbox", command, "--dead") == "there are no such dead letters\n"
    owe(owing.data_dir, HOOK)
    assert owing.json("outbox", "drop", owing.json("outbox", "list")["messages"][0]["id"]) == {"messages": 1}


async def webhook_test(invoke: Invoke, receiver: WebhookReceiver, *options: str, **settings: str) -> Result:
    """Test the receiver's webhook by a command that allows private addresses, unless the settings say no."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {"allow_private_webhooks": "true", **settings}.items():
            patch.setenv(f"BRIDGE_{name.upper()}", value)
        return await asyncio.to_thread(invoke, "webhook", "test", receiver.url(), *options)


async def test_a_webhook_is_tried_with_a_signed_message(receiver: WebhookReceiver, invoke: Invoke) -> None:
    told = await webhook_test(invoke, receiver)
    as_json = await webhook_test(invoke, receiver, "--json", webhook_secret="whsec_" + "A" * 32)
    receiver.otherwise = status(500)
    result = await webhook_test(invoke, receiver)
    failed = await webhook_test(invoke, receiver, "--json")
    guarded = await webhook_test(invoke, receiver, allow_private_webhooks="false")
    no_url = await asyncio.to_thread(invoke, "webhook", "test", "ftp://app.example.org/hook")

    assert (told.exit_code, told.stderr, as_json.exit_code) == (0, "", 0)
    assert told.stdout.startswith("the receiver took it and answered 200 in ")
    tested = json.loads(as_json.stdout)
    assert (tested["delivered"], tested["status"]) == (True, 200)
    [_, request, *refused] = receiver.requests
    assert json.loads(request.body)["event"] == "test"
    assert request.headers["webhook-signature"].startswith("v1,")
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr == "bridge-server: it was not delivered: the receiver answered 500\n"
    assert (failed.exit_code, json.loads(failed.stdout)["delivered"]) == (1, False)
    assert (guarded.exit_code, len(refused)) == (1, 2)
    assert (no_url.exit_code, no_url.stdout) == (2, "")
    assert no_url.stderr.startswith("bridge-server: URL must be ")


@pytest.fixture
async def services(tmp_path: Path) -> AsyncIterator[PushServices]:
    async with running_push_services(tmp_path, SystemClock()) as services:
        yield services


@pytest.fixture
async def push(tmp_path: Path, services: PushServices) -> AsyncIterator[PushClient]:
    """A server at whose database the commands work, by the machine's time."""
    clock = ManualClock(SystemClock().now_ms())
    async with running_server(tmp_path / "data", clock, **services.settings) as server:
        yield PushClient(server)


async def push_test(push: PushClient, services: PushServices, *arguments: str) -> Finished:
    data_dir = push.server.settings.data_dir
    environment = {**services.environment, **engine_environment(data_dir)}
    command = ("push", "test", "--data-dir", str(data_dir), *arguments)
    return await asyncio.to_thread(run_command, *command, environment=environment)


async def test_the_device_gets_a_push(push: PushClient, services: PushServices) -> None:
    for channel in ("fcm", "apns", "webpush", "webhook"):
        await push.register(type=channel, token=services.token(channel), language="sv")
        finished = await push_test(push, services, "--topic", TOPIC)
        told = f"the provider took it and answered {201 if channel == 'webpush' else 200}\n"
        assert (finished.exit_code, finished.out, finished.err) == (0, told, "")
        (shown,) = services.shown(channel)
        assert shown.body == "Ny förfrågan från Dapp"
    await push.register(type="log")
    as_json = await push_test(push, services, "--topic", TOPIC, "--json")
    assert (as_json.exit_code, orjson.loads(as_json.out)) == (0, {"success": True, "status": None})
    assert "New request from Dapp" in as_json.err


async def test_a_failure_is_one_line_without_a_secret(push: PushClient, services: PushServices) -> None:
    async def said(*arguments: str) -> str:
        finished = await push_test(push, services, *arguments)
        assert (finished.exit_code, finished.out) == (2, "")
        assert not [each for each in (FCM_TOKEN, APNS_TOKEN, "PRIVATE KEY") if each in finished.err]
        return finished.err.splitlines()[-1]  # after what the log says

    assert "No client is registered" in await said("--topic", TOPIC)
    assert "--topic" in await said()
    await push.register(type="apns", token=APNS_TOKEN)
    services.next_answer("apns", "failing")
    assert "503" in await said("--topic", TOPIC)
    await push.register(type="fcm", token=FCM_TOKEN)
    services.fcm.token_script.append(fcm_service.answered(400, {"error": "invalid_grant"}))
    assert "invalid_grant" in await said("--topic", TOPIC)
    assert len(push.registrations()) == 1
    services.next_answer("fcm", "dead")
    assert (await said("--topic", TOPIC)).startswith("bridge-server: ")
    assert push.registrations() == push.webhooks() == []


@pytest.fixture
def operating(invoke: Invoke, tmp_path: Path) -> Operating:
    """On a database with four devices of one account."""
    operating = Operating(invoke, tmp_path / "data")
    operating.text("project", "create", "App")
    with database_of(settings_over(operating.data_dir)) as database:
        for statement in (_ACCOUNT, _DEVICES, _MESSAGES):
            database.changed(statement)
    return operating


def test_every_device_has_a_line_and_none_an_address(operating: Operating) -> None:
    text = operating.text("device", "list", ETHEREUM)
    header, *lines, last = [
        [cell.strip() for cell in line.split("  ") if cell.strip()] for line in text.splitlines()
    ]

    assert header == ["device", "channel", "state", "queued", "last delivered", "last error"]
    assert lines == [
        ["first", "fcm", "new", "0", "-", "-"],
        ["second", "apns", "delivered", "0", "1970-01-01T00:00:05.000Z", "-"],
        ["third", "webhook", "failed", "0", "1970-01-01T00:00:05.000Z", "it answered 413"],
        ["fourth", "log", "queued", "2", "-", "it answered 503"],
    ]
    assert last == [f"no server runs on {operating.data_dir}: queued messages wait for one"]
    assert "secret-token" not in text
    devices = operating.json("device", "list", ETHEREUM.lower())["devices"]
    assert [device["id"] for device in devices] == ["first", "second", "third", "fourth"]
    assert devices[2] == {
        "id": "third", "channel": "webhook", "created_at": "1970-01-01T00:00:03.000Z", "state": "failed",
        "queued": 0, "delivered_at": "1970-01-01T00:00:05.000Z", "failed_at": "1970-01-01T00:00:06.000Z",
        "error": "it answered 413",
    }  # fmt: skip
    assert operating.json("device", "list", account(1)) == {"devices": []}
    assert "nobody" not in operating.refusal("device", "list", "nobody")


async def test_a_failing_provider_is_reported(operating: Operating, receiver: WebhookReceiver) -> None:
    async def told(url: str) -> str:
        (operating.data_dir / "server.json").write_text(json.dumps({"url": url}))
        return await asyncio.to_thread(operating.text, "device", "list", account(1))

    receiver.otherwise = saying(b"ready\nbut pushes by fcm have stopped: the key is revoked\n")
    with server_process(operating.data_dir):
        quiet = await asyncio.to_thread(operating.text, "device", "list", account(1))
    assert quiet == f"{account(1)} has no devices\n"
    with held(operating.data_dir):
        silent = "the server at http://127.0.0.1:9 does not answer\n"
        assert await told("http://127.0.0.1:9") == f"{quiet}{silent}"
        stopped = "pushes by fcm have stopped: the key is revoked\n"
        assert await told(receiver.url("")) == f"{quiet}{stopped}"
