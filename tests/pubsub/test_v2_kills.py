"""Generation 2.x: kills, stops and clocks that are set back, in the middle of messages."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import pytest

from bridge_server.kit.testing.server import ServerProcess
from tests.pubsub.conftest import Join, error_of, irn_opened
from tests.support.needs import SLOW
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server, server_process
from tests.support.socket_client import (
    TOKEN_TIME,
    Identity,
    IrnClient,
    RelayError,
    irn_connected,
    topic_of,
)
from tests.support.waiting import eventually

TOPIC, OTHER = topic_of("topic"), topic_of("other")


@asynccontextmanager
async def joined(session: aiohttp.ClientSession, url: str, identity: Identity) -> AsyncIterator[IrnClient]:
    now = int(time.time())
    token = identity.token(iat=now, exp=now + 3600)
    async with irn_connected(session, url, identity, token=token) as client:
        yield client


async def test_subscriptions_messages_and_calls_survive_a_kill(tmp_path: Path) -> None:
    identities = Identity(), Identity()
    async with aiohttp.ClientSession() as session, AsyncExitStack() as stack:
        with server_process(tmp_path / "data") as server:
            dapp, wallet = [
                await stack.enter_async_context(joined(session, server.url, each)) for each in identities
            ]
            await wallet.subscribe(TOPIC)
            for number in range(3):
                await dapp.publish(TOPIC, str(number), request_id=number)
            sent = [await wallet.request() for _ in range(3)]
            receipt = {"topic": TOPIC, "message_id": sent[1]["id"]}
            await wallet.ask("irn_batchReceive", {"receipts": [receipt]})
            server.kill()
            server.start()
            dapp, wallet = [
                await stack.enter_async_context(joined(session, server.url, each)) for each in identities
            ]
            for number in range(3):
                await dapp.publish(TOPIC, str(number), request_id=number)
            await wallet.subscribe(TOPIC)

            assert await wallet.messages(2) == ["0", "2"]
            assert len({request["id"] for request in [*sent, *wallet.requests]}) == 5


# SIGKILL and SIGTERM in the middle of messages to many clients: none that was answered is missing, and
# none comes again once its acknowledgement was confirmed.

TOPICS = tuple(topic_of(f"topic {number}") for number in range(3))
ROOM: dict[str, Any] = {
    "max_topic_messages": 100_000,
    "max_topic_bytes": 100_000_000,
    "max_address_messages": 1_000_000,
    "max_client_messages": 1_000_000,
}
"""Settings by name of servers for `talk_through_kills`."""


@dataclass
class Receiver:
    """A client on all topics that acknowledges some of what it is sent, in any order."""

    identity: Identity = field(default_factory=Identity)
    received: set[str] = field(default_factory=set)
    confirmed: set[str] = field(default_factory=set)
    """Messages whose acknowledgements were on disk, as a pong has said."""
    repeated: list[str] = field(default_factory=list)

    async def listen(self, socket: IrnClient, chance: Random) -> None:
        """Until the socket ends; all that it is sent is taken note of."""
        await socket.subscribe(*TOPICS)
        held: list[tuple[str, dict[str, Any]]] = []
        taken = 0
        while True:
            await socket.settled()
            for request in socket.requests[taken:]:
                text = request["params"]["data"]["message"]
                self._note(text)
                held.append((text, request))
            taken = len(socket.requests)
            chance.shuffle(held)
            now, held = held[: len(held) * 2 // 3], held[len(held) * 2 // 3 :]
            for _, request in now:
                await socket.acknowledge(request)
            await socket.settled()
            self.confirmed.update(text for text, _ in now)

    async def take_the_rest(self, socket: IrnClient) -> None:
        """All that still waits, without a word about it."""
        await socket.subscribe(*TOPICS)
        while True:
            fetched = await socket.fetch(*TOPICS)
            for each in fetched["messages"]:
                self._note(each["message"])
            if not fetched["hasMore"]:
                return

    def _note(self, text: str) -> None:
        self.received.add(text)
        if text in self.confirmed:
            self.repeated.append(text)


def confirmed_by(receivers: Sequence[Receiver]) -> int:
    return sum(len(receiver.confirmed) for receiver in receivers)


async def publish(socket: IrnClient, numbers: "count[int]", answered: list[str]) -> None:
    """Batches for all topics, until the socket ends."""
    while True:
        texts = [str(next(numbers)) for _ in range(30)]
        messages = [
            {"topic": TOPICS[place % len(TOPICS)], "message": text, "ttl": 3600}
            for place, text in enumerate(texts)
        ]
        with suppress(RelayError):  # nothing was stored, because others wrote for too long
            await socket.ask("irn_batchPublish", {"messages": messages})
            answered += texts


async def talk_through_kills(
    servers: Sequence[ServerProcess], chance: Random, kills: int, *, least: int, most: int
) -> None:
    """Kill, and now and then stop, one server after another in the middle of messages to many clients."""
    receivers, numbers, answered = [Receiver() for _ in range(12)], count(), list[str]()
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session:
        for receiver in receivers:
            async with joined(session, servers[0].url, receiver.identity) as socket:
                await socket.subscribe(*TOPICS)
        for number in range(kills):
            goal, sure = len(answered) + chance.randint(least, most), confirmed_by(receivers) + 60
            victim = servers[number % len(servers)]
            async with AsyncExitStack() as stack:
                work = []
                for place, receiver in enumerate(chance.sample(receivers, 9)):
                    joining = joined(session, servers[place % len(servers)].url, receiver.identity)
                    socket = await stack.enter_async_context(joining)
                    work.append(asyncio.create_task(receiver.listen(socket, chance)))
                for server in servers:
                    socket = await stack.enter_async_context(joined(session, server.url, Identity()))
                    work.append(asyncio.create_task(publish(socket, numbers, answered)))
                while (len(answered) < goal or confirmed_by(receivers) < sure) and not any(
                    task.done() for task in work
                ):
                    await asyncio.wait(work, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
                if number % 4 == 3:
                    await asyncio.to_thread(victim.stop)
                else:
                    victim.kill()
                for task in work:
                    task.cancel()
                await asyncio.wait(work)
            await asyncio.to_thread(victim.start)
        for place, receiver in enumerate(receivers):
            async with joined(session, servers[place % len(servers)].url, receiver.identity) as socket:
                await receiver.take_the_rest(socket)

    assert len(answered) >= least * kills
    assert [set(answered) - receiver.received for receiver in receivers] == [set()] * len(receivers)
    assert [receiver.repeated for receiver in receivers] == [[]] * len(receivers)
    assert confirmed_by(receivers) >= 60 * kills


async def test_kills_and_stops_in_the_middle_of_messages_to_many_clients(tmp_path: Path) -> None:
    room = {f"BRIDGE_{name.upper()}": str(value) for name, value in ROOM.items()}
    with server_process(tmp_path / "data", environment=room) as server:
        await talk_through_kills([server], Random(7), 20 if SLOW else 4, least=60, most=400)


# A file numbers its messages anew after a restart, and knows nothing of those that were never stored.


async def acknowledge_all(wallet: IrnClient) -> None:
    """Everything that has come."""
    await wallet.settled()
    for request in wallet.requests:
        await wallet.acknowledge(request)
    await wallet.settled()


def has_reached_unstored(server: RunningServer) -> bool:
    """Whether a client has acknowledged a later message than the last one that was stored."""
    stored = "SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'irn_messages'"
    return look(server, f"SELECT max(reached) > ({stored}) FROM irn_subscriptions") == [(1,)]


async def hears_everything_after_a_restart(join: Join, stopped: RunningServer, identity: Identity) -> None:
    messages = ["one", "two", "three"]
    async with running_server(stopped.settings.data_dir, stopped.clock) as server:
        dapp = await join(to=server)
        for message in messages:
            await dapp.publish(TOPIC, message)
        wallet = await join(identity, server)
        await wallet.subscribe(TOPIC)

        assert await wallet.messages(3) == messages


@pytest.mark.sqlite("PostgreSQL numbers messages")
async def test_messages_wait_after_a_restart_although_a_second_tab_was_late(
    join: Join, tmp_path: Path
) -> None:
    identity = Identity()
    async with irn_opened(tmp_path, [Identity(), identity, identity]) as (server, (dapp, tab, late)):
        await tab.subscribe(TOPIC)
        await late.subscribe(TOPIC)

        async def has_acknowledged_unstored() -> bool:
            await asyncio.gather(dapp.publish(TOPIC), tab.message())
            await acknowledge_all(late)
            return has_reached_unstored(server)

        await eventually(has_acknowledged_unstored)
    await hears_everything_after_a_restart(join, server, identity)


@pytest.mark.sqlite("PostgreSQL numbers messages")
async def test_messages_wait_after_a_restart_although_a_refused_one_was_sent(
    join: Join, tmp_path: Path
) -> None:
    dapp, identity = Identity(), Identity()
    async with irn_opened(tmp_path, [dapp, identity], max_client_messages=1) as (server, (first, wallet)):
        await wallet.subscribe(TOPIC)
        await first.publish(OTHER)

        async def has_acknowledged_refused() -> bool:
            refused = await error_of((await join(dapp, server)).publish(TOPIC))
            assert refused.tag == "MailboxLimitExceeded"
            await acknowledge_all(wallet)
            return has_reached_unstored(server)

        await eventually(has_acknowledged_refused)
    await hears_everything_after_a_restart(join, server, identity)


# The clock on the wall is set back while messages are under way: none is lost, none comes without end.

BACK_SECONDS = [1, 600, 40 * 86_400]
"""Less and more than a call is remembered, and more than a subscription lasts."""


def token(identity: Identity, back_seconds: int) -> str:
    """A token of a client whose own clock was set back, too."""
    issued_at = TOKEN_TIME - back_seconds
    return identity.token(iat=issued_at, exp=issued_at + 86_400)


@each_row("back_seconds", BACK_SECONDS)
async def test_both_there_hear_everything_once(tmp_path: Path, back_seconds: int) -> None:
    identity = Identity()
    async with irn_opened(tmp_path, [Identity(), identity]) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        await dapp.publish(TOPIC, "before", request_id=1)
        server.clock.set_by(-back_seconds)
        await dapp.publish(TOPIC, "after", request_id=2)
        for request_id, message in ((1, "before"), (2, "after")):  # a client repeats what it gave up
            assert await dapp.publish(TOPIC, message, request_id=request_id) is True

        assert await wallet.messages(2) == ["before", "after"]
        await wallet.settled()
        await wallet.socket.close()

        again = token(identity, back_seconds)
        async with irn_connected(server.client, server.url, identity, token=again) as wallet:
            await wallet.subscribe(TOPIC)
            await wallet.nothing()


@each_row("back_seconds", BACK_SECONDS)
async def test_a_wallet_that_was_away_hears_everything_once_across_a_restart(
    tmp_path: Path, back_seconds: int
) -> None:
    dapp_identity, wallet_identity = Identity(), Identity()
    async with irn_opened(tmp_path, [dapp_identity, wallet_identity]) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        await wallet.socket.close()
        await dapp.publish(TOPIC, "before", request_id=1)
        server.clock.set_by(-back_seconds)
        await dapp.publish(TOPIC, "after", request_id=2)

    async with running_server(tmp_path, server.clock) as server:
        its_token = token(dapp_identity, back_seconds)
        async with irn_connected(server.client, server.url, dapp_identity, token=its_token) as dapp:
            assert await dapp.publish(TOPIC, "before", request_id=1) is True
            assert await dapp.publish(TOPIC, "after", request_id=2) is True
        its_token = token(wallet_identity, back_seconds)
        for expected in (["before", "after"], []):
            async with irn_connected(server.client, server.url, wallet_identity, token=its_token) as wallet:
                await wallet.subscribe(TOPIC)
                assert await wallet.messages(len(expected)) == expected
                await wallet.settled()


async def test_a_call_is_not_remembered_without_end(tmp_path: Path) -> None:
    """A publication with a known id counts again once its five minutes are over, by the new time."""
    async with irn_opened(tmp_path, 2) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        server.clock.set_by(-600)
        await dapp.publish(TOPIC, "message", request_id=1)
        assert await wallet.messages(1) == ["message"]  # or it might expire first
        server.clock.set_by(301)
        await dapp.publish(TOPIC, "message", request_id=1)

        assert await wallet.messages(1) == ["message"]
