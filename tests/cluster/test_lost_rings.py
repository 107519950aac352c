"""What sockets of two processes are sent, and what they acknowledge, although a ring is lost."""

from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.cluster.processes import ClusterProcess, cluster_url, processes_over
from tests.support.cutting_proxy import CuttingProxy, open_cutting_proxy
from tests.support.irn_client import Identity, irn_connected, topic_of
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


def token(process: ClusterProcess, identity: Identity) -> str:
    return identity.token(iat=process.server.clock.now_ms() // 1_000, exp=None)


async def test_messages_on_several_topics_in_one_commit_arrive_although_the_process_cannot_ring(
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
    dapp_identity, wallet_identity = Identity(), Identity()
    async with (
        irn_connected(mute.server.client, mute.url, dapp_identity, token=token(mute, dapp_identity)) as dapp,
        irn_connected(
            here.server.client, here.url, wallet_identity, token=token(here, wallet_identity)
        ) as wallet,
    ):
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


async def test_a_receipt_counts_at_the_other_process_although_its_ring_is_lost(
    pair: list[ClusterProcess], proxy: CuttingProxy
) -> None:
    here, asking = pair
    (topic, *_), identity, dapp_identity = TOPICS, Identity(), Identity()
    async with (
        irn_connected(here.server.client, here.url, dapp_identity, token=token(here, dapp_identity)) as dapp,
        irn_connected(here.server.client, here.url, identity, token=token(here, identity)) as tab,
        irn_connected(asking.server.client, asking.url, identity, token=token(asking, identity)) as other_tab,
    ):
        await tab.subscribe(topic)
        await dapp.publish(topic)
        sent = await tab.request()
        proxy.cut_before(b"IrnReceiptsGiven")

        receipts = [{"topic": topic, "message_id": sent["id"]}]
        assert await other_tab.ask("irn_batchReceive", {"receipts": receipts}) is True

        assert proxy.cuts == 1
    async with irn_connected(here.server.client, here.url, identity, token=token(here, identity)) as again:
        await again.subscribe(topic)
        await again.nothing()


def _silence(proxy: CuttingProxy) -> None:
    """From now on the second process neither rings nor hears a ring."""
    proxy.is_refusing = True
    proxy.cut_all()
