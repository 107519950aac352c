"""Messages between sockets at two processes, of generation 1.x and of generation 2.x."""

import asyncio
import os
import signal
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp
import pytest

from tests.cluster.conftest import Client, Connect, Enter, Join, heard
from tests.cluster.processes import (
    ClusterProcess,
    Pair,
    database_of,
    processes_over,
    until_found,
)
from tests.support.postgres import needs_postgres
from tests.support.socket_client import Identity, IrnClient, RelayError, SocketClient, topic_of
from tests.support.waiting import eventually

pytestmark = needs_postgres


EXEMPT = '["127.0.0.1/32"]'
MOST_ON_A_TOPIC = 400
MOST_OF_A_CLIENT = 40
STORED = "SELECT count(*) FROM topic_messages WHERE topic = $1"
_names = count()


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """Room for the messages of a load, but for one topic of 1.x and for one client of 2.x."""
    return {
        "max_topic_messages": MOST_ON_A_TOPIC,
        "max_client_messages": MOST_OF_A_CLIENT,
        "quota_exempt": EXEMPT,
    }


@pytest.fixture
def topic() -> str:
    """Another topic for each test."""
    return topic_of(f"topic {next(_names)}")


Tabs: TypeAlias = tuple[IrnClient, IrnClient, IrnClient]


@pytest.fixture
async def tabs(pair: Pair, join: Join) -> Tabs:
    """A client of 2.x at the first process, and a socket of another client at each process."""
    identity = Identity()
    return await join(pair[0]), await join(pair[0], identity), await join(pair[1], identity)


async def taken(client: Client, topic: str) -> str:
    """The next message, which is acknowledged."""
    if isinstance(client, IrnClient):
        return await client.message()
    payload: str = (await client.message())["payload"]
    await client.say(topic, "ack")
    return payload


# Both generations


async def test_a_message_reaches_or_waits_for_the_receivers_of_both_processes_in_order_but_not_its_sender(
    pair: Pair, enter: Enter, topic: str
) -> None:
    one, two = pair
    dapp, here, there = await enter(one), await enter(one), await enter(two)
    later, texts = topic_of(f"later {next(_names)}"), [str(number) for number in range(20)]
    for client in (dapp, here, there):
        await client.subscribe(topic)

    for text in texts:
        await dapp.publish(topic, text)
        await dapp.publish(later, text)

    for client in (here, there):
        assert await heard(client, 20) == texts
    await dapp.nothing()
    await there.subscribe(later)
    assert await heard(there, 20) == texts


async def test_a_message_that_a_killed_process_has_answered_arrives_at_the_other(
    url: str, tmp_path: Path, enter: Enter, topic: str
) -> None:
    async with processes_over(url, tmp_path, quota_exempt=EXEMPT) as (one, two):
        wallet, dapp = await enter(two), await enter(one)
        await wallet.subscribe(topic)
        answered: list[str] = []

        async def publish() -> None:
            for number in range(10_000):
                await dapp.publish(topic, str(number))
                answered.append(str(number))

        publishing = asyncio.create_task(publish())
        arrived = [await taken(wallet, topic) for _ in range(100)]
        one.process.kill()
        await asyncio.wait([publishing])
        assert publishing.exception() is not None
        while len(arrived) < len(answered):
            arrived.append(await taken(wallet, topic))

        assert arrived[: len(answered)] == answered


# Generation 1.x


async def test_a_message_that_was_acknowledged_at_one_process_is_not_sent_at_the_other(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, wallet, later = await connect(one), await connect(two), await connect(one)
    await wallet.subscribe("settled")
    await dapp.publish("settled", "acknowledged", "not acknowledged")
    assert await wallet.payloads(2) == ["acknowledged", "not acknowledged"]
    await wallet.acknowledge("settled")
    await later.subscribe("settled")

    assert await later.payloads(1) == ["not acknowledged"]


async def test_a_receiver_at_a_process_that_was_stopped_meanwhile_gets_what_another_has_acknowledged(
    pair: Pair, connect: Connect
) -> None:
    one, two = pair
    dapp, tab, late, other_tab = [await connect(each) for each in (one, one, one, two)]
    await tab.subscribe("tabs")
    await other_tab.subscribe("tabs")
    os.kill(two.pid, signal.SIGSTOP)
    try:
        await dapp.publish("tabs", "answer")
        assert (await tab.message())["payload"] == "answer"
        await tab.acknowledge("tabs")
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

    assert second == first
    for number in range(len(dapps)):
        own = [each for each in first if each.startswith(f"{number} ")]
        assert own == [f"{number} {message}" for message in range(50)]
    for reader in readers:
        await reader.nothing()


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


async def test_settled_messages_are_swept(url: str, tmp_path: Path, connect: Connect) -> None:
    async with (
        processes_over(url, tmp_path, count=1, sweep_interval=0.05) as (one,),
        database_of(one) as wire,
    ):
        dapp, wallet = await connect(one), await connect(one)
        await wallet.subscribe("topic")
        await dapp.publish("topic", "message")
        await wallet.message()
        await wallet.acknowledge("topic")
        assert await wire.fetchval(STORED, "topic") == 1

        await wire.execute("UPDATE topic_messages SET expires_at_ms = expires_at_ms + 10000")

        await until_found(wire, 0, STORED, "topic")


# Generation 2.x


async def test_a_client_that_moves_to_another_process_gets_what_it_has_not_acknowledged(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    identity = Identity()
    dapp, wallet = await join(one), await join(one, identity)
    await wallet.subscribe(topic)
    await dapp.publish(topic, "acknowledged")
    await dapp.publish(topic, "not acknowledged")
    assert await wallet.message() == "acknowledged"
    await wallet.settled()

    moved = await join(two, identity)

    assert await moved.message() == "not acknowledged"
    await moved.nothing()
    await moved.socket.close()
    await dapp.publish(topic, "waits")
    again = await join(two, identity)
    assert [each["message"] for each in (await again.fetch(topic))["messages"]] == ["waits"]
    await again.settled()
    assert await (await join(one, identity)).fetch(topic) == {"messages": [], "hasMore": False}


async def test_a_publication_that_is_repeated_at_another_process_is_answered_and_published_once(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    identity = Identity()
    wallet = await join(two)
    await wallet.subscribe(topic)
    first, again = await join(one, identity), await join(two, identity)
    assert await first.publish(topic, "once", request_id=77) is True
    assert await again.publish(topic, "once", request_id=77) is True
    assert await again.publish(topic, "another", request_id=77) is True

    assert [await wallet.message(), await wallet.message()] == ["once", "another"]
    await wallet.nothing()


async def test_the_share_of_a_client_is_one_for_all_processes(pair: Pair, join: Join) -> None:
    identity = Identity()
    outcomes: list[str] = []

    async def fill(process: ClusterProcess) -> None:
        dapp = await join(process, identity)
        for _ in range(MOST_OF_A_CLIENT):
            try:
                await dapp.publish(topic_of(f"filled {next(_names)}"))
                outcomes.append("taken")
            except RelayError as error:
                outcomes.append(error.tag)

    await asyncio.gather(*map(fill, pair))

    assert sorted(outcomes) == ["MailboxLimitExceeded"] * MOST_OF_A_CLIENT + ["taken"] * MOST_OF_A_CLIENT


async def test_two_sockets_of_one_client_at_two_processes_are_both_sent_a_message_until_one_unsubscribes(
    pair: Pair, join: Join, tabs: Tabs, topic: str
) -> None:
    dapp, tab, other_tab = tabs
    other = await join(pair[1])
    for client in (tab, other_tab, other):
        await client.subscribe(topic)

    for number in range(10):
        await dapp.publish(topic, str(number))

        for client in (tab, other_tab, other):
            assert await client.message() == str(number)
    await tab.ask("irn_unsubscribe", {"topic": topic, "id": ""})
    await dapp.publish(topic, "late")
    assert await other.message() == "late"
    await other_tab.nothing()


async def give(client: IrnClient, *receipts: tuple[str, Any]) -> None:
    given = [{"topic": topic, "message_id": request_id} for topic, request_id in receipts]
    assert await client.ask("irn_batchReceive", {"receipts": given}) is True


async def test_a_receipt_at_one_process_acknowledges_what_the_other_has_sent(
    pair: Pair, join: Join, tabs: Tabs, topic: str
) -> None:
    dapp, tab, other_tab = tabs
    stranger = await join(pair[1])
    await tab.subscribe(topic)

    async def do_count() -> bool:
        """Whether the other process was asked and answered in its two seconds: a busy one may be late."""
        for number in range(4):
            await dapp.publish(topic, str(number))
        ids = [(await tab.request())["id"] for _ in range(4)]

        await give(other_tab, (topic, ids[0]), (topic, ids[2]))
        await asyncio.gather(
            give(other_tab, (topic_of("another"), ids[1]), (topic, "99999999999999999999"), (topic, ids[0])),
            give(stranger, (topic, ids[3]), (topic, -1)),
        )

        left = [each["message"] for each in (await other_tab.fetch(topic))["messages"]]
        assert {"1", "3"} <= set(left)
        return left == ["1", "3"]

    await eventually(do_count)


async def test_many_receipts_at_one_process_count_at_the_other(
    pair: Pair, join: Join, tabs: Tabs, topic: str
) -> None:
    _, tab, other_tab = tabs
    await tab.subscribe(topic)

    async def do_count() -> bool:
        """Whether the other process was asked and answered in its two seconds: a busy one may be late."""
        for first in range(0, 400, MOST_OF_A_CLIENT):  # more than a single event has room for
            numbers = range(first, first + MOST_OF_A_CLIENT)
            messages = [{"topic": topic, "message": str(number), "ttl": 60} for number in numbers]
            await (await join(pair[0])).ask("irn_batchPublish", {"messages": messages})
        await give(other_tab, *[(topic, (await tab.request())["id"]) for _ in range(400)])

        return bool(await other_tab.fetch(topic) == {"messages": [], "hasMore": False})

    await eventually(do_count)
