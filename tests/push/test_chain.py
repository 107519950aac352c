"""From a dapp's call to the wallet's device, over restarts and kills, and through another bridge.

White-box: no client can make a store fail, or lose a write, at this moment.
"""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox.models import DueMessage
from bridge_server.outbox.store import OutboxStore
from bridge_server.push.models import OWN_CHANNEL
from bridge_server.push.store import PushStore
from tests.support.asking import METRICS_TOKEN, until_delivered
from tests.support.clock import ManualClock
from tests.support.inbox_client import sign_in
from tests.support.project import execute, look, opened_app, until_tried
from tests.support.push_client import PushClient
from tests.support.push_services import FCM_TOKEN, SERVICES, PushServices, running_push_services
from tests.support.rows import each_row
from tests.support.server import RunningServer, reached, running_server, server_process
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, status

SETTINGS: dict[str, Any] = {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}


def notices(receiver: WebhookReceiver) -> list[tuple[str, str]]:
    """Which topics were told, and in which words."""
    bodies = [orjson.loads(request.body) for request in receiver.requests]
    return [(body["topic"], body["body"]) for body in bodies]


async def until_postponed(server: RunningServer, reason: str) -> None:
    """Return once the one message in the outbox has failed once, for this reason."""
    sql = "SELECT attempts, last_error FROM outbox"
    await eventually(lambda: look(server, sql) == [(1, reason)])


@each_row("channel", SERVICES)
async def test_a_call_reaches_the_device(connected: PushClient, services: PushServices, channel: str) -> None:
    topic = await connected.server.open_session()
    await connected.register(topic=topic, type=channel, token=services.token(channel), language="it")

    await connected.server.request_call(topic)
    await services.got(channel, 1)
    await until_delivered(connected.server)

    (shown,) = services.shown(channel)
    assert (shown.title, shown.body) == ("Dapp", "Nuova richiesta da Dapp")
    assert look(connected.server, "SELECT * FROM outbox") == []


@pytest.fixture
async def topic(push: PushClient, receiver: WebhookReceiver) -> str:
    """A session whose calls are pushed to the receiver."""
    session_id = await push.server.open_session()
    await push.register(topic=session_id, type="webhook", token=receiver.url())
    return session_id


async def test_each_call_is_pushed_once(push: PushClient, receiver: WebhookReceiver, topic: str) -> None:
    other = await push.server.open_session()

    for session_id in (topic, other, topic):
        await push.server.request_call(session_id)
    await receiver.got(2)
    await until_delivered(push.server)

    assert [told for told, _ in notices(receiver)] == [topic, topic]
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 2

    receiver.otherwise = status(410)
    for _ in range(2):
        await push.server.request_call(topic)
        await receiver.got(3)
        await until_delivered(push.server)

    assert push.registrations() == push.webhooks() == []
    assert len(receiver.requests) == 3


async def test_the_session_ends_its_pushes(push: PushClient, receiver: WebhookReceiver, topic: str) -> None:
    async with push.server.client.delete(f"{push.server.url}/session/{topic}") as response:
        assert response.status == 200
    assert push.webhooks() == []


async def test_an_expired_registration(push: PushClient, receiver: WebhookReceiver, topic: str) -> None:
    execute(push.server, "UPDATE push_registrations SET expires_at_ms = 0")

    await push.server.request_call(topic)
    await until_delivered(push.server)

    assert receiver.requests == []
    assert look(push.server, "SELECT count(*) FROM outbox") == [(0,)]  # no dead letter either

    execute(push.server, f"UPDATE push_registrations SET expires_at_ms = {push.clock.now_ms() + 60_000}")
    await push.server.request_call(topic)
    await receiver.got(1)


async def test_a_database_that_cannot_take_the_push_now_gets_it_later(
    push: PushClient, receiver: WebhookReceiver, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    attempts = []

    async def refuse(*arguments: object) -> None:
        attempts.append(arguments)
        raise UnavailableError("the disk is full")

    with monkeypatch.context() as patch:
        patch.setattr(PushStore, "queue", refuse)
        await push.server.request_call(topic)
        await until_postponed(push.server, "the disk is full")
        assert len(attempts) == 1
    push.clock.advance(60)
    await receiver.got(1)


async def test_a_call_at_another_bridge_reaches_the_device_under_its_id_until_the_device_is_gone(
    tmp_path: Path, clock: ManualClock, push: PushClient, receiver: WebhookReceiver
) -> None:
    receiver.script.append(status(500))
    async with running_server(tmp_path / "bridge elsewhere", clock, **SETTINGS) as bridge:
        topic = await bridge.open_session()
        answer = await push.register(
            bridge=bridge.url, topic=topic, type="webhook", token=receiver.url(), language="es"
        )
        assert (answer.status, answer.body) == (200, b'{"success":true}')

        await bridge.request_call(topic)
        await receiver.got(1)
        await until_postponed(bridge, "the receiver answered 502")
        clock.advance(60)
        await receiver.got(2)
        await until_delivered(bridge)

        assert notices(receiver) == [(topic, "Nueva solicitud de Dapp")] * 2
        assert len({request.headers["webhook-id"] for request in receiver.requests}) == 1
        assert look(bridge, "SELECT webhook FROM topic_webhooks") == [(f"{push.server.url}/push",)]
        assert push.webhooks() == []

        receiver.otherwise = status(410)
        await bridge.request_call(topic)
        await receiver.got(3)
        await until_delivered(bridge)

        assert look(bridge, "SELECT webhook FROM topic_webhooks") == []
    assert push.registrations() == []


async def test_many_registrations_that_were_answered_survive_a_kill(tmp_path: Path) -> None:
    answered = []
    with server_process(tmp_path / "data") as process:
        async with reached(process) as server:
            push = PushClient(server)

            async def register(number: int) -> None:
                if (await push.register(topic=f"topic {number}")).status == 200:
                    answered.append(f"topic {number}")
                    if len(answered) == 150:
                        process.kill()

            await asyncio.gather(*(register(number) for number in range(400)), return_exceptions=True)

        process.start()
        async with reached(process) as server:
            statuses = {(await PushClient(server).push(topic)).status for topic in answered}

    assert len(answered) >= 150
    assert statuses == {200}


async def test_pushes_that_were_under_way_come_again_under_their_ids(tmp_path: Path) -> None:
    async with running_push_services(tmp_path, SystemClock()) as services:  # the other process has that clock
        for channel in ("fcm", "webhook"):
            services.next_answer(channel, "hanging")
        with server_process(tmp_path / "data", environment=services.environment) as process:
            async with reached(process) as server, opened_app(server) as app:
                topic, inbox = await server.open_session(), await sign_in(server)
                webhook = services.token("webhook")
                await PushClient(server).register(topic=topic, type="webhook", token=webhook)
                await inbox.subscribe(app.project_id)
                await inbox.add_device("fcm", FCM_TOKEN)
                await server.request_call(topic)
                await app.notify([inbox.account])
                for channel in ("fcm", "webhook"):
                    await services.got(channel, 1)
                await eventually(lambda: look(server, "SELECT attempts FROM outbox") == [(0,), (0,)])
            process.kill()
            process.start()

            for channel in ("fcm", "webhook"):
                first, again = await services.got(channel, 2)
                assert first == again


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


async def test_a_provider_is_left_out(tmp_path: Path, clock: ManualClock, services: PushServices) -> None:
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
    async with running_server(data_dir, clock, **SETTINGS) as server:
        await until_tried(server, 2)
        left_out = look(server, "SELECT last_error, died_at_ms FROM outbox")
    assert left_out == [("pushes by fcm are not configured", None)]

    clock.advance(3_600)
    async with running_server(data_dir, clock, **services.settings):
        first, second = await services.got("fcm", 2)
    assert first == second
