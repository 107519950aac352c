"""Generation 1.x: what waits for a subscriber, for how long, and which webhooks hear of it.

White-box: how long a locked file is waited for has no setting.
"""

from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.pubsub.conftest import Connect, opened
from tests.support.asking import METRICS_TOKEN, until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.inbox_client import count_stored, until_stored
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server, server_process
from tests.support.socket_client import connected, spelled
from tests.support.waiting import locked
from tests.support.webhook_receiver import WebhookReceiver

_DAY = 86_400
_MS = 0.001


async def test_a_message_waits_for_a_day(connect: Connect, server: RunningServer) -> None:
    dapp, receiving, wallet = await connect(), await connect(), await connect()
    await receiving.subscribe("acknowledged by nobody")
    for topic in ("acknowledged by nobody", "one", "other"):
        await dapp.publish(topic, "payload")
    server.clock.advance(_DAY - _MS)
    await wallet.subscribe("one")
    server.clock.advance(_MS)
    await wallet.subscribe("acknowledged by nobody", "other")

    assert await wallet.payloads(1) == ["payload"]


async def test_waiting_messages_survive_a_restart_in_their_order(tmp_path: Path) -> None:
    async with running_server(tmp_path) as server, connected(server.client, server.url) as dapp:
        await dapp.publish("topic", "one", "two")
    async with running_server(tmp_path) as server, connected(server.client, server.url) as dapp:
        await dapp.publish("topic", "three")
        async with connected(server.client, server.url) as wallet:
            await wallet.subscribe("topic")
            assert await wallet.payloads(3) == ["one", "two", "three"]
            await wallet.acknowledge("topic", times=2)
    async with running_server(tmp_path) as server, connected(server.client, server.url) as wallet:
        await wallet.subscribe("topic")

        assert await wallet.payloads(1) == ["three"]


async def test_messages_before_an_answered_ping_or_close_frame_survive_a_kill(tmp_path: Path) -> None:
    waited = [f"waits {number}" for number in range(300)]
    async with aiohttp.ClientSession() as client:
        with server_process(tmp_path / "data") as process:
            async with connected(client, process.url) as wallet, connected(client, process.url) as dapp:
                await wallet.subscribe("live")
                for payload in waited:
                    await dapp.say("nobody", "pub", payload)
                await dapp.publish("live", "acknowledged", "not acknowledged")
                await wallet.acknowledge("live")
                async with connected(client, process.url) as other:
                    await other.say("goodbye", "pub", "last words")
                process.kill()
            process.start()
            async with connected(client, process.url) as wallet:
                await wallet.subscribe("nobody", "live", "goodbye")

                assert await wallet.payloads(302) == [*waited, "not acknowledged", "last words"]


@each_row("limit", ["max_topic_messages", "max_topic_bytes", "max_address_messages", "max_address_bytes"])
async def test_so_much_of_a_topic_and_of_an_address_waits(tmp_path: Path, limit: str) -> None:
    payloads = ["x" * 500, "y" * 500]
    most = 2 if "messages" in limit else 2 * len(spelled("topic", "pub", payloads[0]))
    settings: dict[str, Any] = {limit: most}
    async with opened(tmp_path, ["192.0.2.1", "192.0.2.2"], **settings) as (_, (dapp, other)):
        await dapp.publish("topic", *payloads)
        await dapp.say("topic", "pub", "")
        code, reason = await dapp.closed()
        await other.publish("another topic", "there is room")

        whose = "the topic" if "topic" in limit else "your address"
        assert (code, f"{whose} has as much waiting" in reason) == (1013, True)
        await other.subscribe("topic")
        assert await other.payloads(2) == payloads


async def test_unacknowledged_messages_count_to_the_limit_of_their_topic(tmp_path: Path) -> None:
    async with opened(tmp_path, 3, max_topic_messages=3) as (_, (dapp, other, wallet)):
        await wallet.subscribe("topic")
        await dapp.publish("topic", "1", "2", "3")
        await dapp.say("topic", "pub", "4")
        assert (await dapp.closed())[0] == 1013
        await wallet.acknowledge("topic")
        await other.publish("topic", "5")

        assert await wallet.payloads(4) == ["1", "2", "3", "5"]


async def test_expired_messages_do_not_count_to_a_limit(tmp_path: Path) -> None:
    async with opened(tmp_path, 2, max_topic_messages=1, message_ttl=60) as (server, (dapp, wallet)):
        await wallet.subscribe("live")
        await dapp.publish("nobody", "old")
        await dapp.publish("live", "old")
        server.clock.advance(60)
        await dapp.publish("nobody", "new")
        await dapp.publish("live", "new")
        await wallet.subscribe("nobody")

        assert await wallet.payloads(3) == ["old", "new", "new"]


async def test_messages_of_one_commit_are_counted_together(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"max_topic_messages": 3, "max_address_messages": 5}
    async with opened(tmp_path, ["192.0.2.1", "192.0.2.2"], **limits) as (_, (dapp, wallet)):
        for topic in "aaaabbbb":
            await dapp.say(topic, "pub")
        assert (await dapp.closed())[0] == 1013

        await wallet.subscribe("a", "b")
        assert [(await wallet.message())["topic"] for _ in range(5)] == [*"aaabb"]
        await wallet.nothing()


async def test_expired_messages_are_swept(tmp_path: Path) -> None:
    async with opened(tmp_path, 1, sweep_interval=0.01, message_ttl=60) as (server, (dapp,)):
        await dapp.publish("topic", "one", "two")
        assert count_stored(server.settings) == 2
        server.clock.advance(60)

        await until_stored(server.settings, messages=0)


@pytest.mark.sqlite("another program locks the file")
async def test_a_database_locked_for_long_closes_the_socket_with_1013_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("bridge_server.pubsub.v1_store.PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("bridge_server.pubsub.v1_store._RETRY_SECONDS", 0.01)
    async with opened(tmp_path, 2) as (server, (dapp, wallet)):
        with locked(server.settings.database_file):
            await dapp.say("topic", "pub", "payload")
            await dapp.socket.ping()
            assert await dapp.closed() == (1013, "Messages cannot be stored. Try again shortly.")
        await wallet.subscribe("topic")

        assert await wallet.payloads(1) == ["payload"]


NOTICE = b'{"topic":"topic"}'


@each_row("somebody_is_there", [True, False], empties=True)
async def test_each_webhook_gets_one_notice_of_each_message_that_is_not_silent(
    connect: Connect, server: RunningServer, receiver: WebhookReceiver, somebody_is_there: bool
) -> None:
    dapp, wallet, bridge = await connect(), await connect(), BridgeClient(server)
    receiver.requests.clear()
    if somebody_is_there:
        await wallet.subscribe("topic")
    for topic, path in (("topic", "/one"), ("topic", "/two"), ("other", "/other")):
        await bridge.subscribe(topic, receiver.url(path))

    await dapp.publish("topic", "first", silent=False)
    await dapp.socket.send_str('{"topic":"topic","type":"pub","payload":"is not said to be silent"}')
    await dapp.publish("topic", "payload", silent=True)
    await wallet.say("topic", "sub", silent=False)
    await wallet.say("topic", "ack", silent=False)
    await wallet.settled()

    await until_delivered(server)
    told = sorted((request.path, request.body) for request in receiver.requests)
    assert told == [("/one", NOTICE)] * 2 + [("/two", NOTICE)] * 2


async def test_a_refused_message_causes_no_notice(tmp_path: Path, receiver: WebhookReceiver) -> None:
    settings: dict[str, Any] = {
        "metrics_token": METRICS_TOKEN, "allow_private_webhooks": True, "max_topic_messages": 1,
    }  # fmt: skip
    async with opened(tmp_path, 1, **settings) as (server, (dapp,)):
        await BridgeClient(server).subscribe("topic", receiver.url())
        await dapp.publish("topic", "taken", silent=False)
        await dapp.say("topic", "pub", "refused", silent=False)
        await dapp.closed()

        await until_delivered(server)
        assert [request.body for request in receiver.requests] == [NOTICE]


async def test_a_notice_counts_to_the_address_that_the_message_came_from_and_to_its_topic(
    tmp_path: Path,
) -> None:
    addresses = ["198.51.100.7", "192.0.2.77"]
    async with opened(tmp_path, addresses, quota_exempt="192.0.2.77") as (server, dapps):
        await BridgeClient(server).subscribe("topic", "http://192.0.2.1:9/hook")
        for dapp in dapps:
            await dapp.publish("topic", "message", silent=False)
        whose = look(server, "SELECT client, subject, queue FROM outbox ORDER BY id")

    assert whose == [("198.51.100.7", "topic", "topic"), (None, "topic", "topic")]


async def test_notices_to_webhooks_are_charged_to_the_publisher(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"quota_exempt": (), "payload_bytes_per_address": 1_000}
    async with opened(tmp_path, 1, **limits) as (server, (dapp,)):
        await BridgeClient(server).subscribe("topic", f"https://example.org/{'x' * 400}")
        await dapp.publish("topic", "first", "second", silent=False)
        await dapp.say("topic", "pub", "third", silent=False)

        code, reason = await dapp.closed()
        assert (code, "your address has as much waiting" in reason) == (1013, True)
