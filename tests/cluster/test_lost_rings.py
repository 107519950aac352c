"""What sockets of two processes are sent, and what they acknowledge, although a ring is lost."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.held_inserts import HELD, held_inserts
from tests.cluster.irn_sockets import irn_socket
from tests.cluster.processes import ClusterProcess, cluster_url, processes_over
from tests.support.cutting_proxy import CuttingProxy, open_cutting_proxy
from tests.support.irn_client import Identity, topic_of
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.socket_client import connected

pytestmark = needs_postgres

EXEMPT = '["127.0.0.1/32"]'
TOPICS = [topic_of(name) for name in "abc"]
EACH = [str(number) for number in range(4)]


@pytest.fixture
async def proxy(postgres: PostgresServer) -> AsyncIterator[CuttingProxy]:
    """Between the database and what the second process rings with and listens with."""
    async with open_cutting_proxy(await cluster_url(postgres, "rings")) as proxy:
        yield proxy


@pytest.fixture
async def pair(
    postgres: PostgresServer, proxy: CuttingProxy, tmp_path: Path
) -> AsyncIterator[list[ClusterProcess]]:
    url = await cluster_url(postgres, "rings")
    own = [{}, {"database_direct": proxy.url}]
    async with processes_over(url, tmp_path, own=own, quota_exempt=EXEMPT) as pair:
        yield pair


async def test_messages_on_several_topics_arrive_although_the_process_cannot_ring(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, mute = pair
    async with (
        connected(mute.server.client, mute.url) as dapp,
        connected(here.server.client, here.url) as wallet,
    ):
        await wallet.subscribe(*TOPICS)
        _silence(proxy)

        for payload in EACH:
            for topic in TOPICS:
                await dapp.say(topic, "pub", payload)
        await dapp.settled()

        came = defaultdict(list)
        for _ in range(len(EACH) * len(TOPICS)):
            message = await wallet.message()
            came[message["topic"]].append(message["payload"])
        assert came == dict.fromkeys(TOPICS, EACH)
        await wallet.nothing()


async def test_a_batch_on_several_topics_arrives_although_the_process_cannot_ring(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, mute = pair
    async with irn_socket(mute) as dapp, irn_socket(here) as wallet:
        await wallet.subscribe(*TOPICS)
        _silence(proxy)

        messages = [{"topic": topic, "message": each, "ttl": 60} for each in EACH for topic in TOPICS]
        assert await dapp.ask("irn_batchPublish", {"messages": messages}) is True

        came = defaultdict(list)
        for _ in messages:
            request = await wallet.request()
            await wallet.acknowledge(request)
            data = request["params"]["data"]
            came[data["topic"]].append(data["message"])
        assert came == dict.fromkeys(TOPICS, EACH)
        await wallet.nothing()


async def test_a_message_that_is_committed_after_one_with_a_greater_number_on_another_topic_is_not_skipped(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, mute = pair
    async with (
        held_inserts(here) as held,
        connected(mute.server.client, mute.url) as slow,
        connected(here.server.client, here.url) as quick,
        connected(here.server.client, here.url) as wallet,
    ):
        await wallet.subscribe(*TOPICS)
        _silence(proxy)

        await slow.say(TOPICS[0], "pub", HELD)
        await held.wait(1)
        await quick.publish(TOPICS[1], "greater")
        assert (await wallet.message())["payload"] == "greater"
        await held.release()

        assert await wallet.payloads(1) == [HELD]
        first, second = await held.numbers("topic_messages", HELD, "greater")
        assert first < second


async def test_such_a_message_of_generation_2_is_not_skipped(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, mute = pair
    async with (
        held_inserts(here) as held,
        irn_socket(mute) as slow,
        irn_socket(here) as quick,
        irn_socket(here) as wallet,
    ):
        await wallet.subscribe(*TOPICS)
        _silence(proxy)

        publishing = asyncio.create_task(slow.publish(TOPICS[0], HELD))
        await held.wait(1)
        await quick.publish(TOPICS[1], "greater")
        assert await wallet.message() == "greater"
        await held.release()

        assert await publishing is True
        assert await wallet.messages(1) == [HELD]
        first, second = await held.numbers("irn_messages", HELD, "greater")
        assert first < second


async def test_a_receipt_counts_at_the_other_process_although_its_ring_is_lost(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, asking = pair
    (topic, *_), identity = TOPICS, Identity()
    async with (
        irn_socket(here) as dapp,
        irn_socket(here, identity) as tab,
        irn_socket(asking, identity) as other_tab,
    ):
        await tab.subscribe(topic)
        await dapp.publish(topic)
        sent = await tab.request()
        proxy.cut_before(b"IrnReceiptsGiven")

        receipts = [{"topic": topic, "message_id": sent["id"]}]
        assert await other_tab.ask("irn_batchReceive", {"receipts": receipts}) is True

        assert proxy.cuts == 1
        assert await other_tab.fetch(topic) == {"messages": [], "hasMore": False}


def _silence(proxy: CuttingProxy) -> None:
    """From now on the second process neither rings nor hears a ring."""
    proxy.is_refusing = True
    proxy.cut_all()
