"""Generation 2.x: how much may wait, how much a client may have, and what happens to who wants more."""

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest

from tests.pubsub.conftest import irn_opened
from tests.support.asking import METRICS_TOKEN, answer_others
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import running_server
from tests.support.socket_client import Identity, IrnClient, RelayError, connected, irn_connected, topic_of
from tests.support.waiting import eventually

TOPIC, OTHER, THIRD = topic_of("topic"), topic_of("other"), topic_of("third")


async def refused(client: IrnClient, *topics: str, message: str = "refused") -> list[str]:
    """The names of the failures to publish on topics."""
    tags = []
    for topic in topics:
        with pytest.raises(RelayError) as refusal:
            await client.publish(topic, message)
        tags.append(refusal.value.tag)
    return tags


@each_row("somebody_is_there", [True, False])
@each_row(("limit", "most"), [("max_topic_messages", 2), ("max_topic_bytes", 3_000)])
async def test_so_much_waits_on_a_topic(
    tmp_path: Path, limit: str, most: int, somebody_is_there: bool
) -> None:
    settings: dict[str, Any] = {limit: most}
    messages = ["x" * 1_000, "y" * 1_000]
    async with irn_opened(tmp_path / limit, 2, **settings) as (_, (dapp, wallet)):
        await wallet.subscribe(*([TOPIC] if somebody_is_there else [OTHER]))
        for message in messages:
            await dapp.publish(TOPIC, message)

        assert await refused(dapp, TOPIC, message="z" * 1_000) == ["MailboxLimitExceeded"]

        assert await dapp.publish(THIRD) is True
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(2) == messages
        await wallet.settled()
        assert await dapp.publish(TOPIC, "later") is True
        assert await wallet.messages(1) == ["later"]


@each_row(
    ("limit", "most", "message"), [("max_client_messages", 2, "m"), ("max_client_bytes", 3_000, "x" * 1_000)]
)
async def test_so_much_of_a_client_waits(tmp_path: Path, limit: str, most: int, message: str) -> None:
    settings: dict[str, Any] = {limit: most}
    async with irn_opened(tmp_path / limit, 2, **settings) as (_, (dapp, other)):
        await dapp.publish(TOPIC, message)
        await dapp.publish(OTHER, message)

        assert await refused(dapp, THIRD, message=message) == ["MailboxLimitExceeded"]
        assert await other.publish(THIRD, message) is True


async def test_so_much_of_an_address_waits(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_address_messages": 2, "trusted_proxies": "127.0.0.1"}
    async with running_server(tmp_path, **settings) as server, AsyncExitStack() as stack:
        one, same, other = [
            await stack.enter_async_context(
                irn_connected(
                    server.client, server.url, Identity(), headers={"X-Forwarded-For": f"198.51.100.{last}"}
                )
            )
            for last in (7, 7, 8)
        ]
        await one.publish(TOPIC)
        await same.publish(OTHER)

        assert await refused(one, THIRD) == ["MailboxLimitExceeded"]
        assert await refused(same, THIRD) == ["MailboxLimitExceeded"]
        assert await other.publish(THIRD) is True


async def test_a_batch_is_taken_wholly_or_not_at_all(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_topic_messages=2) as (_, (dapp, wallet)):
        await wallet.subscribe(TOPIC, OTHER)
        messages = [{"topic": topic, "message": "m", "ttl": 60} for topic in (OTHER, TOPIC, TOPIC, TOPIC)]

        with pytest.raises(RelayError) as refusal:
            await dapp.ask("irn_batchPublish", {"messages": messages})

        assert refusal.value.tag == "MailboxLimitExceeded"
        await wallet.nothing()
        assert await dapp.ask("irn_batchPublish", {"messages": messages[1:3]}) is True


@pytest.mark.parametrize("method", ["irn_batchSubscribe", "irn_batchSubscribeBlocking"])
async def test_a_client_has_so_many_topics_on_all_its_sockets(tmp_path: Path, method: str) -> None:
    identity = Identity()
    async with irn_opened(tmp_path, [identity, identity], max_client_topics=2) as (server, (one, two)):
        await one.subscribe(TOPIC)
        if method == "irn_batchSubscribe":
            with pytest.raises(RelayError) as refusal:
                await two.subscribe(OTHER, THIRD)
            assert (refusal.value.code, refusal.value.tag) == (-32000, "SubscriberLimitExceeded")
        else:
            results = await two.ask(method, {"topics": [OTHER, THIRD]})
            assert [each["error"]["data"] for each in results] == ["SubscriberLimitExceeded"] * 2

        await two.subscribe(TOPIC, OTHER)
        await one.ask("irn_unsubscribe", {"topic": TOPIC})
        assert len(await two.subscribe(THIRD)) == 1
        assert look(server, "SELECT count(*) FROM irn_subscriptions") == [(2,)]


@pytest.mark.parametrize("method", ["irn_batchSubscribe", "irn_batchSubscribeBlocking"])
async def test_the_sockets_of_an_address_have_so_many_topics_together(tmp_path: Path, method: str) -> None:
    proposal = {"pairingTopic": THIRD, "sessionProposal": "proposal"}
    async with irn_opened(tmp_path / method, 2, quota_exempt=(), max_address_topics=2) as (_, (one, two)):
        await one.subscribe(TOPIC)
        await two.subscribe(TOPIC)

        if method == "irn_batchSubscribe":
            with pytest.raises(RelayError) as refusal:
                await two.subscribe(TOPIC, OTHER)
            assert (refusal.value.code, refusal.value.tag) == (-32000, "SubscriberLimitExceeded")
        else:
            results = await two.ask(method, {"topics": [TOPIC, OTHER]})
            assert [each["error"]["data"] for each in results] == ["SubscriberLimitExceeded"] * 2
        with pytest.raises(RelayError) as refusal:
            await two.ask("wc_proposeSession", proposal)
        assert refusal.value.tag == "SubscriberLimitExceeded"

        assert len(await two.subscribe(TOPIC)) == 1
        await one.ask("irn_unsubscribe", {"topic": TOPIC})
        assert await two.ask("wc_proposeSession", proposal) is True


async def test_topics_of_closed_sockets_do_not_count_and_those_of_generation_1_do(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 1, quota_exempt=(), max_address_topics=2) as (server, (dapp,)):
        async with irn_connected(server.client, server.url, Identity()) as wallet:
            await wallet.subscribe(TOPIC, OTHER)
            with pytest.raises(RelayError):
                await dapp.subscribe(TOPIC)
            await wallet.socket.close()

        async def has_room() -> bool:
            try:
                return len(await dapp.subscribe(TOPIC)) == 1
            except RelayError:
                return False

        await eventually(has_room)
        async with connected(server.client, server.url) as first:
            await first.subscribe("topic")
            await first.say("other", "sub")
            code, reason = await first.closed()
        assert (code, reason[:43]) == (1013, "The sockets of your address have 2 topics, ")


async def test_a_client_that_comes_back_to_an_address_without_room_is_closed(tmp_path: Path) -> None:
    identity, elsewhere = Identity(), {"X-Forwarded-For": "198.51.100.7"}
    settings: dict[str, Any] = {"max_address_topics": 2, "trusted_proxies": "127.0.0.1", "quota_exempt": ()}
    async with running_server(tmp_path, **settings) as server:
        async with irn_connected(server.client, server.url, identity, headers=elsewhere) as wallet:
            await wallet.subscribe(TOPIC, OTHER)
        async with irn_connected(server.client, server.url, Identity()) as neighbour:
            await neighbour.subscribe(TOPIC)
            async with irn_connected(server.client, server.url, identity) as wallet:
                code, reason = await wallet.closed()
        async with irn_connected(server.client, server.url, identity, headers=elsewhere) as wallet:
            await wallet.publish(THIRD)

    assert (code, reason[:43]) == (1001, "The sockets of your address have 2 topics, ")


async def test_an_address_stores_so_many_subscriptions(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, quota_exempt=(), subscription_bytes_per_address=1_000) as (
        _,
        (one, same),
    ):
        await one.subscribe(TOPIC, OTHER)

        with pytest.raises(RelayError) as refusal:
            await same.subscribe(THIRD)

        assert (refusal.value.code, refusal.value.tag) == (3001, "TooManyRequests")
        assert len(await one.subscribe(TOPIC, OTHER)) == 2


@pytest.mark.sqlite("database_limit is of a file")
async def test_a_full_database_takes_nothing_more_and_still_delivers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # To cut the log off would make room.
    monkeypatch.setattr("bridge_server.storage.sqlite._CHECKPOINT_EVERY_SECONDS", 3_600.0)
    async with irn_opened(tmp_path, 2, database_limit=2**20, max_topic_bytes=2**24) as (_, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        tags: list[str] = []
        for number in range(30):
            try:
                await dapp.publish(OTHER, f"{number}" + "x" * 100_000)
            except RelayError as error:
                tags.append(error.tag)

        assert set(tags) == {"MailboxLimitExceeded"}
        with pytest.raises(RelayError):
            await wallet.subscribe(THIRD)
        assert len(await wallet.subscribe(TOPIC)) == 1


async def test_over_the_rate_a_socket_is_heard_more_slowly(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"quota_exempt": (), "messages_per_second": 1, "messages_burst": 5}
    async with irn_opened(tmp_path, 2, **settings) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        for number in range(8):
            await dapp.send(
                id=number, jsonrpc="2.0", method="irn_publish",
                params={"topic": TOPIC, "message": str(number), "ttl": 60},
            )  # fmt: skip
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
    settings: dict[str, Any] = {"quota_exempt": (), "messages_per_second": 1, "messages_burst": 5}
    async with irn_opened(tmp_path, 1, **settings) as (server, (dapp,)):
        messages = [{"topic": TOPIC, "message": "m", "ttl": 60}] * 4
        assert await dapp.ask("irn_batchPublish", {"messages": messages}) is True
        await dapp.publish(TOPIC)
        late = asyncio.ensure_future(dapp.publish(TOPIC))

        await answer_others(server)
        assert not late.done()
        server.clock.advance(1)
        assert await late is True


async def test_a_receiver_that_acknowledges_nothing_is_sent_so_much_and_then_no_more(tmp_path: Path) -> None:
    identity = Identity()
    async with irn_opened(tmp_path, [Identity(), identity], max_topic_messages=5) as (_, (dapp, wallet)):
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
    async with irn_opened(
        tmp_path, 2, sweep_interval=0.05, metrics_token=METRICS_TOKEN, subscription_ttl=3600
    ) as (
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
