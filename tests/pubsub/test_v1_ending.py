"""Generation 1.x: how sockets end, and handshakes that are none.

White-box: how long the disk is waited for and a goodbye may take has no setting; aiohttp's client shows the
headers of a handshake only inside.
"""

import asyncio
import os
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import aiohttp
import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.limits import Quotas
from bridge_server.web.metrics import RequestFigures
from bridge_server.web.open_connections import ConnectionLimits, Connections, UnreadLimits
from bridge_server.web.problems import RequestIds
from bridge_server.web.request_log import Refusals, Reporting, RequestLines
from bridge_server.web.routes import Access, Route
from bridge_server.web.serving import Charging, Gateway
from bridge_server.web.sockets import Socket
from tests.pubsub.conftest import Connect, opened, origin, until_open
from tests.support.asking import METRICS_TOKEN, ask, ask_raw, spell
from tests.support.clock import ManualClock, PassTime
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import SocketClient, connected
from tests.support.waiting import locked

_HEARTBEAT_SECONDS = 20.0  # which the tests let pass; a client that lets two pass in silence counts as dead
PINGED: dict[str, Any] = {"heartbeat": _HEARTBEAT_SECONDS, "metrics_token": METRICS_TOKEN}


async def answer_ping(server: RunningServer, client: SocketClient, pass_time: PassTime) -> None:
    """Have the server ping, and the client say nothing but its answer, which has arrived then."""
    await pass_time(_HEARTBEAT_SECONDS)
    message = await client.socket.receive(60)
    assert message.type is aiohttp.WSMsgType.PING
    await client.socket.pong(message.data)
    for _ in range(2):
        await ask(server, "GET", "/livez")


async def test_a_socket_that_answers_no_ping_is_dead_and_its_messages_go_to_others(
    tmp_path: Path, pass_time: PassTime
) -> None:
    async with opened(tmp_path, 1, **PINGED) as (server, (dead,)):
        await dead.subscribe("topic")  # nobody reads or answers from here on
        async with connected(server.client, server.url) as dapp:
            await dapp.publish("topic", "payload")
            for _ in range(2):
                await pass_time(_HEARTBEAT_SECONDS)
            await until_open(server, 0)

        async with connected(server.client, server.url) as other:
            await other.subscribe("topic")
            assert await other.payloads(1) == ["payload"]


@pytest.mark.sqlite("another program holds its file")
async def test_a_socket_is_not_dead_and_its_messages_are_not_lost_while_the_disk_is_waited_for(
    tmp_path: Path, pass_time: PassTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.storage.connection.BUSY_TIMEOUT_SECONDS", 60.0)
    monkeypatch.setattr("bridge_server.pubsub.v1_store.PATIENCE_SECONDS", 3_600.0)
    async with opened(tmp_path, 2, **PINGED) as (server, (dapp, idle)):
        with locked(server.settings.database_file):
            for number in range(10):
                await dapp.say("topic", "pub", str(number))
            await dapp.socket.ping(b"settled")
            for _ in range(5):
                await answer_ping(server, idle, pass_time)

        while (message := await dapp.socket.receive(60)).type is aiohttp.WSMsgType.PING:
            pass
        assert message.data == b"settled"
        await idle.subscribe("topic")
        assert await idle.payloads(10) == [str(number) for number in range(10)]


@each_row(("acknowledged", "left"), [(0, []), (1, ["two"])])
async def test_a_pong_settles_earlier_messages_of_a_socket_that_never_acknowledges(
    tmp_path: Path, pass_time: PassTime, acknowledged: int, left: list[str]
) -> None:
    async with opened(tmp_path / f"{acknowledged}", 1, **PINGED) as (server, (wallet,)):
        await wallet.subscribe("topic")
        async with connected(server.client, server.url) as dapp:
            await dapp.publish("topic", "one", "two")
        assert await wallet.payloads(2) == ["one", "two"]
        await wallet.acknowledge("topic", acknowledged)

        for _ in range(1 + 2 * acknowledged):
            await answer_ping(server, wallet, pass_time)

        async with connected(server.client, server.url) as other:
            await other.subscribe("topic")
            assert await other.payloads(len(left)) == left


@each_row("in_good_order", [True, False])
async def test_closed_sockets_leave_nothing_in_memory(server: RunningServer, in_good_order: bool) -> None:
    for _ in range(5):
        async with connected(server.client, server.url) as socket:
            await socket.subscribe("a", "b", "c")
            await until_open(server, 1, topics=3)
            if not in_good_order:
                socket.vanish()

    await until_open(server, 0)


async def test_a_slow_reader_is_closed_and_misses_nothing(
    connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("bridge_server.web.sockets._GOODBYE_SECONDS", 60.0)
    slow, quick, dapp, later = [await connect() for _ in range(4)]
    topics = [f"topic {number}" for number in range(40)]
    await slow.subscribe(*topics)
    await quick.subscribe(topics[0])
    payload = "x" * 250_000

    for _ in range(4):  # 40 MB in all, more than the kernel takes for a client that does not read
        for topic in topics:
            await dapp.say(topic, "pub", payload)
    await dapp.settled()

    assert await quick.payloads(4) == [payload] * 4
    assert await slow.closed() == (1013, "You read too slowly. Connect again for the rest.")
    await later.say(topics[-1], "sub")
    assert [(await later.message())["payload"] for _ in range(4)] == [payload] * 4


async def test_a_socket_with_too_many_unacknowledged_messages_is_closed(tmp_path: Path) -> None:
    async with opened(tmp_path, 3, max_topic_messages=5) as (_, (idle, diligent, dapp)):
        await idle.subscribe("topic")
        await diligent.subscribe("topic")
        for number in range(11):
            await dapp.publish("topic", str(number))
            await diligent.acknowledge("topic")

        reason = "You acknowledge too few messages. Connect again for the rest."
        assert await idle.closed() == (1013, reason)
        assert await diligent.payloads(11) == [str(number) for number in range(11)]


async def test_a_long_backlog_is_sent_as_fast_as_it_is_read(tmp_path: Path) -> None:
    payloads = [f"{number:03}" + "x" * 200_000 for number in range(100)]
    async with opened(tmp_path, 2, max_topic_bytes=2**25) as (_, (dapp, wallet)):
        await dapp.publish("topic", *payloads)
        await wallet.say("topic", "sub")

        assert [(await wallet.message())["payload"] for _ in payloads] == payloads


async def test_a_stopping_server_closes_every_socket_with_a_close_frame(tmp_path: Path) -> None:
    """The server stops although some clients do not read the close frame: a wait for them would not end."""
    async with aiohttp.ClientSession() as client, AsyncExitStack() as stack:
        async with running_server(tmp_path) as server:
            sockets = [await stack.enter_async_context(connected(client, server.url)) for _ in range(25)]
            for silent in sockets[20:]:
                await silent.subscribe("topic")
            goodbyes = asyncio.gather(*(socket.closed() for socket in sockets[:20]))
            await asyncio.sleep(0)

        assert await goodbyes == [(1001, "The server stops. Connect again.")] * 20

    # It has stopped: a wait for a client would have no end.


async def test_the_topics_of_a_socket_are_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, 1, max_socket_topics=3) as (_, (socket,)):
        await socket.subscribe("a", "b", "c", "a", "b")
        await socket.say("d", "sub")

        assert await socket.closed() == (1008, "A socket may subscribe to 3 topics, and no more.")


MINE, OTHERS = "192.0.2.1", "192.0.2.2"


async def test_the_sockets_of_an_address_are_limited(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"max_sockets": 2, "metrics_token": METRICS_TOKEN}
    async with opened(tmp_path, [MINE, MINE, OTHERS], **settings) as (server, (first, second, other)):
        handshake = {
            "Upgrade": "websocket", "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": "A" * 22 + "==",
        }  # fmt: skip
        refused = await ask(server, "GET", "/", headers={**handshake, **origin(MINE)})
        await other.settled()
        await second.socket.close()
        await until_open(server, 2)
        async with connected(server.client, server.url, headers=origin(MINE)) as again:
            await again.settled()
        await first.settled()

    assert refused.problem(429)["type"].endswith(":too-many-sockets")
    assert refused.headers["Retry-After"]


async def test_the_messages_of_an_address_are_rate_limited(tmp_path: Path) -> None:
    async with opened(tmp_path, [MINE, MINE, OTHERS], messages_burst=5) as (server, (one, another, other)):
        await one.say("topic", "sub")
        await one.say("topic", "ack")
        await one.settled()
        for _ in range(3):
            await another.say("topic", "pub")
        code, reason = await another.closed()
        await other.settled()

        server.clock.advance(0.01)
        await one.settled()

    assert (code, reason[:37]) == (1013, "The limit is 5 messages at once, and ")


async def test_acknowledgements_are_not_charged(tmp_path: Path) -> None:
    async with opened(tmp_path, [MINE, OTHERS], messages_burst=4) as (_, (wallet, dapp)):
        await wallet.subscribe("topic")
        for payload in "abc":
            await dapp.say("topic", "pub", payload)
        assert [(await wallet.message())["payload"] for _ in range(3)] == [*"abc"]
        await wallet.acknowledge("topic", times=3)

        for _ in range(2):
            await wallet.say("topic", "ack")  # of nothing
        assert (await wallet.closed())[0] == 1013


async def test_exempt_addresses_have_no_rate_limit(tmp_path: Path) -> None:
    limits: dict[str, Any] = {"messages_burst": 1, "max_sockets": 1, "max_address_messages": 1}
    async with opened(tmp_path, 2, **limits) as (_, (one, other)):
        await one.publish("topic", *"abcdef")
        await other.subscribe("topic")
        assert await other.payloads(6) == [*"abcdef"]


async def test_a_handshake_counts_as_a_request(tmp_path: Path) -> None:
    async with opened(tmp_path, 1, requests_burst=1, quota_exempt="") as (server, (client,)):
        assert client.socket._response.headers["RateLimit"] == '"requests";r=0;t=1'
        (await ask(server, "GET", "/")).problem(429)


async def test_an_invalid_handshake_is_a_400_and_is_not_counted_as_a_socket(tmp_path: Path) -> None:
    upgrade = (b"Connection: Upgrade", b"Upgrade: websocket")
    key, version = b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", b"Sec-WebSocket-Version: 13"
    async with running_server(tmp_path, max_sockets=1, quota_exempt=()) as server:
        for wrong in (
            spell("GET", "/", b"", *upgrade, b"Sec-WebSocket-Key: \xff", version),
            spell("GET", "/", b"", *upgrade, b"Sec-WebSocket-Key: " + b"a" * 21, version),
            *(
                spell("GET", "/", b"", *upgrade, key, b"Sec-WebSocket-Version: " + old)
                for old in (b"12", b"8")
            ),
            spell("GET", "/", b"body", *upgrade, key, version),
            spell("GET", "/", b"", *upgrade),
        ):
            answer = await ask_raw(server, wrong)
            assert "Sec-WebSocket-Key" in answer.problem(400)["detail"], wrong
            is_other = version not in wrong and b"Version" in wrong
            assert answer.headers.get("Sec-WebSocket-Version") == ("13" if is_other else None), wrong

        async with connected(server.client, server.url) as socket:
            await socket.settled()


async def test_a_client_that_leaves_while_its_charge_is_saved_is_not_counted_as_a_socket() -> None:
    party = Mock()

    async def leave_meanwhile() -> None:
        raise asyncio.CancelledError

    async def welcome(_: web.Request) -> web.StreamResponse:
        return Socket(party, 1_000)

    async def identify(_: web.Request, token: str) -> str:
        return token

    figures, addresses = RequestFigures(), ClientAddresses((), ())
    gateway = Gateway(
        RequestIds(os.urandom),
        Connections(addresses, ConnectionLimits(9, 9, 9.0, UnreadLimits(9, 9, 9.0))),
        Charging(Quotas(ManualClock()), leave_meanwhile),
        figures,
        RequestLines(Reporting(1.0, 1.0, every_request=False), addresses, Refusals()),
    )
    limit = Limit("calls", burst=2, interval_us=2_000_000)
    access = Access(identify=identify)
    row = Route(method="GET", path="/", name="root", handler=welcome, access=access, caller_limits=(limit,))
    request = make_mocked_request("GET", "/", {"Authorization": "Bearer x"})

    with pytest.raises(asyncio.CancelledError):
        await gateway.around(row)(request)

    party.leave.assert_called_once_with()
    assert figures.routes["root"].statuses == {499: 1}
