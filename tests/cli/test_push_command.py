"""`push test`: one push beside a server, and what the provider says to it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from bridge_server.kernel.clock import SystemClock
from tests.cli.conftest import Invoke
from tests.support import fcm_service
from tests.support.clock import ManualClock
from tests.support.command import Finished, run_command
from tests.support.push_client import TOPIC, PushClient
from tests.support.push_services import APNS_TOKEN, FCM_TOKEN, PushServices, running_push_services
from tests.support.rows import each_row
from tests.support.server import running_server


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
    return await asyncio.to_thread(
        run_command,
        "push",
        "test",
        "--data-dir",
        push.server.settings.data_dir,
        *arguments,
        environment=services.environment,
    )


@each_row("channel", ["fcm", "apns", "webpush", "webhook"])
async def test_the_device_gets_a_push(push: PushClient, services: PushServices, channel: str) -> None:
    await push.register(type=channel, token=services.token(channel), language="sv")

    finished = await push_test(push, services, "--topic", TOPIC)

    answered = 201 if channel == "webpush" else 200
    told = f"the provider took it and answered {answered}\n"
    assert (finished.exit_code, finished.out, finished.err) == (0, told, "")
    (shown,) = services.shown(channel)
    assert shown.body == "Ny förfrågan från Dapp"


async def test_json_is_all_that_it_prints(push: PushClient, services: PushServices) -> None:
    await push.register(type="log")

    finished = await push_test(push, services, "--topic", TOPIC, "--json")

    assert finished.exit_code == 0
    assert orjson.loads(finished.out) == {"success": True, "status": None}
    assert "New request from Dapp" in finished.err


async def test_a_dead_token_is_said_and_unregistered(push: PushClient, services: PushServices) -> None:
    await push.register(type="fcm", token=FCM_TOKEN)
    services.next_answer("fcm", "dead")

    finished = await push_test(push, services, "--topic", TOPIC)

    assert (finished.exit_code, finished.out) == (2, "")
    (line,) = finished.err.splitlines()
    assert line.startswith("bridge-server: ")
    assert FCM_TOKEN not in finished.err
    assert push.registrations() == push.webhooks() == []


async def test_refused_credentials_are_said(push: PushClient, services: PushServices) -> None:
    await push.register(type="fcm", token=FCM_TOKEN)
    services.fcm.token_script.append(fcm_service.answered(400, {"error": "invalid_grant"}))

    finished = await push_test(push, services, "--topic", TOPIC)

    assert (finished.exit_code, finished.out) == (2, "")
    assert "invalid_grant" in finished.err.splitlines()[-1]
    assert "PRIVATE KEY" not in finished.err
    assert len(push.registrations()) == 1


async def test_a_provider_that_fails_is_said(push: PushClient, services: PushServices) -> None:
    await push.register(type="apns", token=APNS_TOKEN)
    services.next_answer("apns", "failing")

    finished = await push_test(push, services, "--topic", TOPIC)

    assert (finished.exit_code, finished.out) == (2, "")
    *_, line = finished.err.splitlines()  # after what the log says of it
    assert "503" in line
    assert APNS_TOKEN not in finished.err


async def test_topic_without_registration_is_reported(push: PushClient, services: PushServices) -> None:
    finished = await push_test(push, services, "--topic", "another")

    assert (finished.exit_code, finished.out) == (2, "")
    assert len(finished.err.splitlines()) == 1
    assert "No client is registered" in finished.err


async def test_the_topic_is_needed(push: PushClient, services: PushServices) -> None:
    finished = await push_test(push, services)

    assert finished.exit_code == 2
    assert "--topic" in finished.err


def test_a_data_directory_that_cannot_be_is_said(tmp_path: Path, invoke: Invoke) -> None:
    file = tmp_path / "file"
    file.touch()

    finished = invoke("push", "test", "--topic", TOPIC, "--data-dir", file / "data")

    assert (finished.exit_code, finished.stdout) == (2, "")
    (line,) = finished.stderr.splitlines()
    assert str(file) in line


def test_a_data_directory_that_is_not_there_is_said_and_not_made(tmp_path: Path, invoke: Invoke) -> None:
    finished = invoke("push", "test", "--topic", TOPIC, "--data-dir", tmp_path / "data")

    assert (finished.exit_code, finished.stdout) == (2, "")
    (line,) = finished.stderr.splitlines()
    assert "there is no database" in line
    assert not (tmp_path / "data").exists()
