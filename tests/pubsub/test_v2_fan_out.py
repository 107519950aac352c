"""Generation 2.x: messages to many clients, how they are stored, and what they cost their sender."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import count, product
from pathlib import Path
from random import Random
from typing import Any

import pytest

from tests.pubsub.conftest import Join, error_of, irn_opened
from tests.support.asking import METRICS_TOKEN, answer_others, figure
from tests.support.engines import database_of
from tests.support.project import look
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import Identity, IrnClient, irn_connected, topic_of

TOPICS = topic_of("topic"), topic_of("other")
TOPIC, OTHER = TOPICS


async def test_a_message_for_many_clients_is_one_row(server: RunningServer, join: Join) -> None:
    dapp, identities = await join(), [Identity() for _ in range(12)]
    for identity in identities:
        wallet = await join(identity)
        await wallet.subscribe(TOPIC)
        await wallet.socket.close()

    def rows() -> int:
        """All rows of generation 2.x."""
        with database_of(server.settings) as database:
            names = [name for name in database.tables() if name.startswith("irn_")]
            return sum(database.execute(f"SELECT count(*) FROM {name}")[0][0] for name in names)

    before = rows()
    for number in range(5):
        await dapp.publish(TOPIC, str(number))
    assert rows() == before + 2 * 5  # the messages, and the calls that are known if repeated

    for identity in identities:
        wallet = await join(identity)
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(5) == [str(number) for number in range(5)]
        await wallet.settled()
    assert look(server, "SELECT count(*) FROM irn_messages WHERE expires_at_ms > 0") == [(0,)]


class Model:
    """The messages that wait for each client, as the protocol page says."""

    def __init__(self) -> None:
        self.subscribed: dict[str, set[int]] = {topic: set() for topic in TOPICS}
        self.waiting: dict[tuple[int, str], set[str]] = defaultdict(set)
        self.open: list[tuple[int, str, str]] = []

    def publish(self, client: int, topic: str, message: str) -> None:
        others = self.subscribed[topic] - {client}
        for other in others:
            self.waiting[other, topic].add(message)
        if not others:
            self.open.append((client, topic, message))

    def subscribe(self, client: int, topic: str) -> None:
        if client in self.subscribed[topic]:
            return
        self.subscribed[topic].add(client)
        for each in [each for each in self.open if each[0] != client and each[1] == topic]:
            self.open.remove(each)
            self.waiting[client, topic].add(each[2])

    def unsubscribe(self, client: int, topic: str) -> None:
        self.subscribed[topic].discard(client)
        self.waiting[client, topic].clear()

    def fetch(self, client: int, topic: str) -> list[str]:
        found = [each for each in self.open if each[0] != client and each[1] == topic]
        self.open = [each for each in self.open if each not in found]
        return [*self.waiting.pop((client, topic), ()), *(text for _, _, text in found)]


class Walk:
    """Random steps of clients, by their numbers, at a server and in a model."""

    def __init__(self, seed: int) -> None:
        self.chance = Random(seed)
        self.model = Model()
        self.sockets: dict[int, IrnClient] = {}
        self._identities = [Identity() for _ in range(4)]
        self._texts = count()

    @asynccontextmanager
    async def at(self, server: RunningServer) -> AsyncIterator[None]:
        """All clients are connected inside, and have made some steps."""
        async with AsyncExitStack() as stack:
            self._server, self._stack = server, stack
            for client in range(len(self._identities)):
                await self._connect(client)
            for _ in range(60):
                await self._step()
            yield

    async def _step(self) -> None:
        client, topic = self.chance.randrange(len(self.sockets)), self.chance.choice(TOPICS)
        await self.sockets[client].settled()
        steps = (self._publish, self._acknowledge, self._subscribe, self._unsubscribe, self._come_again)
        await self.chance.choices(steps, (8, 4, 4, 1, 4))[0](client, topic)

    async def _connect(self, client: int) -> None:
        connecting = irn_connected(self._server.client, self._server.url, self._identities[client])
        self.sockets[client] = await self._stack.enter_async_context(connecting)
        # To subscribe again changes nothing but that what waits is sent at once.
        if again := [topic for topic in TOPICS if client in self.model.subscribed[topic]]:
            await self.sockets[client].subscribe(*again)

    async def _publish(self, client: int, topic: str) -> None:
        text = str(next(self._texts))
        await self.sockets[client].publish(topic, text)
        self.model.publish(client, topic, text)

    async def _subscribe(self, client: int, topic: str) -> None:
        await self.sockets[client].subscribe(topic)
        self.model.subscribe(client, topic)

    async def _unsubscribe(self, client: int, topic: str) -> None:
        await self.sockets[client].ask("irn_unsubscribe", {"topic": topic})
        self.model.unsubscribe(client, topic)

    async def _come_again(self, client: int, _: str) -> None:
        await self.sockets[client].socket.close()
        await self._connect(client)

    async def _acknowledge(self, client: int, topic: str) -> None:
        """Some of the messages, in any order."""
        socket, waiting = self.sockets[client], self.model.waiting[client, topic]
        sent = {each["params"]["data"]["message"]: each for each in socket.requests}
        known = [text for text in sent if text in waiting]
        for text in self.chance.sample(known, self.chance.randint(0, len(known))):
            await socket.acknowledge(sent[text])
            waiting.discard(text)
        await socket.settled()


@pytest.mark.parametrize("seed", range(4))
async def test_who_comes_and_goes_gets_each_message_until_it_is_acknowledged(
    tmp_path: Path, seed: int
) -> None:
    walk = Walk(seed)
    async with running_server(tmp_path / "data") as server, walk.at(server):
        pass
    async with running_server(tmp_path / "data") as server, walk.at(server):
        for (client, socket), topic in product(walk.sockets.items(), TOPICS):
            fetched = [each["message"] for each in (await socket.fetch(topic))["messages"]]
            await socket.settled()
            assert sorted(fetched) == sorted(walk.model.fetch(client, topic))


async def test_others_may_write_after_some_two_thousand_rows(tmp_path: Path) -> None:
    topics, calls = 500, 24
    settings: dict[str, Any] = {"max_client_topics": 100_000, "metrics_token": METRICS_TOKEN}
    async with irn_opened(tmp_path, 1, **settings) as (server, (wallet,)):
        before = await figure(server, "database_commits_total")
        for call in range(calls):
            params = {"topics": [topic_of(f"{call} {number}") for number in range(topics)]}
            await wallet.send(id=call, jsonrpc="2.0", method="irn_batchSubscribe", params=params)
        for call in range(calls):
            assert len(await wallet.answer(call)) == topics

        assert await figure(server, "database_commits_total") - before >= calls * topics / 2_500


CHARGED: dict[str, Any] = {"quota_exempt": (), "messages_per_second": 1}
"""This machine's clients are charged one message a second."""


async def is_late(server: RunningServer, answer: "asyncio.Future[Any]") -> bool:
    """Whether the answer waits for the clock, while the server answers others, and stores what they send."""
    await answer_others(server)
    return not answer.done()


async def test_a_message_is_charged_by_its_receivers(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 5, **CHARGED, messages_burst=10) as (server, (dapp, *wallets)):
        for wallet in wallets:
            await wallet.subscribe(TOPIC)
        await dapp.publish(TOPIC, "4 of the 6 that are left")
        late = asyncio.ensure_future(dapp.publish(TOPIC, "4 of 2"))

        assert await is_late(server, late)
        server.clock.advance(2)
        assert await late is True
        for wallet in wallets:
            assert len([await wallet.message(acknowledge=False) for _ in range(2)]) == 2


@pytest.mark.sqlite("several processes charge a moment later for receivers that were not known")
async def test_a_message_that_costs_more_than_the_whole_burst_takes_all_of_it(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 5, **CHARGED, messages_burst=3) as (server, (dapp, *wallets)):
        for wallet in wallets:
            server.clock.advance(1)
            await wallet.subscribe(TOPIC)
        server.clock.advance(10)
        await dapp.publish(TOPIC, "takes all that there is")
        later = asyncio.ensure_future(dapp.publish(OTHER, "has no receivers"))

        assert await is_late(server, later)
        server.clock.advance(1)
        assert await later is True


async def test_a_batch_of_topics_costs_a_message_for_each_25(tmp_path: Path) -> None:
    topics = [topic_of(f"topic {number}") for number in range(100)]
    async with irn_opened(tmp_path, 1, **CHARGED, messages_burst=5) as (server, (wallet,)):
        await wallet.subscribe(*topics)  # 4
        await wallet.subscribe(*topics[:25])
        late = asyncio.ensure_future(wallet.fetch(*topics[:26]))

        assert await is_late(server, late)
        server.clock.advance(1)
        assert await is_late(server, late)
        server.clock.advance(1)
        assert await late == {"messages": [], "hasMore": False}


async def test_a_topic_has_so_many_clients(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 3, max_topic_clients=2) as (server, (one, two, three)):
        for client in (one, two):
            await client.subscribe(TOPIC)

        for ask in (
            three.ask("irn_subscribe", {"topic": TOPIC}),
            three.subscribe(OTHER, TOPIC),
            three.ask("wc_proposeSession", {"pairingTopic": TOPIC, "sessionProposal": "sealed"}),
        ):
            refused = await error_of(ask)
            assert (refused.code, refused.tag) == (-32000, "SubscriberLimitExceeded")
            assert refused.message.startswith("The topic has 2 subscribed clients")
        results = await three.ask("irn_batchSubscribeBlocking", {"topics": [TOPIC]})
        assert results[0]["error"]["data"] == "SubscriberLimitExceeded"
        assert look(server, f"SELECT count(*) FROM irn_subscriptions WHERE topic = '{OTHER}'") == [(0,)]

        await one.subscribe(TOPIC)
        await two.ask("irn_unsubscribe", {"topic": TOPIC})
        assert len(await three.subscribe(TOPIC)) == 1
        await one.publish(TOPIC, "for the third")
        assert await three.messages(1) == ["for the third"]
        await two.nothing()
