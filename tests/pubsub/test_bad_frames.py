"""A frame that is no message closes the socket that it came on, and nothing else notices."""

import aiohttp
import orjson
from aiohttp import WSMsgType
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.pubsub.conftest import Connect
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import connected, spelled

NOT_JSON = [
    "", " ", "nope", "{", '{"topic":"t"', "{'topic':'t'}", "[1,]", "NaN",
    '{"topic":"t","type":"sub",}', "\ufeff{}",
    '{"topic":"\\ud800","type":"sub"}', "[" * 100_000, '{"a":' * 20_000, '{"topic":1e999999}x',
]  # fmt: skip
NO_MESSAGE = [
    "[]", "1", "null", "true", '"text"', "{}", '[{"topic":"t","type":"sub"}]', "[" * 60 + "]" * 60,
    spelled("t", "sub")[:-1] + ',"x":' + "[" * 60 + "]" * 60 + ',"type":1}',
]  # fmt: skip
FAULTS = [
    ('{"type":"sub"}', "topic"), (spelled("", "sub"), "topic"), (spelled("t" * 129, "sub"), "topic"),
    (spelled(1, "sub"), "topic"), (spelled(None, "ack"), "topic"), (spelled(["t"], "pub", "p"), "topic"),
    ('{"topic":"t"}', "type"), (spelled("t", "PUB", "p"), "type"), (spelled("t", "unsub"), "type"),
    (spelled("t", None), "type"), (spelled("t", 1), "type"), (spelled("t", ["pub"], "p"), "type"),
    ('{"topic":"t","type":"pub"}', "payload"), (spelled("t", "pub", None), "payload"),
    (spelled("t", "pub", {"data": "x"}), "payload"), (spelled("t", "pub", 1), "payload"),
    (spelled("t", "pub", "p", "true"), "silent"), (spelled("t", "sub", "", 1), "silent"),
    (spelled("t", "ack", "", None), "silent"),
]  # fmt: skip


@each_row("frame", NOT_JSON, ids=range(len(NOT_JSON)))
async def test_a_frame_that_is_not_json_closes_the_socket_with_1007(connect: Connect, frame: str) -> None:
    socket = await connect()

    await socket.socket.send_str(frame)

    code, reason = await socket.closed()
    assert (code, reason[:25]) == (1007, "The frame is not JSON: " + reason[23:25])


@each_row("frame", [b"\xff", b'{"topic":"\xc3("}', b"\xed\xa0\x80"])
async def test_a_frame_that_is_not_utf_8_closes_the_socket_with_1007(connect: Connect, frame: bytes) -> None:
    socket = await connect()

    await socket.socket.send_frame(frame, WSMsgType.TEXT)

    assert (await socket.closed())[0] == 1007


@each_row("frame", [b"nope", b"\xff", b'{"topic":"\xc3("}'])
async def test_a_binary_frame_that_is_not_json_closes_the_socket_with_1007(
    connect: Connect, frame: bytes
) -> None:
    socket = await connect()

    await socket.socket.send_bytes(frame)

    code, reason = await socket.closed()
    assert (code, reason[:23]) == (1007, "The frame is not JSON: ")


@each_row("frame", NO_MESSAGE, ids=range(len(NO_MESSAGE)))
async def test_json_that_is_no_message_closes_the_socket_with_1008(connect: Connect, frame: str) -> None:
    socket = await connect()

    await socket.socket.send_str(frame)

    assert (await socket.closed())[0] == 1008


@each_row(("frame", "member"), FAULTS)
async def test_the_reason_names_the_member_that_is_wrong(connect: Connect, frame: str, member: str) -> None:
    socket = await connect()

    await socket.socket.send_str(frame)

    code, reason = await socket.closed()
    assert code == 1008
    assert reason.startswith(f"{member} must be ")


async def test_a_message_over_the_size_limit_closes_the_socket_with_1009(connect: Connect) -> None:
    empty = len(spelled("topic", "pub", ""))
    dapp, wallet = await connect(), await connect()
    await dapp.publish("topic", "x" * (262_144 - empty))
    await wallet.subscribe("topic")

    await dapp.say("topic", "pub", "x" * (262_144 - empty + 1))

    assert await dapp.closed() == (1009, "A message may have at most 262144 bytes.")
    assert len((await wallet.payloads(1))[0]) == 262_144 - empty


async def test_a_message_in_too_many_fragments_closes_the_socket_with_1009(connect: Connect) -> None:
    socket = await connect()
    writer = socket.socket._writer
    writer.transport.write(b"\x01\x80\x00\x00\x00\x00")
    for _ in range(5):
        writer.transport.write(b"\x00\xff" + (65_536).to_bytes(8) + bytes(4) + b"x" * 65_536)

    assert (await socket.closed())[0] == 1009


async def test_a_bad_frame_closes_only_its_socket_and_keeps_earlier_messages(connect: Connect) -> None:
    dapp, bad, wallet = await connect(), await connect(), await connect()
    await wallet.subscribe("topic")
    await bad.subscribe("topic")
    await bad.publish("topic", "before")

    await bad.socket.send_str("nope")
    await bad.closed()
    await dapp.publish("topic", "after")

    assert await wallet.payloads(2) == ["before", "after"]


async def test_frames_after_a_bad_frame_are_ignored(connect: Connect) -> None:
    bad, wallet = await connect(), await connect()
    await wallet.subscribe("topic")

    await bad.socket.send_str("nope")
    await bad.say("topic", "pub", "after")
    await bad.closed()

    await wallet.nothing()


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


@each_row(
    "frame",
    [bytes([head, 0x80, 0, 0, 0, 0]) for head in (0x83, 0xF1, 0x09, 0x80)],
    ids=["reserved opcode", "reserved bits", "fragmented ping", "continuation of nothing"],
)
async def test_a_protocol_violation_closes_the_socket_with_1002(connect: Connect, frame: bytes) -> None:
    socket = await connect()

    socket.socket._writer.transport.write(frame)

    assert (await socket.closed())[0] == aiohttp.WSCloseCode.PROTOCOL_ERROR
