"""Messages whose order of numbers is not that of their commits, and messages whose announcement is lost."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

import pytest

from tests.cluster.conftest import Client, Connect, Enter, Join, heard
from tests.cluster.processes import ClusterProcess, database_of, processes_over, until_found
from tests.support.asking import ask
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.proxies import CuttingProxy, open_cutting_proxy
from tests.support.socket_client import Identity, SocketClient, topic_of
from tests.support.waiting import eventually

pytestmark = needs_postgres

HELD = "held back"
"""A message with this text waits, whatever its topic."""
WAITING = """
SELECT count(*) FROM pg_locks JOIN pg_database ON pg_database.oid = pg_locks.database
WHERE locktype = 'advisory' AND NOT granted AND datname = current_database()
"""
"""How many transactions wait for the lock, or for the turn of one that does."""
RELEASE = "SELECT pg_advisory_unlock_all()"
_COLUMNS = {"topic_messages": "text", "irn_messages": "data"}


@asynccontextmanager
async def held_inserts(process: ClusterProcess) -> AsyncIterator[Any]:
    """Hold back what processes on the database of this one insert, while inside or until RELEASE."""
    async with database_of(process) as wire:
        await wire.execute("SELECT pg_advisory_lock(1)")
        await wire.execute(
            "CREATE FUNCTION hold() RETURNS trigger LANGUAGE plpgsql AS "
            "'BEGIN PERFORM pg_advisory_xact_lock(1); RETURN NEW; END'"
        )
        for table, column in _COLUMNS.items():
            await wire.execute(
                f"CREATE TRIGGER hold BEFORE INSERT ON {table} FOR EACH ROW "
                f"WHEN (position('{HELD}'::bytea IN NEW.{column}) > 0) EXECUTE FUNCTION hold()"
            )
        try:
            yield wire
        finally:
            await wire.execute(RELEASE)
            await wire.execute("DROP FUNCTION hold CASCADE")


async def numbers(wire: Any, client: Client, topics: Sequence[str], *texts: str) -> list[int]:
    """The numbers of the messages of the client's generation with these texts, in their order."""
    table = "topic_messages" if isinstance(client, SocketClient) else "irn_messages"
    query = f"SELECT {_COLUMNS[table]}, number FROM {table} WHERE topic = ANY ($1)"
    rows = await wire.fetch(query, topics)
    return [number for text in texts for data, number in rows if text.encode() in data]


_names = count()


@pytest.fixture(scope="module")
async def proxy(postgres: PostgresServer) -> AsyncIterator[CuttingProxy]:
    """Between the database and what the second process announces with and listens with."""
    async with open_cutting_proxy(await postgres.database("announcements")) as proxy:
        yield proxy


@pytest.fixture(scope="module")
async def pair(
    postgres: PostgresServer, proxy: CuttingProxy, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[list[ClusterProcess]]:
    url, folder = await postgres.database("announcements"), tmp_path_factory.mktemp("announcements")
    own = [{}, {"database_direct": proxy.url}]
    async with processes_over(url, folder, own=own, quota_exempt='["127.0.0.1/32"]') as pair:
        yield pair


@pytest.fixture
async def silence(pair: list[ClusterProcess], proxy: CuttingProxy) -> AsyncIterator[Callable[[], None]]:
    """From the call to the end of the test the second process neither sends nor receives an announcement."""

    def begin() -> None:
        proxy.is_refusing = True
        proxy.cut_all()

    async def is_ready() -> bool:
        return (await ask(pair[1].server, "GET", "/readyz")).body == b"ready\n"

    yield begin
    proxy.is_refusing = False
    await eventually(is_ready)


@pytest.fixture
def topics() -> list[str]:
    """Three topics of the test's own."""
    return [topic_of(f"topic {next(_names)}") for _ in range(3)]


async def test_messages_on_several_topics_arrive_although_the_process_cannot_announce(
    pair: list[ClusterProcess], silence: Callable[[], None], topics: list[str], connect: Connect
) -> None:
    wallet, dapp = [await connect(process) for process in pair]
    await wallet.subscribe(*topics)
    silence()

    payloads = [str(number) for number in range(4)]
    for payload in payloads:
        for topic in topics:
            await dapp.say(topic, "pub", payload)
    await dapp.settled()

    came = defaultdict(list)
    for _ in range(len(payloads) * len(topics)):
        message = await wallet.message()
        came[message["topic"]].append(message["payload"])
    assert came == dict.fromkeys(topics, payloads)
    await wallet.nothing()


async def test_a_message_that_is_committed_after_one_with_a_greater_number_on_another_topic_is_not_skipped(
    pair: list[ClusterProcess], silence: Callable[[], None], topics: list[str], enter: Enter
) -> None:
    here, mute = pair
    async with held_inserts(here) as wire:
        slow, quick, wallet = await enter(mute), await enter(here), await enter(here)
        for topic in topics:
            await wallet.subscribe(topic)
        silence()

        publishing = asyncio.create_task(slow.publish(topics[0], HELD))
        await until_found(wire, 1, WAITING)
        await quick.publish(topics[1], "greater")
        assert await heard(wallet, 1) == ["greater"]
        await wire.execute(RELEASE)

        await publishing
        assert await heard(wallet, 1) == [HELD]
        first, second = await numbers(wire, wallet, topics, HELD, "greater")
        assert first < second


async def test_messages_of_one_topic_have_numbers_in_the_order_of_their_commits(
    pair: list[ClusterProcess], topics: list[str], enter: Enter
) -> None:
    one, two = pair
    async with held_inserts(one) as wire:
        slow, quick, wallet = await enter(one), await enter(two), await enter(two)
        await wallet.subscribe(topics[0])

        publishing = [asyncio.create_task(slow.publish(topics[0], HELD))]
        await until_found(wire, 1, WAITING)
        publishing.append(asyncio.create_task(quick.publish(topics[0], "next")))
        await until_found(wire, 2, WAITING)
        await wire.execute(RELEASE)

        await asyncio.gather(*publishing)
        assert await heard(wallet, 2) == [HELD, "next"]
        first, second = await numbers(wire, wallet, topics, HELD, "next")
        assert first < second


async def test_a_receipt_counts_at_the_other_process_although_its_announcement_is_lost(
    pair: list[ClusterProcess], proxy: CuttingProxy, topics: list[str], join: Join
) -> None:
    here, asking = pair
    topic, identity = topics[0], Identity()
    dapp, tab, other_tab = await join(here), await join(here, identity), await join(asking, identity)
    await tab.subscribe(topic)

    async def counts() -> bool:
        """Whether the second question was answered within its second, as it is on a machine with time."""
        await dapp.publish(topic)
        sent = await tab.request()
        cuts = proxy.cuts
        proxy.cut_before(b"IrnReceiptsGiven")

        receipts = [{"topic": topic, "message_id": sent["id"]}]
        assert await other_tab.ask("irn_batchReceive", {"receipts": receipts}) is True

        left = await other_tab.fetch(topic)
        return proxy.cuts == cuts + 1 and left == {"messages": [], "hasMore": False}

    await eventually(counts)
