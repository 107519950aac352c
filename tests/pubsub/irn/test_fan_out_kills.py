"""SIGKILL and SIGTERM in the middle of messages to many clients: none that was answered is missing, and none
comes again once its acknowledgement was confirmed.
"""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import aiohttp

from tests.support.irn_client import Identity, IrnClient, irn_connected, topic_of
from tests.support.server import server_process
from tests.support.slow import SLOW

TOPICS = tuple(topic_of(f"topic {number}") for number in range(3))
_KILLS = 20 if SLOW else 4
_RECEIVERS = 12
_ROOM = {
    "BRIDGE_MAX_TOPIC_MESSAGES": "100000",
    "BRIDGE_MAX_TOPIC_BYTES": "100000000",
    "BRIDGE_MAX_ADDRESS_MESSAGES": "1000000",
    "BRIDGE_MAX_CLIENT_MESSAGES": "1000000",
}
_TIMEOUT = aiohttp.ClientTimeout(total=None)


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
                self.received.add(text)
                if text in self.confirmed:
                    self.repeated.append(text)
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
                text = each["message"]
                self.received.add(text)
                if text in self.confirmed:
                    self.repeated.append(text)
            if not fetched["hasMore"]:
                return


@asynccontextmanager
async def joined(session: aiohttp.ClientSession, url: str, identity: Identity) -> AsyncIterator[IrnClient]:
    now = int(time.time())
    token = identity.token(iat=now, exp=now + 3600)
    async with irn_connected(session, url, identity, token=token) as client:
        yield client


async def publish(socket: IrnClient, numbers: "count[int]", answered: list[str]) -> None:
    """Batches for all topics, until the socket ends."""
    while True:
        texts = [str(next(numbers)) for _ in range(30)]
        messages = [
            {"topic": TOPICS[place % len(TOPICS)], "message": text, "ttl": 3600}
            for place, text in enumerate(texts)
        ]
        await socket.ask("irn_batchPublish", {"messages": messages})
        answered += texts


async def test_kills_and_stops_in_the_middle_of_messages_to_many_clients(tmp_path: Path) -> None:
    chance, numbers = Random(7), count()
    receivers, answered = [Receiver() for _ in range(_RECEIVERS)], list[str]()
    async with aiohttp.ClientSession(timeout=_TIMEOUT) as session:
        with server_process(tmp_path / "data", environment=_ROOM) as server:
            async with AsyncExitStack() as stack:
                for receiver in receivers:
                    socket = await stack.enter_async_context(joined(session, server.url, receiver.identity))
                    await socket.subscribe(*TOPICS)
            for number in range(_KILLS):
                goal = len(answered) + chance.randint(60, 400)
                async with AsyncExitStack() as stack:
                    here = chance.sample(receivers, _RECEIVERS * 3 // 4)
                    sockets = [
                        await stack.enter_async_context(joined(session, server.url, each.identity))
                        for each in [*here, Receiver()]
                    ]
                    work = [
                        asyncio.create_task(each.listen(socket, chance))
                        for each, socket in zip(here, sockets, strict=False)
                    ]
                    work.append(asyncio.create_task(publish(sockets[-1], numbers, answered)))
                    while len(answered) < goal and not work[-1].done():
                        await asyncio.wait([work[-1]], timeout=0.02)
                    if number % 4 == 3:
                        await asyncio.to_thread(server.stop)
                    else:
                        server.kill()
                    done, _ = await asyncio.wait(work)
                    assert all(task.exception() is not None for task in done)
                await asyncio.to_thread(server.start)
            for receiver in receivers:
                async with joined(session, server.url, receiver.identity) as socket:
                    await receiver.take_the_rest(socket)
                    with suppress(TimeoutError):
                        await socket.settled()

    assert len(answered) >= 60 * _KILLS
    assert [set(answered) - receiver.received for receiver in receivers] == [set()] * _RECEIVERS
    assert [receiver.repeated for receiver in receivers] == [[]] * _RECEIVERS
    assert sum(len(receiver.confirmed) for receiver in receivers) > len(answered)
