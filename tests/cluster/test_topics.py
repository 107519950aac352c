"""Messages of generation 1.x between sockets at two processes."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest

from tests.cluster.processes import ClusterProcess, cluster_url, database_of, processes_over
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.socket_client import SocketClient
from tests.support.socket_client import connected as socket_connected

pytestmark = needs_postgres

EXEMPT = '["127.0.0.1/32"]'
MOST_ON_A_TOPIC = 400
STORED = "SELECT count(*) FROM topic_messages WHERE topic = $1"
END_EARS = """
SELECT pg_terminate_backend(pid) FROM pg_stat_activity
WHERE query ILIKE '%listen%' AND pid <> pg_backend_pid() AND datname = current_database()
"""

Pair: TypeAlias = tuple[ClusterProcess, ClusterProcess]
Connect: TypeAlias = Callable[[ClusterProcess], Awaitable[SocketClient]]


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """Room for the messages of a load, but for one topic."""
    return {"max_topic_messages": MOST_ON_A_TOPIC, "quota_exempt": EXEMPT}


@pytest.fixture
async def connect() -> AsyncIterator[Connect]:
    """Opens a socket to a process."""
    async with AsyncExitStack() as stack:

        async def open_socket(to: ClusterProcess) -> SocketClient:
            return await stack.enter_async_context(socket_connected(to.server.client, to.url))

        yield open_socket


async def test_a_message_reaches_the_receivers_of_both_processes_but_not_its_sender(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, here, there = await connect(one), await connect(one), await connect(two)
    for client in (dapp, here, there):
        await client.subscribe("both")

    await dapp.publish("both", "first", "second")

    for client in (here, there):
        assert [(await client.message())["payload"] for _ in range(2)] == ["first", "second"]
    await dapp.nothing()


async def test_a_message_published_at_one_process_waits_for_a_subscriber_at_the_other(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, wallet = await connect(one), await connect(two)
    await dapp.publish("waits", *map(str, range(150)))

    await wallet.subscribe("waits")

    assert await wallet.payloads(150) == list(map(str, range(150)))


async def test_a_message_that_was_acknowledged_at_one_process_is_not_sent_at_the_other(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, wallet, later = await connect(one), await connect(two), await connect(one)
    await wallet.subscribe("settled")
    await dapp.publish("settled", "acknowledged", "not acknowledged")
    assert [(await wallet.message())["payload"] for _ in range(2)] == ["acknowledged", "not acknowledged"]

    await wallet.acknowledge("settled")
    await later.subscribe("settled")

    assert await later.payloads(1) == ["not acknowledged"]


async def test_a_receiver_at_a_process_that_was_stopped_meanwhile_gets_what_another_has_acknowledged(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, tab, other_tab = await connect(one), await connect(one), await connect(two)
    await tab.subscribe("tabs")
    await other_tab.subscribe("tabs")
    os.kill(two.pid, signal.SIGSTOP)
    try:
        await dapp.publish("tabs", "answer")
        assert (await tab.message())["payload"] == "answer"
        await tab.acknowledge("tabs")
        late = await connect(one)
        await late.subscribe("tabs")
        await late.nothing()
    finally:
        os.kill(two.pid, signal.SIGCONT)

    assert (await other_tab.message())["payload"] == "answer"


async def test_messages_of_both_processes_come_once_and_to_all_in_one_order(
    pair: Pair, connect: Connect
) -> None:
    dapps = [await connect(process) for process in (*pair, *pair)]
    readers = [await connect(process) for process in pair]
    await readers[0].subscribe("order")

    async def publish(number: int, dapp: SocketClient) -> None:
        for message in range(50):
            await dapp.say("order", "pub", f"{number} {message}")
            if message == 25 and not number:
                await readers[1].subscribe("order")
        await dapp.settled()

    async with asyncio.TaskGroup() as group:
        for number, dapp in enumerate(dapps):
            group.create_task(publish(number, dapp))
    first, second = [[(await reader.message())["payload"] for _ in range(200)] for reader in readers]

    assert sorted(first) == sorted(f"{number} {message}" for number in range(4) for message in range(50))
    assert second == first
    for number in range(len(dapps)):
        own = [each for each in first if each.startswith(f"{number} ")]
        assert own == [f"{number} {message}" for message in range(50)]
    for reader in readers:
        await reader.nothing()


async def test_messages_arrive_although_no_ring_does(pair: Pair, connect: Connect) -> None:
    one, two = pair
    dapp, wallet = await connect(one), await connect(two)
    await wallet.subscribe("deaf")

    async with database_of(two) as wire:
        for number in range(5):
            await wire.execute(END_EARS)
            await dapp.publish("deaf", str(number))

    assert [(await wallet.message())["payload"] for _ in range(5)] == list("01234")
    await wallet.nothing()


async def test_the_share_of_a_topic_is_one_for_all_processes(pair: Pair, connect: Connect) -> None:
    dapps = [await connect(process) for process in pair]

    async def fill(dapp: SocketClient) -> None:
        try:
            for number in range(MOST_ON_A_TOPIC - 100):
                await dapp.say("full", "pub", str(number))
            await dapp.settled()
        except (AssertionError, ConnectionError, aiohttp.ClientError):
            pass  # the socket was closed: the topic is full

    await asyncio.gather(*map(fill, dapps))

    async with database_of(pair[0]) as wire:
        assert await wire.fetchval(STORED, "full") == MOST_ON_A_TOPIC


async def test_a_message_that_a_killed_process_has_taken_arrives_at_the_other(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    url = await cluster_url(postgres, "killed")
    async with (
        processes_over(url, tmp_path, quota_exempt=EXEMPT) as (one, two),
        socket_connected(two.server.client, two.url) as wallet,
    ):
        await wallet.subscribe("killed")
        taken: list[str] = []

        async def publish() -> None:
            async with socket_connected(one.server.client, one.url) as dapp:
                for number in range(10_000):
                    await dapp.publish("killed", str(number))
                    taken.append(str(number))

        publishing = asyncio.create_task(publish())
        arrived: list[str] = []
        while len(arrived) < 100:
            arrived.append((await wallet.message())["payload"])
            await wallet.say("killed", "ack")
        one.process.kill()
        await asyncio.wait([publishing])
        assert publishing.exception() is not None
        while len(arrived) < len(taken):
            arrived.append((await wallet.message())["payload"])

        assert arrived[: len(taken)] == taken


async def test_settled_messages_are_swept(postgres: PostgresServer, tmp_path: Path) -> None:
    url = await cluster_url(postgres, "settled")
    async with (
        processes_over(url, tmp_path, count=1, sweep_interval=0.05) as (one,),
        socket_connected(one.server.client, one.url) as dapp,
        socket_connected(one.server.client, one.url) as wallet,
    ):
        await wallet.subscribe("topic")
        await dapp.publish("topic", "message")
        await wallet.message()
        await wallet.acknowledge("topic")
        async with database_of(one) as wire:
            assert await wire.fetchval(STORED, "topic") == 1

            await wire.execute("UPDATE topic_messages SET expires_at_ms = expires_at_ms + 10000")

            async def is_gone() -> bool:
                return bool(await wire.fetchval(STORED, "topic") == 0)

            await eventually(is_gone)
