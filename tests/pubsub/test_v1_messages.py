"""Generation 1.x: publishing, subscribing, acknowledging, and frames that are no messages."""

import os
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
from aiohttp import WSCloseCode, WSMsgType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

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
from tests.pubsub.conftest import Connect
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import SocketClient, connected, spelled

# Publishing, subscribing, acknowledging.


@each_row(
    "path", ["/", "/compat/v1", "/?protocol=wc&version=1&env=browser&host=dapp.example", "/compat/v1?env=x"]
)
async def test_a_subscriber_receives_published_messages(connect: Connect, path: str) -> None:
    wallet, dapp = await connect(path), await connect()
    await wallet.subscribe("topic")

    await dapp.publish("topic", "payload")

    message = await wallet.message()
    assert message == {"topic": "topic", "type": "pub", "payload": "payload", "silent": True}


async def test_a_message_comes_as_the_published_clients_write_it(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.subscribe("topic")

    await dapp.socket.send_str(
        '{"type": "pub", "payload": "\\u00e9\\"", "extra": {"topic": 1}, "topic": "topic"}'
    )

    text = (await wallet.socket.receive(10)).data
    assert text == '{"topic":"topic","type":"pub","payload":"é\\"","silent":false}'


async def test_a_subscriber_receives_no_messages_of_other_topics(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.subscribe("topic")

    await dapp.publish("other", "payload")

    await wallet.nothing()


async def test_every_socket_on_a_topic_receives_a_message_once(connect: Connect) -> None:
    wallets, dapp = [await connect() for _ in range(3)], await connect()
    for wallet in wallets:
        await wallet.subscribe("topic", "topic", "topic")

    await dapp.publish("topic", "one", "two")

    assert [await wallet.payloads(2) for wallet in wallets] == [["one", "two"]] * 3


async def test_a_message_without_another_subscriber_waits_for_one(connect: Connect) -> None:
    sender = await connect()
    await sender.subscribe("topic")
    await sender.publish("topic", "payload")

    other = await connect()
    await other.subscribe("topic")

    assert await other.payloads(1) == ["payload"]
    await sender.nothing()


async def test_a_socket_that_subscribes_later_does_not_receive_its_own_messages(connect: Connect) -> None:
    sender, other = await connect(), await connect()
    await sender.publish("topic", "mine")
    await other.publish("topic", "yours")

    await sender.subscribe("topic")

    assert await sender.payloads(1) == ["yours"]


async def test_messages_wait_in_the_order_in_which_they_came(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    payloads = [f"message {number}" for number in range(200)]
    await dapp.publish("topic", *payloads[:150])
    await wallet.say("topic", "sub")
    await dapp.publish("topic", *payloads[150:])

    assert await wallet.payloads(200) == payloads


async def test_an_acknowledged_message_is_not_sent_again(connect: Connect) -> None:
    dapp, wallet, later = await connect(), await connect(), await connect()
    await dapp.publish("other", "of another topic")
    await dapp.publish("topic", "one", "two", "three")
    await wallet.subscribe("other", "topic")
    await wallet.acknowledge("topic", times=2)

    await later.subscribe("other", "topic")

    assert await later.payloads(2) == ["of another topic", "three"]


async def test_an_unacknowledged_message_is_sent_to_the_next_subscriber(connect: Connect) -> None:
    dapp, wallet, later = await connect(), await connect(), await connect()
    await wallet.subscribe("topic")
    await dapp.publish("topic", "one", "two")
    assert await wallet.payloads(2) == ["one", "two"]
    wallet.vanish()

    await later.subscribe("topic")

    assert await later.payloads(2) == ["one", "two"]


async def test_the_first_acknowledgement_of_several_receivers_counts(connect: Connect) -> None:
    dapp, one, other, later = [await connect() for _ in range(4)]
    await one.subscribe("topic")
    await other.subscribe("topic")
    await dapp.publish("topic", "one", "two")

    await one.acknowledge("topic")
    await other.acknowledge("topic")
    await later.subscribe("topic")

    assert await later.payloads(1) == ["two"]


async def test_an_acknowledgement_without_a_message_is_ignored(connect: Connect) -> None:
    dapp, wallet, stranger = await connect(), await connect(), await connect()
    await dapp.publish("topic", "payload")
    await stranger.acknowledge("topic", times=3)
    await stranger.acknowledge("other")

    await wallet.acknowledge("topic")  # as the published client does after its connection broke off
    await wallet.subscribe("topic")

    assert await wallet.payloads(1) == ["payload"]


@each_row("topic", ["t", "😀" * 128])
async def test_any_text_of_1_to_128_characters_is_a_topic(connect: Connect, topic: str) -> None:
    dapp, wallet = await connect(), await connect()
    await dapp.publish(topic, "waited", silent=False)
    await wallet.subscribe(topic)
    await dapp.publish(topic, "live", silent=False)

    assert await wallet.payloads(2) == ["waited", "live"]


@pytest.mark.parametrize("payload", ["", "x" * 100_000, "\u0000", '😀\u2028\\"</script>', '{"data":"ab"}'])
async def test_any_text_is_a_payload(connect: Connect, payload: str) -> None:
    dapp, wallet = await connect(), await connect()
    await dapp.publish("topic", payload)

    await wallet.subscribe("topic")

    assert await wallet.payloads(1) == [payload]


async def test_binary_frames_with_json_are_messages(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    await wallet.socket.send_bytes(b'{"topic":"topic","type":"sub"}')
    await wallet.settled()

    await dapp.socket.send_bytes(spelled("topic", "pub", "é").encode())

    assert await wallet.payloads(1) == ["é"]


# A frame that is no message closes the socket that it came on, and nothing else notices.

NOT_JSON = ["", "nope", '{"topic":"\\ud800","type":"sub"}', "[" * 100_000]
NO_MESSAGE = ["[]", "null", "{}", spelled("t", "sub")[:-1] + ',"x":' + "[" * 60 + "]" * 60 + ',"type":1}']
# A reserved opcode, reserved bits, a fragmented ping, and a continuation of nothing.
VIOLATIONS = (0x83, 0xF1, 0x09, 0x80)
FAULTS = [
    ('{"type":"sub"}', "topic"), (spelled("", "sub"), "topic"), (spelled("t" * 129, "sub"), "topic"),
    (spelled("a\0", "sub"), "topic"), (spelled(["t"], "pub", "p"), "topic"),
    ('{"topic":"t"}', "type"), (spelled("t", "PUB", "p"), "type"), (spelled("t", ["pub"], "p"), "type"),
    ('{"topic":"t","type":"pub"}', "payload"), (spelled("t", "pub", {"data": "x"}), "payload"),
    (spelled("t", "pub", "p", "true"), "silent"), (spelled("t", "ack", "", None), "silent"),
]  # fmt: skip


async def send_raw(socket: SocketClient, frame: bytes) -> None:
    socket.socket._writer.transport.write(frame)


async def send_text(socket: SocketClient, frame: str | bytes) -> None:
    await socket.socket.send_frame(frame.encode() if isinstance(frame, str) else frame, WSMsgType.TEXT)


async def send_binary(socket: SocketClient, frame: bytes) -> None:
    await socket.socket.send_bytes(frame)


@each_row(
    ("send", "frame", "code", "reason"),
    [
        *((send_text, frame, 1007, "The frame is not JSON: ") for frame in NOT_JSON),
        *((send_text, frame, 1007, "") for frame in (b"\xff", b'{"topic":"\xc3("}', b"\xed\xa0\x80")),
        *((send_binary, each, 1007, "The frame is not JSON: ") for each in (b"nope", b"\xff", b'{"\xc3("}')),
        *((send_text, frame, 1008, "") for frame in NO_MESSAGE),
        *((send_text, frame, 1008, f"{member} must be ") for frame, member in FAULTS),
        *((send_raw, bytes([head, 0x80, 0, 0, 0, 0]), 1002, "") for head in VIOLATIONS),
    ],
)
async def test_a_frame_that_is_no_message_closes_its_socket_with_a_code_and_a_reason(
    connect: Connect, send: Callable[..., Awaitable[None]], frame: Any, code: int, reason: str
) -> None:
    socket = await connect()

    await send(socket, frame)

    found, said = await socket.closed()
    assert found == code
    assert said.startswith(reason)


async def test_a_message_over_the_size_limit_closes_the_socket_with_1009(connect: Connect) -> None:
    empty = len(spelled("topic", "pub", ""))
    dapp, wallet = await connect(), await connect()
    await dapp.publish("topic", "x" * (262_144 - empty))
    await wallet.subscribe("topic")

    await dapp.say("topic", "pub", "x" * (262_144 - empty + 1))

    assert await dapp.closed() == (1009, "A message may have at most 262144 bytes.")
    assert len((await wallet.payloads(1))[0]) == 262_144 - empty


async def test_a_bad_frame_closes_its_socket_alone_and_only_messages_before_it_count(
    connect: Connect,
) -> None:
    dapp, bad, wallet = await connect(), await connect(), await connect()
    await wallet.subscribe("topic")
    await bad.subscribe("topic")
    await bad.publish("topic", "before")

    await bad.socket.send_str("nope")
    await bad.say("topic", "pub", "after the bad frame")
    await bad.closed()
    await dapp.publish("topic", "after")

    assert await wallet.payloads(2) == ["before", "after"]


_ANY_VALUE = st.one_of(
    st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["pub", "sub", "ack"]), st.text(max_size=3),
    st.lists(st.none(), max_size=2),
)  # fmt: skip
_MEMBERS = st.sampled_from(["topic", "type", "payload", "silent"])
_ANY_OBJECT = st.dictionaries(_MEMBERS, _ANY_VALUE).map(orjson.dumps)


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(frame=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode), _ANY_OBJECT))
async def test_any_frame_is_accepted_or_closes_the_socket_with_a_code(
    server: RunningServer, frame: bytes
) -> None:
    async with connected(server.client, server.url) as socket:
        await socket.socket.send_frame(frame, WSMsgType.TEXT)
        await socket.socket.ping(b"still there?")
        message = await socket.socket.receive(10)

        if message.type is WSMsgType.CLOSE:
            assert message.data in (1007, 1008)
            assert message.extra
        else:
            assert message.type is WSMsgType.PONG


# What a socket's party does at moments that no client can bring about.


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


async def test_a_socket_that_reads_its_backlog_is_alive(pubsub: PubSub) -> None:
    subscriber, outlet = pubsub.welcome(None), Outlet()
    subscriber.join(outlet)

    subscriber.probe(*_PING)
    await subscriber.drain()
    subscriber.probe(*_PING)

    assert (outlet.pushed, outlet.is_aborted) == ([_PING[0]] * 2, False)
