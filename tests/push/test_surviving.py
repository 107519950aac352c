"""A registration that was answered 200, and a push that is owed, outlive the process."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kernel.clock import SystemClock
from bridge_server.outbox.models import DueMessage
from bridge_server.outbox.store import OutboxStore
from bridge_server.push.service import OWN_CHANNEL
from tests.inbox.processes import reached
from tests.support import fcm_service
from tests.support.clock import ManualClock
from tests.support.figures import METRICS_TOKEN
from tests.support.inbox_client import sign_in
from tests.support.project import look, opened_app, until_tried
from tests.support.push_client import PushClient
from tests.support.push_services import FCM_TOKEN, PushServices, running_push_services
from tests.support.server import running_server, server_process
from tests.support.webhook_receiver import WebhookReceiver, hang


@pytest.fixture
async def live_services(tmp_path: Path) -> AsyncIterator[PushServices]:
    """Push services on the machine's clock, which a server in another process uses too."""
    async with running_push_services(tmp_path, SystemClock()) as services:
        yield services


async def test_a_registration_survives_a_restart(tmp_path: Path, receiver: WebhookReceiver) -> None:
    async with running_server(tmp_path / "data", allow_private_webhooks=True) as server:
        topic = await server.open_session()
        await PushClient(server).register(topic=topic, type="webhook", token=receiver.url())

    async with running_server(tmp_path / "data", allow_private_webhooks=True) as server:
        assert (await PushClient(server).push(topic)).status == 200
        await server.request_call(topic)
        await receiver.got(2)


async def test_a_registration_that_was_answered_survives_a_kill(
    tmp_path: Path, live_services: PushServices
) -> None:
    data_dir, environment = tmp_path / "data", live_services.environment
    with server_process(data_dir, environment=environment) as process:
        async with reached(process) as server:
            answer = await PushClient(server).register(type="fcm", token=FCM_TOKEN)
        process.kill()

    with server_process(data_dir, environment=environment) as process:
        async with reached(process) as server:
            pushed = await PushClient(server).push()

    assert (answer.status, pushed.status) == (200, 200)
    assert len(live_services.shown("fcm")) == 1


async def test_many_registrations_that_were_answered_survive_a_kill(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    answered = []
    with server_process(data_dir) as process:
        async with reached(process) as server:
            push = PushClient(server)

            async def register(number: int) -> None:
                if (await push.register(topic=f"topic {number}")).status == 200:
                    answered.append(f"topic {number}")
                    if len(answered) == 150:
                        process.kill()

            await asyncio.gather(*(register(number) for number in range(400)), return_exceptions=True)

    with server_process(data_dir) as process:
        async with reached(process) as server:
            push = PushClient(server)
            statuses = {(await push.push(topic)).status for topic in answered}

    assert len(answered) >= 150
    assert statuses == {200}


async def test_a_push_of_a_call_that_was_under_way_comes_again_under_its_id(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    data_dir, environment = tmp_path / "data", {"BRIDGE_ALLOW_PRIVATE_WEBHOOKS": "yes"}
    receiver.script.append(hang)
    with server_process(data_dir, environment=environment) as process:
        async with reached(process) as server:
            topic = await server.open_session()
            await PushClient(server).register(topic=topic, type="webhook", token=receiver.url())
            await server.request_call(topic)
            await receiver.got(1)
        process.kill()

    with server_process(data_dir, environment=environment):
        await receiver.got(2)

    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
    assert len({request.body for request in receiver.requests}) == 1


async def test_a_notice_of_the_own_bridge_that_is_taken_twice_is_pushed_under_one_id(
    tmp_path: Path, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete_delivered = OutboxStore.delete_delivered

    async def delete_others(
        store: OutboxStore, messages: Sequence[DueMessage], now_ms: int, answering: Sequence[str]
    ) -> None:
        others = [due for due in messages if due.message.channel != OWN_CHANNEL]
        await delete_delivered(store, others, now_ms, answering)

    with monkeypatch.context() as patch:
        patch.setattr(OutboxStore, "delete_delivered", delete_others)
        async with running_server(tmp_path / "data", allow_private_webhooks=True) as server:
            topic = await server.open_session()
            await PushClient(server).register(topic=topic, type="webhook", token=receiver.url())
            await server.request_call(topic)
            await receiver.got(1)

    async with running_server(tmp_path / "data", allow_private_webhooks=True):
        await receiver.got(2)

    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1


async def test_a_notification_to_a_device_that_was_under_way_comes_again_under_its_id(
    tmp_path: Path, live_services: PushServices
) -> None:
    data_dir, environment = tmp_path / "data", live_services.environment
    live_services.fcm.script.append(fcm_service.hang)
    with server_process(data_dir, environment=environment) as process:
        async with reached(process) as server, opened_app(server) as app:
            inbox = await sign_in(server)
            await inbox.subscribe(app.project_id)
            await inbox.add_device("fcm", FCM_TOKEN)
            await app.notify([inbox.account])
            await live_services.got("fcm", 1)
            assert look(server, "SELECT attempts FROM outbox") == [(0,)]
        process.kill()

    with server_process(data_dir, environment=environment):
        shown = await live_services.got("fcm", 2)

    assert len(set(shown)) == 1


async def test_a_provider_that_is_left_out_for_a_while_loses_nothing(
    tmp_path: Path, clock: ManualClock, services: PushServices
) -> None:
    without: dict[str, Any] = {"allow_private_webhooks": True, "metrics_token": METRICS_TOKEN}
    data_dir = tmp_path / "data"
    services.next_answer("fcm", "failing")
    async with running_server(data_dir, clock, **services.settings) as server, opened_app(server) as app:
        inbox = await sign_in(server)
        await inbox.subscribe(app.project_id)
        await inbox.add_device("fcm", FCM_TOKEN)
        await app.notify([inbox.account])
        await services.got("fcm", 1)
        await until_tried(server, 1)

    clock.advance(60)
    async with running_server(data_dir, clock, **without) as server:
        await until_tried(server, 2)
        left_out = look(server, "SELECT last_error, died_at_ms FROM outbox")

    clock.advance(3_600)
    async with running_server(data_dir, clock, **services.settings):
        first, second = await services.got("fcm", 2)

    assert left_out == [("pushes by fcm are not configured", None)]
    assert first == second
