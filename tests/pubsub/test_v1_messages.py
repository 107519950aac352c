"""Generation 1.x: publishing, subscribing, acknowledging, and frames that are no messages.

White-box: aiohttp's client sends no broken frame, so the bytes go to its transport.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

import orjson
from aiohttp import WSCloseCode, WSMsgType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from bridge_server.kernel.clock import SystemClock
from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import IdMaker
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.queues import OpenSockets, QueueLimits, Share, SocketLimits, SocketShares
from bridge_server.pubsub.v1_sockets import PubSub, Subscriber
from bridge_server.pubsub.v1_store import Journal, Message, TopicStore
from bridge_server.pubsub.v1_topics import Deliveries, SharedTopics, Topics
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.web.sockets import Socket
from tests.pubsub.conftest import Connect
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import PATIENCE_SECONDS, connected, spelled
from tests.support.waiting import turns


async def test_every_subscriber_at_any_path_receives_a_message_once(connect: Connect) -> None:
    paths = ("/", "/compat/v1", "/?protocol=wc&version=1&env=browser&host=dapp.example", "/compat/v1?env=x")
    wallets, dapp = [await connect(path) for path in paths], await connect()
    for wallet in wallets:
        await wallet.subscribe("topic", "topic", "topic")

    await dapp.publish("other", "of another topic")
    await dapp.publish("topic", "one", "two")

    message = {"topic": "topic", "type": "pub", "silent": True}
    for wallet in wallets:
        assert [await wallet.message() for _ in range(2)] == [
            {**message, "payload": "one"},
            {**message, "payload": "two"},
        ]
        await wallet.nothing()


async def test_a_message_comes_as_the_published_clients_write_it(connect: Connect) -> None:
    wallet, dapp = await connect(), await connect()
    await wallet.subscribe("topic")
    await dapp.socket.send_str(
        '{"type": "pub", "payload": "\\u00e9\\"", "extra": {"topic": 1}, "topic": "topic"}'
    )

    text = (await wallet.socket.receive(PATIENCE_SECONDS)).data
    assert text == '{"topic":"topic","type":"pub","payload":"é\\"","silent":false}'


async def test_a_message_without_another_subscriber_waits_for_one(connect: Connect) -> None:
    sender, other = await connect(), await connect()
    await sender.subscribe("topic")
    await sender.publish("topic", "mine")
    await sender.publish("later", "mine")
    await other.publish("later", "yours")
    await other.subscribe("topic", "later")
    await sender.subscribe("later")

    assert await other.payloads(2) == ["mine", "mine"]
    assert await sender.payloads(1) == ["yours"]


async def test_messages_wait_in_the_order_in_which_they_came(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    payloads = [f"message {number}" for number in range(200)]
    await dapp.publish("topic", *payloads[:150])
    await wallet.say("topic", "sub")
    await dapp.publish("topic", *payloads[150:])

    assert await wallet.payloads(200) == payloads


async def test_an_acknowledged_message_is_not_sent_again_and_others_are(connect: Connect) -> None:
    dapp, wallet, later, last = [await connect() for _ in range(4)]
    await dapp.publish("other", "of another topic")
    await dapp.publish("topic", "one", "two", "three")
    await wallet.subscribe("other", "topic")
    await wallet.acknowledge("topic", times=2)

    await later.subscribe("other", "topic")
    assert await later.payloads(2) == ["of another topic", "three"]
    later.vanish()
    await last.subscribe("other", "topic")
    assert await last.payloads(2) == ["of another topic", "three"]


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


async def test_any_text_of_1_to_128_characters_is_a_topic_and_any_text_is_a_payload(
    connect: Connect,
) -> None:
    dapp, wallet = await connect(), await connect()
    payloads = ["", "x" * 100_000, "\u0000", '😀\u2028\\"</script>', '{"data":"ab"}']
    for topic in ("t", "😀" * 128):
        await dapp.publish(topic, *payloads)
        await wallet.subscribe(topic)
        await dapp.publish(topic, "live")

        assert await wallet.payloads(6) == [*payloads, "live"]


async def test_binary_frames_with_json_are_messages(connect: Connect) -> None:
    dapp, wallet = await connect(), await connect()
    await wallet.socket.send_bytes(b'{"topic":"topic","type":"sub"}')
    await wallet.settled()
    await dapp.socket.send_bytes(spelled("topic", "pub", "é").encode())

    assert await wallet.payloads(1) == ["é"]


# A frame that is no message closes the socket that it came on, and nothing else notices.

NO_MESSAGE = ["[]", "null", "{}", spelled("t", "sub")[:-1] + ',"x":' + "[" * 60 + "]" * 60 + ',"type":1}']
FAULTS = [
    ('{"type":"sub"}', "topic"), (spelled("", "sub"), "topic"), (spelled("t" * 129, "sub"), "topic"),
    (spelled("a\0", "sub"), "topic"), (spelled(["t"], "pub", "p"), "topic"),
    ('{"topic":"t"}', "type"), (spelled("t", "PUB", "p"), "type"), (spelled("t", ["pub"], "p"), "type"),
    ('{"topic":"t","type":"pub"}', "payload"), (spelled("t", "pub", {"data": "x"}), "payload"),
    (spelled("t", "pub", "p", "true"), "silent"), (spelled("t", "ack", "", None), "silent"),
]  # fmt: skip
# A reserved opcode, reserved bits, a fragmented ping, and a continuation of nothing.


@each_row(
    ("kind", "frame", "code", "reason"),
    [
        *(
            (WSMsgType.TEXT, frame, 1007, "The frame is not JSON: ")
            for frame in ("", "nope", '{"topic":"\\ud800","type":"sub"}', "[" * 100_000)
        ),
        *((WSMsgType.TEXT, frame, 1007, "") for frame in (b"\xff", b'{"topic":"\xc3("}', b"\xed\xa0\x80")),
        (WSMsgType.BINARY, b"nope", 1007, "The frame is not JSON: "),
        *(
            (WSMsgType.BINARY, frame, 1007, "The frame is not JSON: it is not UTF-8.")
            for frame in (b"\xff", b'{"\xc3("}')
        ),
        *((WSMsgType.TEXT, frame, 1008, "") for frame in NO_MESSAGE),
        *((WSMsgType.TEXT, frame, 1008, f"{member} must be ") for frame, member in FAULTS),
        # A reserved opcode, reserved bits, a fragmented ping, and a continuation of nothing.
        *((None, bytes([head, 0x80, 0, 0, 0, 0]), 1002, "") for head in (0x83, 0xF1, 0x09, 0x80)),
    ],
)
async def test_a_frame_that_is_no_message_closes_its_socket_with_a_code_and_a_reason(
    connect: Connect, kind: WSMsgType | None, frame: str | bytes, code: int, reason: str
) -> None:
    client = await connect()
    data = frame.encode() if isinstance(frame, str) else frame
    if kind is None:
        client.socket._writer.transport.write(data)
    else:
        await client.socket.send_frame(data, kind)

    found, said = await client.closed()
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


_ANY_OBJECT = st.dictionaries(
    st.sampled_from(["topic", "type", "payload", "silent"]),
    st.one_of(
        st.none(), st.booleans(), st.integers(-9, 9), st.sampled_from(["pub", "sub", "ack"]),
        st.text(max_size=3), st.lists(st.none(), max_size=2),
    ),
).map(orjson.dumps)  # fmt: skip


@settings(suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture])
@given(frame=st.one_of(st.binary(max_size=200), st.text(max_size=200).map(str.encode), _ANY_OBJECT))
async def test_any_frame_is_accepted_or_closes_the_socket_with_a_code(
    server: RunningServer, frame: bytes
) -> None:
    async with connected(server.client, server.url) as socket:
        await socket.socket.send_frame(frame, WSMsgType.TEXT)
        await socket.socket.ping(b"still there?")
        message = await socket.socket.receive(PATIENCE_SECONDS)

        if message.type is WSMsgType.CLOSE:
            assert message.data in (1007, 1008)
            assert message.extra
        else:
            assert message.type is WSMsgType.PONG


class Outlet(Socket):
    """A socket without a client, which remembers what became of it. An abort is an error."""

    def __init__(self) -> None:
        self.pushed: list[bytes] = []
        self.ended: list[int] = []

    def push(self, frame: bytes) -> None:
        self.pushed.append(frame)

    async def drain(self) -> None:
        pass

    def end(self, code: int, reason: str) -> None:
        self.ended.append(code)


def service(store: TopicStore, *, is_shared: bool = False) -> PubSub:
    """The service over this store, as one process has it, or one of several."""
    share = Share(messages=10, size_bytes=1_000)
    limits = SocketLimits(per_address=2, topics=1, address_topics=1, unacknowledged=10, heartbeat_seconds=60)
    clock, queue = SystemClock(), QueueLimits(share, share, lifetime_ms=60_000)

    def delivering(refuse: Callable[[Message, BridgeError], None]) -> tuple[Journal, Deliveries]:
        journal = Journal(store, clock, IdMaker(), queue, refuse)
        if is_shared:
            return journal, SharedTopics(store, journal, clock, queue, Events())
        return journal, Topics(store, journal, clock, queue)

    sockets: OpenSockets[Subscriber] = OpenSockets(SocketShares(limits, Counter()), lambda: 60)
    return PubSub(store, delivering, sockets, lambda _: None, os.urandom)


async def test_a_socket_that_reads_its_backlog_is_alive_and_one_that_opens_during_a_stop_is_ended(
    tmp_path: Path,
) -> None:
    pubsub = service(TopicStore(SqliteDatabase(tmp_path / "unopened", Events())))  # nothing is stored
    (alive, one), (late, other) = [(pubsub.welcome(None), Outlet()) for _ in range(2)]
    alive.join(one)

    alive.probe(b"frame", b"payload")
    await alive.drain()
    alive.probe(b"frame", b"payload")
    pubsub.close()
    late.join(other)

    assert one.pushed == [b"frame"] * 2
    assert other.ended == [WSCloseCode.GOING_AWAY]


class HeldStore(TopicStore):
    """A store without messages, which says so once it may."""

    def __init__(self, database: SqliteDatabase) -> None:
        super().__init__(database)
        self.may_answer = asyncio.Event()

    async def waiting(self, topic: Topic, now_ms: int) -> Sequence[Message]:
        return await self.after(topic, 0, now_ms, 1)

    async def after(self, topic: Topic, number: int, now_ms: int, limit: int) -> Sequence[Message]:
        await self.may_answer.wait()
        return []


@each_row("is_shared", [False, True])
async def test_a_socket_that_leaves_while_it_subscribes_is_forgotten(tmp_path: Path, is_shared: bool) -> None:
    store = HeldStore(SqliteDatabase(tmp_path / "unopened", Events()))
    pubsub = service(store, is_shared=is_shared)
    one, other = [pubsub.welcome(None) for _ in range(2)]
    subscribing = [each.hear(spelled("topic", "sub").encode()) for each in (one, other)]
    waiting = [asyncio.ensure_future(each) for each in subscribing if each is not None]
    await turns()

    one.leave()
    store.may_answer.set()
    await asyncio.gather(*waiting)

    assert (len(waiting), pubsub.sockets, pubsub.topics) == (2, 1, 1)
    other.leave()
    assert (pubsub.sockets, pubsub.topics) == (0, 0)
