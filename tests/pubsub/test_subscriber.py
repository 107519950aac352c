"""What a socket's party does at moments that no client can bring about."""

import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from aiohttp import WSCloseCode

from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import IdMaker
from bridge_server.pubsub.queues import OpenSockets, QueueLimits, Share, SocketLimits, SocketShares
from bridge_server.pubsub.v1_sockets import PubSub, Subscriber
from bridge_server.pubsub.v1_store import Journal, Message, TopicStore
from bridge_server.pubsub.v1_topics import Topics
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.web.sockets import Socket

_PING = (b"frame", b"payload")


class Outlet(Socket):
    """A socket without a client, which remembers what became of it."""

    def __init__(self) -> None:
        self.pushed: list[bytes] = []
        self.ended: list[int] = []
        self.is_aborted = False

    def push(self, frame: bytes) -> None:
        self.pushed.append(frame)

    async def drain(self) -> None:
        pass

    def end(self, code: int, reason: str) -> None:
        self.ended.append(code)

    def abort(self) -> None:
        self.is_aborted = True


@pytest.fixture
def pubsub(tmp_path: Path) -> PubSub:
    """Nothing is stored here."""
    share = Share(messages=10, size_bytes=1_000)
    limits = SocketLimits(per_address=1, topics=1, address_topics=1, unacknowledged=10, heartbeat_seconds=60)
    store = TopicStore(SqliteDatabase(tmp_path / "unopened", Events()))
    clock, queue = SystemClock(), QueueLimits(share, share, lifetime_ms=60_000)

    def delivering(refuse: Callable[[Message, BridgeError], None]) -> tuple[Journal, Topics]:
        journal = Journal(store, clock, IdMaker(), queue, refuse)
        return journal, Topics(store, journal, clock, queue)

    sockets: OpenSockets[Subscriber] = OpenSockets(SocketShares(limits, Counter()), lambda: 60)
    return PubSub(store, delivering, sockets, lambda _: None, os.urandom)


def test_a_socket_that_opens_while_the_server_stops_is_ended_as_well(pubsub: PubSub) -> None:
    subscriber, outlet = pubsub.welcome(None), Outlet()

    pubsub.close()
    subscriber.join(outlet)

    assert outlet.ended == [WSCloseCode.GOING_AWAY]


def test_a_socket_without_a_frame_between_two_pings_is_dead(pubsub: PubSub) -> None:
    subscriber, outlet = pubsub.welcome(None), Outlet()
    subscriber.join(outlet)

    subscriber.probe(*_PING)
    subscriber.probe(*_PING)

    assert (outlet.pushed, outlet.is_aborted) == ([_PING[0]], True)


async def test_a_socket_that_reads_its_backlog_is_alive(pubsub: PubSub) -> None:
    subscriber, outlet = pubsub.welcome(None), Outlet()
    subscriber.join(outlet)

    subscriber.probe(*_PING)
    await subscriber.drain()
    subscriber.probe(*_PING)

    assert (outlet.pushed, outlet.is_aborted) == ([_PING[0]] * 2, False)
