"""Generation 2.x: how much may wait, how much a client may have, and what happens to who wants more.

White-box: how often the write-ahead log is copied back has no setting, and would make room.
"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.pubsub.conftest import Join, error_of, irn_opened, origin
from tests.support.asking import answer_others
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.socket_client import Identity, IrnClient, RelayError, connected, irn_connected, topic_of
from tests.support.waiting import eventually

TOPIC, OTHER, THIRD = topic_of("topic"), topic_of("other"), topic_of("third")


@each_row("somebody_is_there", [True, False])
@each_row(("limit", "most"), [("max_topic_messages", 2), ("max_topic_bytes", 3_000)])
async def test_so_much_waits_on_a_topic(
    tmp_path: Path, limit: str, most: int, somebody_is_there: bool
) -> None:
    settings: dict[str, Any] = {limit: most}
    messages = ["x" * 1_000, "y" * 1_000]
    async with irn_opened(tmp_path / limit, 2, **settings) as (_, (dapp, wallet)):
        await wallet.subscribe(TOPIC if somebody_is_there else OTHER)
        for message in messages:
            await dapp.publish(TOPIC, message)

        assert (await error_of(dapp.publish(TOPIC, "z" * 1_000))).tag == "MailboxLimitExceeded"

        assert await dapp.publish(THIRD) is True
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(2) == messages
        await wallet.settled()
        assert await dapp.publish(TOPIC, "later") is True
        assert await wallet.messages(1) == ["later"]


@each_row(
    ("limit", "most", "message"),
    [
        ("max_client_messages", 2, "m"),
        ("max_client_bytes", 3_000, "x" * 1_000),
        ("max_address_messages", 2, "m"),
    ],
)
async def test_so_much_of_a_client_and_of_an_address_waits(
    join: Join, tmp_path: Path, limit: str, most: int, message: str
) -> None:
    settings: dict[str, Any] = {limit: most, "trusted_proxies": "127.0.0.1"}
    identities = [Identity()] * 2 if "client" in limit else [Identity(), Identity()]
    async with running_server(tmp_path / limit, **settings) as server:
        one, same = [await join(each, server, headers=origin("198.51.100.7")) for each in identities]
        other = await join(to=server, headers=origin("198.51.100.8"))
        await one.publish(TOPIC, message)
        await same.publish(OTHER, message)

        for client in (one, same):
            assert (await error_of(client.publish(THIRD, message))).tag == "MailboxLimitExceeded"
        assert await other.publish(THIRD, message) is True


async def test_a_batch_is_taken_wholly_or_not_at_all(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_topic_messages=2) as (_, (dapp, wallet)):
        await wallet.subscribe(TOPIC, OTHER)
        messages = [{"topic": topic, "message": "m", "ttl": 60} for topic in (OTHER, TOPIC, TOPIC, TOPIC)]
        refused = await error_of(dapp.ask("irn_batchPublish", {"messages": messages}))

        assert refused.tag == "MailboxLimitExceeded"
        await wallet.nothing()
        assert await dapp.ask("irn_batchPublish", {"messages": messages[1:3]}) is True


async def has_no_room_for(client: IrnClient, *topics: str) -> None:
    """Make sure that no batch of these topics is subscribed to."""
    refused = await error_of(client.subscribe(*topics))
    assert (refused.code, refused.tag) == (-32000, "SubscriberLimitExceeded")
    results = await client.ask("irn_batchSubscribeBlocking", {"topics": topics})
    assert [each["error"]["data"] for each in results] == ["SubscriberLimitExceeded"] * len(topics)


async def test_a_client_has_so_many_topics_on_all_its_sockets(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, [Identity()] * 2, max_client_topics=2) as (server, (one, two)):
        await one.subscribe(TOPIC)
        await has_no_room_for(two, OTHER, THIRD)

        await two.subscribe(TOPIC, OTHER)
        await one.ask("irn_unsubscribe", {"topic": TOPIC})
        assert len(await two.subscribe(THIRD)) == 1
        assert look(server, "SELECT count(*) FROM irn_subscriptions") == [(2,)]


async def test_the_sockets_of_an_address_have_so_many_topics_together(tmp_path: Path) -> None:
    proposal = {"pairingTopic": THIRD, "sessionProposal": "proposal"}
    async with irn_opened(tmp_path, 2, quota_exempt=(), max_address_topics=2) as (_, (one, two)):
        await one.subscribe(TOPIC)
        await two.subscribe(TOPIC)
        await has_no_room_for(two, TOPIC, OTHER)
        assert (await error_of(two.ask("wc_proposeSession", proposal))).tag == "SubscriberLimitExceeded"

        assert len(await two.subscribe(TOPIC)) == 1
        await one.ask("irn_unsubscribe", {"topic": TOPIC})
        assert await two.ask("wc_proposeSession", proposal) is True


async def test_topics_of_closed_sockets_do_not_count_and_those_of_generation_1_do(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 1, quota_exempt=(), max_address_topics=2) as (server, (dapp,)):
        async with irn_connected(server.client, server.url, Identity()) as wallet:
            await wallet.subscribe(TOPIC, OTHER)
            await error_of(dapp.subscribe(TOPIC))
            await wallet.socket.close()

        async def has_room() -> bool:
            with suppress(RelayError):
                return len(await dapp.subscribe(TOPIC)) == 1
            return False

        await eventually(has_room)
        async with connected(server.client, server.url) as first:
            await first.subscribe("topic")
            await first.say("other", "sub")
            code, reason = await first.closed()
        assert (code, reason[:43]) == (1013, "The sockets of your address have 2 topics, ")


async def test_a_client_that_comes_back_to_an_address_without_room_is_closed(
    join: Join, tmp_path: Path
) -> None:
    identity, elsewhere = Identity(), origin("198.51.100.7")
    settings: dict[str, Any] = {"max_address_topics": 2, "trusted_proxies": "127.0.0.1", "quota_exempt": ()}
    async with running_server(tmp_path, **settings) as server:
        wallet = await join(identity, server, headers=elsewhere)
        await wallet.subscribe(TOPIC, OTHER)
        await wallet.socket.close()
        await (await join(to=server)).subscribe(TOPIC)
        code, reason = await (await join(identity, server)).closed()

        assert (code, reason[:43]) == (1001, "The sockets of your address have 2 topics, ")
        assert await (await join(identity, server, headers=elsewhere)).publish(THIRD) is True


async def test_an_address_stores_so_many_subscriptions(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"quota_exempt": (), "subscription_bytes_per_address": 1_000}
    async with irn_opened(tmp_path, 2, **settings) as (_, (one, same)):
        await one.subscribe(TOPIC, OTHER)
        refused = await error_of(same.subscribe(THIRD))

        assert (refused.code, refused.tag) == (3001, "TooManyRequests")
        assert len(await one.subscribe(TOPIC, OTHER)) == 2


@pytest.mark.sqlite("database_limit is of a file")
async def test_a_full_database_takes_nothing_more_and_still_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To cut the log off would make room.
    monkeypatch.setattr("bridge_server.storage.sqlite._CHECKPOINT_EVERY_SECONDS", 3_600.0)
    async with irn_opened(tmp_path, 2, database_limit=2**20, max_topic_bytes=2**24) as (_, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        tags: set[str] = set()
        for number in range(30):
            try:
                await dapp.publish(OTHER, f"{number}" + "x" * 100_000)
            except RelayError as error:
                tags.add(error.tag)

        assert tags == {"MailboxLimitExceeded"}
        await error_of(wallet.subscribe(THIRD))
        assert len(await wallet.subscribe(TOPIC)) == 1


CHARGED: dict[str, Any] = {"quota_exempt": (), "messages_per_second": 1, "messages_burst": 5}


async def test_over_the_rate_a_socket_is_heard_more_slowly(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, **CHARGED) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        for number in range(8):
            params = {"topic": TOPIC, "message": str(number), "ttl": 60}
            await dapp.send(id=number, jsonrpc="2.0", method="irn_publish", params=params)
        assert [await dapp.answer(number) for number in range(4)] == [True] * 4
        late = asyncio.ensure_future(dapp.answer(7))
        assert [await wallet.message() for _ in range(4)] == ["0", "1", "2", "3"]
        assert not late.done()

        async def is_heard() -> bool:
            server.clock.advance(1)
            return late.done()

        await eventually(is_heard)
        assert await late is True
        assert [await wallet.message() for _ in range(4)] == ["4", "5", "6", "7"]


async def test_a_batch_costs_as_much_as_its_messages(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 1, **CHARGED) as (server, (dapp,)):
        messages = [{"topic": TOPIC, "message": "m", "ttl": 60}] * 4
        assert await dapp.ask("irn_batchPublish", {"messages": messages}) is True
        await dapp.publish(TOPIC)
        late = asyncio.ensure_future(dapp.publish(TOPIC))

        await answer_others(server)
        assert not late.done()
        server.clock.advance(1)
        assert await late is True


async def test_a_receiver_that_acknowledges_nothing_is_sent_so_much_and_then_no_more(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_topic_messages=5) as (_, (dapp, wallet)):
        topics = [topic_of(f"topic {number}") for number in range(4)]
        await wallet.subscribe(*topics)
        for number in range(20):
            await dapp.publish(topics[number % 4], str(number))
        first = [await wallet.request() for _ in range(10)]
        await wallet.nothing()
        for request in first:
            await wallet.acknowledge(request)

        assert await wallet.messages(10) == [str(number) for number in range(10, 20)]


async def test_expired_rows_are_swept(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, sweep_interval=0.05, subscription_ttl=3600) as (
        server,
        (dapp, wallet),
    ):
        await wallet.subscribe(TOPIC)
        await dapp.publish(OTHER)
        await dapp.publish(TOPIC)
        tables = ("irn_messages", "irn_subscriptions", "irn_calls")
        counts = "SELECT " + ", ".join(f"(SELECT count(*) FROM {table})" for table in tables)
        assert look(server, counts) == [(2, 1, 2)]

        for _ in range(5):
            server.clock.advance(800)  # less than a jump that makes the sweeper careful

        await eventually(lambda: look(server, counts) == [(0, 0, 0)])
