"""What waits for a subscriber: for how long, how much of it, and through what."""

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.pubsub.conftest import Connect
from tests.support.clock import ManualClock
from tests.support.locks import locked
from tests.support.server import RunningServer, running_server, server_process
from tests.support.socket_client import SocketClient, connected, spelled
from tests.support.stored_messages import count_stored, until_stored

_DAY = 86_400
_MS = 0.001


async def test_a_message_waits_for_a_day(connect: Connect, server: RunningServer) -> None:
    dapp, wallet = await connect(), await connect()
    await dapp.publish("one", "payload")
    await dapp.publish("other", "payload")

    server.clock.advance(_DAY - _MS)
    await wallet.subscribe("one")
    server.clock.advance(_MS)
    await wallet.subscribe("other")

    assert await wallet.payloads(1) == ["payload"]


async def test_an_unacknowledged_message_is_not_sent_after_it_has_expired(
    connect: Connect, server: RunningServer
) -> None:
    dapp, one, other = await connect(), await connect(), await connect()
    await one.subscribe("topic")
    await dapp.publish("topic", "payload")

    server.clock.advance(_DAY)
    await other.subscribe("topic")

    await other.nothing()


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


async def test_unacknowledged_messages_survive_a_stop(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as wallet,
    ):
        await wallet.subscribe("topic")
        for number in range(50):
            await dapp.say("topic", "pub", str(number))
        await wallet.message()
        await wallet.acknowledge("topic")
    async with running_server(tmp_path) as server, connected(server.client, server.url) as wallet:
        await wallet.subscribe("topic")

        assert await wallet.payloads(49) == [str(number) for number in range(1, 50)]


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
        with server_process(tmp_path / "data") as process:
            async with connected(client, process.url) as wallet:
                await wallet.subscribe("nobody", "live", "goodbye")

                assert await wallet.payloads(302) == [*waited, "not acknowledged", "last words"]


async def test_the_waiting_messages_of_a_topic_are_limited(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, max_topic_messages=3) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as other,
    ):
        await dapp.publish("topic", "1", "2", "3")
        await dapp.say("topic", "pub", "4")
        code, reason = await dapp.closed()
        await other.publish("other topic", "there is room")

        assert (code, "the topic has as much waiting" in reason) == (1013, True)
        await other.subscribe("topic", "other topic")
        assert await other.payloads(3) == ["1", "2", "3"]


async def test_unacknowledged_messages_count_to_the_limit_of_their_topic(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, max_topic_messages=3) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as other,
        connected(server.client, server.url) as wallet,
    ):
        await wallet.subscribe("topic")
        await dapp.publish("topic", "1", "2", "3")
        await dapp.say("topic", "pub", "4")
        assert (await dapp.closed())[0] == 1013

        await wallet.acknowledge("topic")
        await other.publish("topic", "5")

        assert await wallet.payloads(4) == ["1", "2", "3", "5"]


async def test_the_waiting_bytes_of_a_topic_are_limited(tmp_path: Path) -> None:
    message = spelled("topic", "pub", "x" * 100)
    async with (
        running_server(tmp_path, max_topic_bytes=2 * len(message)) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as wallet,
    ):
        await dapp.publish("topic", "x" * 100, "x" * 100)
        await dapp.say("topic", "pub", "")
        assert (await dapp.closed())[0] == 1013

        await wallet.subscribe("topic")

        assert await wallet.payloads(2) == ["x" * 100] * 2


async def test_expired_messages_do_not_count_to_a_limit(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, clock, max_topic_messages=1, message_ttl=60) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as wallet,
    ):
        await wallet.subscribe("live")
        await dapp.publish("nobody", "old")
        await dapp.publish("live", "old")
        clock.advance(60)

        await dapp.publish("nobody", "new")
        await dapp.publish("live", "new")
        await wallet.subscribe("nobody")

        assert await wallet.payloads(3) == ["old", "new", "new"]


async def published_from(server: RunningServer, address: str, topic: str, payload: str = "") -> SocketClient:
    """A socket from behind the proxy that has published something."""
    headers = {"X-Forwarded-For": address}
    socket = SocketClient(
        await server.client.ws_connect(server.url, headers=headers, autoping=False, autoclose=False)
    )
    await socket.say(topic, "pub", payload)
    return socket


async def test_the_waiting_messages_of_an_address_are_limited(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, max_address_messages=2, quota_exempt="", trusted_proxies="127.0.0.1"
    ) as server:
        for topic in ("a", "b"):
            await (await published_from(server, "192.0.2.1", topic)).settled()
        refused = await published_from(server, "192.0.2.1", "c")
        await (await published_from(server, "192.0.2.2", "d")).settled()

        code, reason = await refused.closed()

        assert (code, "your address has as much waiting" in reason) == (1013, True)


async def test_messages_of_one_commit_are_counted_together(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, max_topic_messages=3, max_address_messages=5, quota_exempt="", trusted_proxies="127.0.0.1"
    ) as server:
        headers = {"X-Forwarded-For": "192.0.2.1"}
        async with connected(server.client, server.url, headers=headers) as dapp:
            for topic in "aaaabbbb":
                await dapp.say(topic, "pub")
            assert (await dapp.closed())[0] == 1013

        async with connected(server.client, server.url) as wallet:
            await wallet.subscribe("a", "b")
            topics = [(await wallet.message())["topic"] for _ in range(5)]
            await wallet.nothing()

    assert topics == [*"aaabb"]


async def test_the_waiting_bytes_of_an_address_are_limited(tmp_path: Path) -> None:
    async with running_server(
        tmp_path, max_address_bytes=1_000, quota_exempt="", trusted_proxies="127.0.0.1"
    ) as server:
        await (await published_from(server, "192.0.2.1", "a", "x" * 500)).settled()
        refused = await published_from(server, "192.0.2.1", "b", "x" * 500)

        assert (await refused.closed())[0] == 1013


async def test_expired_messages_are_swept(tmp_path: Path) -> None:
    clock = ManualClock()
    async with (
        running_server(tmp_path, clock, sweep_interval=0.01, message_ttl=60) as server,
        connected(server.client, server.url) as dapp,
    ):
        await dapp.publish("topic", "one", "two")
        assert count_stored(server.settings) == 2

        clock.advance(60)

        await until_stored(server.settings, messages=0)


@pytest.mark.sqlite("several processes have the disk as their queue")
async def test_a_message_that_is_acknowledged_at_once_never_touches_the_disk(
    connect: Connect, server: RunningServer
) -> None:
    dapp, wallet = await connect(), await connect()
    await wallet.subscribe("topic")

    for number in range(20):
        await dapp.say("topic", "pub", str(number))
        await wallet.message()
        await wallet.say("topic", "ack")
    await wallet.settled()

    assert count_stored(server.settings) == 0


@pytest.mark.sqlite("another program locks the file")
async def test_a_locked_database_delays_messages_and_loses_none(
    connect: Connect, server: RunningServer
) -> None:
    dapp, wallet = await connect(), await connect()

    with locked(server.settings.database_file):
        for number in range(10):
            await dapp.say("topic", "pub", str(number))
        await asyncio.sleep(0)
    await dapp.settled()

    await wallet.subscribe("topic")
    assert await wallet.payloads(10) == [str(number) for number in range(10)]


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up soon what cannot be stored."""
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("bridge_server.pubsub.v1_store._PATIENCE_SECONDS", 0.5)
    monkeypatch.setattr("bridge_server.pubsub.v1_store._RETRY_SECONDS", 0.01)


@pytest.mark.sqlite("another program locks the file")
async def test_a_database_locked_for_long_closes_the_socket_with_1013_and_loses_nothing(
    impatient: None, tmp_path: Path
) -> None:
    async with (
        running_server(tmp_path) as server,
        connected(server.client, server.url) as dapp,
        connected(server.client, server.url) as wallet,
    ):
        with locked(server.settings.database_file):
            await dapp.say("topic", "pub", "payload")
            await dapp.socket.ping()
            code, reason = await dapp.closed()
        await wallet.subscribe("topic")

        assert (code, reason) == (1013, "Messages cannot be stored. Try again shortly.")
        assert await wallet.payloads(1) == ["payload"]
