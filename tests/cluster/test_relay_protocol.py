"""Messages of generation 2.x between sockets at two processes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, TypeAlias

import pytest

from tests.cluster.processes import ClusterProcess, cluster_url, processes_over
from tests.support.irn_client import Identity, IrnClient, RelayError, irn_connected, topic_of
from tests.support.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

Pair: TypeAlias = tuple[ClusterProcess, ClusterProcess]
Join: TypeAlias = Callable[..., Awaitable[IrnClient]]

EXEMPT = '["127.0.0.1/32"]'
MOST_OF_A_CLIENT = 40
MANY = 400
"""Receipts that no single event has room for."""

_names = count()


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    """Room for the messages of a load, but for one client."""
    return {"max_client_messages": MOST_OF_A_CLIENT, "quota_exempt": EXEMPT}


@pytest.fixture
def topic() -> str:
    """Another topic for each test."""
    return topic_of(f"topic {next(_names)}")


@pytest.fixture
async def join() -> AsyncIterator[Join]:
    """Opens a socket to a process, for a new client or for one that is known."""
    async with AsyncExitStack() as stack:

        async def open_socket(to: ClusterProcess, identity: Identity | None = None) -> IrnClient:
            who = identity or Identity()
            token = who.token(iat=to.server.clock.now_ms() // 1_000, exp=None)
            return await stack.enter_async_context(irn_connected(to.server.client, to.url, who, token=token))

        yield open_socket


async def test_messages_reach_the_subscribers_of_both_processes_in_order(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    dapp, here, there = await join(one), await join(one), await join(two)
    for client in (dapp, here, there):
        await client.subscribe(topic)

    for number in range(20):
        await dapp.publish(topic, str(number))

    for client in (here, there):
        assert [await client.message() for _ in range(20)] == list(map(str, range(20)))
    for client in (dapp, here, there):
        await client.nothing()


async def test_a_message_published_at_one_process_waits_for_a_subscriber_at_the_other(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    dapp, wallet = await join(one), await join(two)
    await dapp.publish(topic, "proposal")

    await wallet.subscribe(topic)

    assert await wallet.message() == "proposal"


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


async def test_a_waiting_message_is_fetched_at_another_process(pair: Pair, join: Join, topic: str) -> None:
    one, two = pair
    identity = Identity()
    dapp, wallet = await join(one), await join(one, identity)
    await wallet.subscribe(topic)
    await wallet.socket.close()
    for number in range(3):
        await dapp.publish(topic, str(number))

    moved = await join(two, identity)
    fetched = await moved.fetch(topic)
    await moved.settled()

    assert [each["message"] for each in fetched["messages"]] == ["0", "1", "2"]
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


async def test_a_client_that_unsubscribes_at_one_process_is_sent_nothing_at_the_other(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    identity = Identity()
    dapp, here, there = await join(one), await join(one, identity), await join(two, identity)
    other = await join(two)
    await here.subscribe(topic)
    await there.subscribe(topic)
    await other.subscribe(topic)

    await here.ask("irn_unsubscribe", {"topic": topic, "id": ""})
    await dapp.publish(topic, "late")

    assert await other.message() == "late"
    await there.nothing()


async def test_the_share_of_a_client_is_one_for_all_processes(pair: Pair, join: Join) -> None:
    identity = Identity()
    outcomes: list[str] = []

    async def fill(process: ClusterProcess) -> None:
        dapp = await join(process, identity)
        for _ in range(MOST_OF_A_CLIENT):
            try:
                await dapp.publish(topic_of(f"filled {next(_names)}"))
            except RelayError as error:
                outcomes.append(error.tag)
            else:
                outcomes.append("taken")

    await asyncio.gather(*map(fill, pair))

    assert sorted(outcomes) == ["MailboxLimitExceeded"] * MOST_OF_A_CLIENT + ["taken"] * MOST_OF_A_CLIENT


async def test_two_sockets_of_one_client_at_two_processes_are_both_sent_a_message(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    identity = Identity()
    dapp, tab, other_tab = await join(one), await join(one, identity), await join(two, identity)
    await tab.subscribe(topic)
    await other_tab.subscribe(topic)

    for number in range(10):
        await dapp.publish(topic, str(number))

        assert await tab.message() == str(number)
        assert await other_tab.message() == str(number)


async def test_a_receipt_at_one_process_acknowledges_what_the_other_has_sent(
    pair: Pair, join: Join, topic: str
) -> None:
    one, two = pair
    identity = Identity()
    dapp, tab, other_tab = await join(one), await join(one, identity), await join(two, identity)
    stranger = await join(two)
    await tab.subscribe(topic)
    for number in range(4):
        await dapp.publish(topic, str(number))
    ids = [(await tab.request())["id"] for _ in range(4)]

    async def give(client: IrnClient, *receipts: tuple[str, Any]) -> None:
        given = [{"topic": topic, "message_id": request_id} for topic, request_id in receipts]
        assert await client.ask("irn_batchReceive", {"receipts": given}) is True

    await give(other_tab, (topic, ids[0]), (topic, ids[2]))
    await asyncio.gather(
        give(other_tab, (topic_of("another"), ids[1]), (topic, "99999999999999999999"), (topic, ids[0])),
        give(stranger, (topic, ids[3]), (topic, -1)),
    )

    left = await other_tab.fetch(topic)
    assert [each["message"] for each in left["messages"]] == ["1", "3"]


async def test_many_receipts_at_one_process_count_at_the_other(pair: Pair, join: Join, topic: str) -> None:
    one, two = pair
    identity = Identity()
    dapp, tab, other_tab = await join(one), await join(one, identity), await join(two, identity)
    await tab.subscribe(topic)
    for first in range(0, MANY, MOST_OF_A_CLIENT):
        messages = [
            {"topic": topic, "message": str(first + each), "ttl": 60} for each in range(MOST_OF_A_CLIENT)
        ]
        await dapp.ask("irn_batchPublish", {"messages": messages})
        dapp = await join(one)
    sent = [await tab.request() for _ in range(MANY)]

    receipts = [{"topic": topic, "message_id": each["id"]} for each in sent]
    assert await other_tab.ask("irn_batchReceive", {"receipts": receipts}) is True

    assert await other_tab.fetch(topic) == {"messages": [], "hasMore": False}


async def test_a_message_that_a_killed_process_has_answered_arrives_at_the_other(
    postgres: PostgresServer, tmp_path: Path, join: Join, topic: str
) -> None:
    url = await cluster_url(postgres, "killed")
    async with processes_over(url, tmp_path, quota_exempt=EXEMPT) as (one, two):
        wallet, dapp = await join(two), await join(one)
        await wallet.subscribe(topic)
        answered: list[str] = []

        async def publish() -> None:
            for number in range(10_000):
                await dapp.publish(topic, str(number))
                answered.append(str(number))

        publishing = asyncio.create_task(publish())
        arrived = [await wallet.message() for _ in range(100)]
        one.process.kill()
        await asyncio.wait([publishing])
        assert publishing.exception() is not None
        while len(arrived) < len(answered):
            arrived.append(await wallet.message())

        assert arrived[: len(answered)] == answered
