"""Reset: an empty server that goes by the machine's clock, and nothing parked at it."""

import asyncio
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.kit.testing.server import place_schema
from bridge_server.testmode import service
from tests.support.asking import figure, until_waiting
from tests.support.inbox_client import sign_in
from tests.support.project import look, opened_app
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.socket_client import Identity, connected, irn_connected, topic_of
from tests.support.waiting import eventually
from tests.support.webhook_receiver import hang, open_receiver, status
from tests.testmode.conftest import Controlled, controlling, parked, webhook_for

KEPT = {"irn_id_blocks", "console_links", "console_sessions"}
"""Ids that no client may be sent twice, and the operator's sign-ins."""
TOPIC = "a4b1c2d3"


def rows(controlled: Controlled) -> dict[str, int]:
    """How many rows there are, by table, where there are any. A bucket that is full is as none: processes
    give back at any time what they have leased of it.
    """
    counts = {
        table: look(controlled.server, f"SELECT COUNT(*) FROM {table}")[0][0] for table in service.TABLES
    }
    spent = f"SELECT COUNT(*) FROM buckets WHERE full_at_us > {controlled.server.clock.now_us()}"
    counts["buckets"] = look(controlled.server, spent)[0][0]
    return {table: count for table, count in counts.items() if count}


def test_every_table_of_the_schema_is_emptied(tmp_path: Path) -> None:
    sqlite3 = pytest.importorskip("sqlite3")
    place_schema(tmp_path / "bridge.sqlite3")
    with closing(sqlite3.connect(tmp_path / "bridge.sqlite3")) as connection:
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    assert {table for table in tables if not table.startswith("sqlite_")} - KEPT == set(service.TABLES)


async def test_the_rows_of_every_room_are_gone(tmp_path: Path) -> None:
    async with (
        controlling(tmp_path / "data") as controlled,
        opened_app(controlled.server) as app,
        connected(controlled.server.client, controlled.server.url) as socket,
    ):
        session_id = await controlled.server.open_session()
        await controlled.send("PUT", f"/session/{session_id}", b'{"encryptionPayload": "cached"}')
        assert (await controlled.get(f"/session/{session_id}")).json == {"encryptionPayload": "cached"}
        call_id = await controlled.server.request_call(session_id)
        await controlled.push.register(type="apns", topic=session_id)
        reader = await sign_in(controlled.server)
        await app.subscribe(reader.account)
        await app.notify([reader.account])
        await socket.publish(TOPIC, "for nobody yet")
        held = rows(controlled)

        await controlled.control.reset()

        tables = {"sessions", "calls", "projects", "deliveries", "topic_messages", "inbox_tokens"}
        assert held.keys() >= tables
        assert rows(controlled) == {}
        assert (await controlled.get(f"/session/{session_id}")).status == 404
        assert (await controlled.get(f"/call-status/{call_id}")).status == 404
        assert (await reader.ask("GET", "/subscriptions")).status == 401


async def test_rate_limits_are_full_and_an_unlocked_account_is_locked_again(tmp_path: Path) -> None:
    settings = {"quota_exempt": "none", "sessions_per_minute": 1, "sessions_burst": 1, "light_kdf": True}
    async with controlling(tmp_path / "data", **settings) as controlled:
        await controlled.server.open_session()
        rpc = RpcClient(controlled.server)
        account = await rpc.call("personal_newAccount", "correct horse")
        await rpc.call("personal_unlockAccount", account, "correct horse", 0)
        await controlled.control.reset()
        await controlled.server.open_session()
        assert (await rpc.error("eth_sign", account, "0x00")).code == 4100
        assert await rpc.call("eth_accounts") == [account]


async def test_faults_records_and_clock_are_forgotten_and_a_poll_answered(controlled: Controlled) -> None:
    before = await controlled.control.clock.now()
    session_id = await controlled.server.open_session()
    async with parked(controlled, f"/session/{session_id}?wait=20") as poll:
        await controlled.control.clock.set(before.now.replace(minute=1), frozen=True)
        await controlled.control.faults.set([{"where": "request", "route": "call-status", "status": 503}])
        await controlled.push.register(type="fcm")
        await controlled.push.push()

        assert await controlled.control.reset() == before.now

        assert (await poll).status == 204
    assert not (await controlled.control.clock.now()).frozen
    assert await controlled.control.faults.list() == []
    assert await controlled.control.sent() == []
    traffic = await controlled.control.traffic()
    assert (traffic.requests, traffic.last) == ([], 0)


@pytest.mark.sqlite("faults of the disk are of a file")
async def test_a_disk_that_was_ordered_to_be_full_is_reset(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    await controlled.control.faults.set([{"where": "disk", "answer": "full"}])
    await controlled.control.reset()
    assert (await controlled.get(f"/session/{session_id}")).status == 404


async def test_sockets_are_closed_with_their_messages_gone_and_may_come_back(controlled: Controlled) -> None:
    server, topic, known = controlled.server, topic_of("a"), Identity()
    async with (
        connected(server.client, server.url) as listener,
        connected(server.client, server.url) as speaker,
        irn_connected(server.client, server.url, known) as irn_listener,
        irn_connected(server.client, server.url, Identity()) as irn_speaker,
    ):
        await listener.subscribe(TOPIC)
        await speaker.publish(TOPIC, "not acknowledged")
        await irn_listener.subscribe(topic)
        await irn_speaker.publish(topic)
        held = {"topic_messages", "irn_subscriptions", "irn_messages", "irn_calls"}
        assert rows(controlled).keys() >= held

        await controlled.control.reset()

        for each in (listener, speaker, irn_listener, irn_speaker):
            assert (await each.closed())[0] == 1001
        assert rows(controlled) == {}
    async with connected(server.client, server.url) as again:
        await again.subscribe(TOPIC)
        await again.nothing()
    async with irn_connected(server.client, server.url, known) as irn_again:
        assert (await irn_again.fetch(topic))["messages"] == []


@pytest.mark.sqlite("faults of the disk are of a file")
async def test_a_socket_that_is_subscribing_is_closed_and_forgotten(controlled: Controlled) -> None:
    server = controlled.server

    async def has(sockets: int, topics: int) -> bool:
        return (await figure(server, "sockets"), await figure(server, "socket_topics")) == (sockets, topics)

    async with connected(server.client, server.url) as socket:
        await controlled.control.faults.set([{"where": "disk", "answer": "locked"}])
        await socket.say(TOPIC, "pub", "not stored yet")
        await socket.say(TOPIC, "sub")  # waits until the message is stored
        await eventually(lambda: has(sockets=1, topics=1))

        await controlled.control.reset()

        await socket.closed()
        await eventually(lambda: has(sockets=0, topics=0))
    await controlled.control.reset()


async def test_a_delivery_under_way_and_a_retry_are_given_up(controlled: Controlled) -> None:
    async with open_receiver() as receiver:
        receiver.script += [status(500), hang]
        await controlled.server.request_call(await webhook_for(controlled, receiver))
        await controlled.control.sent(wait=20)
        await controlled.server.request_call(await webhook_for(controlled, receiver))
        await receiver.got(2)
        await controlled.control.reset()
        await controlled.server.request_call(await webhook_for(controlled, receiver))
        await receiver.got(3)
        assert [each.outcome for each in await controlled.control.sent(wait=20)] == ["delivered"]
        moved = await controlled.control.clock.advance(days=1)
        assert (moved.delivered, len(receiver.requests)) == (0, 3)


async def test_a_request_for_approval_ends(tmp_path: Path) -> None:
    async with controlling(tmp_path / "data", dev_accounts=True, approve="queue") as controlled:
        rpc = RpcClient(controlled.server)
        asked = asyncio.create_task(rpc.error("personal_sign", "0x68", DEVELOPMENT_ADDRESS))
        await until_waiting(controlled.server, 1)
        await controlled.control.reset()
        assert "Nobody approved the request" in (await asked).message
