"""Kills of two processes in the middle of messages to many clients, which come and go at both."""

import asyncio
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from tests.cluster.processes import cluster_url, processes_over
from tests.pubsub.irn.test_fan_out_kills import TOPICS, Receiver, joined, publish
from tests.support.postgres import PostgresServer, needs_postgres
from tests.support.slow import SLOW

pytestmark = needs_postgres

_KILLS = 20 if SLOW else 2
_RECEIVERS = 12
_ROOM: dict[str, Any] = {
    "max_topic_messages": 100_000,
    "max_topic_bytes": 100_000_000,
    "max_address_messages": 1_000_000,
    "max_client_messages": 1_000_000,
}


async def test_no_answered_message_is_missing_and_none_comes_again(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    chance, numbers = Random(11), count()
    receivers, answered = [Receiver() for _ in range(_RECEIVERS)], list[str]()
    url = await cluster_url(postgres, "fan_out")
    async with (
        processes_over(url, tmp_path, **_ROOM) as pair,
        aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=None)) as session,
    ):
        for receiver in receivers:
            async with joined(session, pair[0].url, receiver.identity) as socket:
                await socket.subscribe(*TOPICS)
        for number in range(_KILLS):
            goal = len(answered) + chance.randint(60, 400)
            async with AsyncExitStack() as stack:
                work = []
                for place, receiver in enumerate(chance.sample(receivers, _RECEIVERS * 3 // 4)):
                    joining = joined(session, pair[place % 2].url, receiver.identity)
                    socket = await stack.enter_async_context(joining)
                    work.append(asyncio.create_task(receiver.listen(socket, chance)))
                for process in pair:
                    socket = await stack.enter_async_context(
                        joined(session, process.url, Receiver().identity)
                    )
                    work.append(asyncio.create_task(publish(socket, numbers, answered)))
                while len(answered) < goal and not any(task.done() for task in work):
                    await asyncio.wait(work, timeout=0.02, return_when=asyncio.FIRST_COMPLETED)
                pair[number % 2].process.kill()
                for task in work:
                    task.cancel()
                await asyncio.wait(work)
            await asyncio.to_thread(pair[number % 2].process.start)
        for place, receiver in enumerate(receivers):
            async with joined(session, pair[place % 2].url, receiver.identity) as socket:
                await receiver.take_the_rest(socket)

    assert len(answered) >= 60 * _KILLS
    assert [set(answered) - receiver.received for receiver in receivers] == [set()] * _RECEIVERS
    assert [receiver.repeated for receiver in receivers] == [[]] * _RECEIVERS
    assert sum(len(receiver.confirmed) for receiver in receivers) > len(answered)
