"""How sockets are kept and how they end, and what the metrics tell."""

import asyncio
import sqlite3
from contextlib import AsyncExitStack, ExitStack, closing
from pathlib import Path

import aiohttp
import pytest

from bridge_server.kernel.background import running
from bridge_server.web.sockets import MOST_BUFFERED_BYTES
from tests.pubsub.irn.conftest import Join
from tests.support.eventually import eventually
from tests.support.figures import METRICS_TOKEN, figure
from tests.support.irn_client import Identity, RelayError, irn_connected, topic_of
from tests.support.locks import locked
from tests.support.server import RunningServer, running_server

TOPIC = topic_of("topic")


async def until_open(server: RunningServer, sockets: int, topics: int) -> None:
    async def reached() -> bool:
        return (await figure(server, "sockets"), await figure(server, "socket_topics")) == (sockets, topics)

    await eventually(reached)


async def test_sockets_and_topics_are_counted_and_forgotten(join: Join, server: RunningServer) -> None:
    one, two = await join(), await join()
    await one.subscribe(TOPIC, topic_of("other"))
    await two.subscribe(TOPIC)
    await until_open(server, 2, 2)

    await one.socket.close()
    await until_open(server, 1, 1)
    await two.socket.close()

    await until_open(server, 0, 0)


async def test_a_socket_is_pinged_and_a_dead_one_is_given_up(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, heartbeat=1.0, metrics_token=METRICS_TOKEN) as server,
        irn_connected(server.client, server.url, Identity()) as alive,
        irn_connected(server.client, server.url, Identity()) as dead,
    ):
        await dead.subscribe(TOPIC)

        async def one_is_left() -> bool:
            await alive.settled()
            return await figure(server, "sockets") == 1

        await eventually(one_is_left)
        assert await alive.publish(TOPIC) is True


@pytest.mark.sqlite("another program holds its file")
async def test_a_socket_is_not_dead_while_the_disk_is_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 60.0)
    async with (
        running_server(tmp_path, heartbeat=1.0) as server,
        irn_connected(server.client, server.url, Identity()) as dapp,
        irn_connected(server.client, server.url, Identity()) as idle,
    ):
        with locked(server.settings.database_file):
            publication = {"topic": TOPIC, "message": "message", "ttl": 60}
            await dapp.send(id=1, jsonrpc="2.0", method="irn_publish", params=publication)
            settling = asyncio.create_task(dapp.settled())
            for _ in range(3):
                await idle.socket.pong((await idle.socket.receive(60)).data)

        await settling
        assert await dapp.answer(1) is True


async def test_a_stopping_server_says_goodbye_and_loses_nothing(tmp_path: Path) -> None:
    identity = Identity()
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession())
        async with running_server(tmp_path) as server:
            dapp = await stack.enter_async_context(irn_connected(client, server.url, Identity()))
            await dapp.publish(TOPIC)
            goodbye = asyncio.ensure_future(dapp.closed())
            await asyncio.sleep(0)
        assert await goodbye == (1001, "The server stops. Connect again.")
    async with (
        running_server(tmp_path, server.clock) as server,
        irn_connected(server.client, server.url, identity) as wallet,
    ):
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(1) == ["message"]


async def test_a_slow_reader_is_closed_with_a_code_after_which_clients_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.web.sockets._GOODBYE_SECONDS", 60.0)
    topics = [topic_of(str(number)) for number in range(500)]
    async with (
        running_server(
            tmp_path, max_client_topics=1, messages_burst=10_000, metrics_token=METRICS_TOKEN
        ) as server,
        irn_connected(server.client, server.url, Identity()) as slow,
    ):

        async def ask() -> None:
            for number in range(400):  # 28 MB of refusals: more than the kernel takes for a client
                await slow.send(
                    id=number, jsonrpc="2.0", method="irn_batchSubscribeBlocking", params={"topics": topics}
                )

        async def too_much_is_unread() -> bool:
            return await figure(server, "unread_bytes") > MOST_BUFFERED_BYTES

        async with running(ask()):  # once it is closed, the server reads nothing more
            await eventually(too_much_is_unread)
            assert await slow.closed() == (1001, "You read too slowly. Connect again for the rest.")


@pytest.mark.sqlite("another program locks the file")
async def test_a_database_locked_for_long_closes_a_socket_with_1001(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 0.01)
    monkeypatch.setattr("bridge_server.pubsub.v2_journal._PATIENCE_SECONDS", 0.2)
    async with (
        running_server(tmp_path) as server,
        irn_connected(server.client, server.url, Identity()) as dapp,
    ):
        with locked(server.settings.database_file):
            await dapp.send(id=1, jsonrpc="2.0", method="irn_subscribe", params={"topic": TOPIC})
            await dapp.socket.ping()

            assert (await dapp.closed())[0] == 1001


@pytest.mark.sqlite("another program locks the file")
async def test_a_stop_refuses_what_cannot_be_stored_in_its_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.pubsub.v2_journal._LAST_SECONDS", 0.0)
    calls, topics = 35, 500
    async with AsyncExitStack() as stack:
        client = await stack.enter_async_context(aiohttp.ClientSession())
        lock = stack.enter_context(ExitStack())
        async with running_server(tmp_path, max_client_topics=100_000) as server:
            wallet = await stack.enter_async_context(irn_connected(client, server.url, Identity()))
            lock.enter_context(locked(server.settings.database_file))
            for call in range(calls):
                names = [topic_of(f"{call} {number}") for number in range(topics)]
                await wallet.send(
                    id=call, jsonrpc="2.0", method="irn_batchSubscribe", params={"topics": names}
                )
            with pytest.raises(RelayError):  # after which every call has been heard
                await wallet.ask("irn_unknown")

            async def release() -> None:
                assert await wallet.closed() == (1001, "The server stops. Connect again.")
                lock.close()

            releasing = asyncio.create_task(release())
        await releasing

    with closing(sqlite3.connect(server.settings.database_file)) as connection:
        ((stored,),) = connection.execute("SELECT count(*) FROM irn_subscriptions").fetchall()
    assert stored < calls * topics
    assert stored % topics == 0
