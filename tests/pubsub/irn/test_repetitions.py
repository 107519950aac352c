"""A call that is made again within five minutes is answered again and published once."""

from pathlib import Path

import pytest

from tests.pubsub.irn.conftest import Join
from tests.support.irn_client import Identity, irn_connected, topic_of
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

TOPIC = topic_of("topic")


@each_row("later", [0, 299, 300], empties=True)
@each_row("somebody_is_there", [True, False], empties=True)
async def test_a_repetition_is_answered_and_not_published(
    join: Join, server: RunningServer, later: int, somebody_is_there: bool
) -> None:
    identity = Identity()
    dapp, wallet = await join(identity), await join()
    if somebody_is_there:
        await wallet.subscribe(TOPIC)
    await dapp.publish(TOPIC, request_id="1700000000000000001", ttl=3600)
    server.clock.advance(later)

    again = await join(identity, token=identity.token(exp=None))
    assert await again.publish(TOPIC, request_id="1700000000000000001", ttl=3600) is True

    await wallet.subscribe(TOPIC)
    expected = 1 if later < 300 else 2
    assert await wallet.messages(expected) == ["message"] * expected


async def test_repetitions_that_overtake_the_answer_are_answered_each(join: Join) -> None:
    identity = Identity()
    dapp, other_socket, wallet = await join(identity), await join(identity), await join()
    await wallet.subscribe(TOPIC)
    call = {"id": 5, "jsonrpc": "2.0", "method": "irn_publish"}
    params = {"topic": TOPIC, "message": "message", "ttl": 300}

    for client in (dapp, dapp, other_socket):
        await client.send(**call, params=params)

    assert [await client.answer(5) for client in (dapp, dapp, other_socket)] == [True] * 3
    assert await wallet.messages(1) == ["message"]


async def test_an_id_is_that_of_its_client_and_of_what_it_says(join: Join) -> None:
    dapp, other, wallet = await join(), await join(), await join()
    await wallet.subscribe(TOPIC)

    await dapp.publish(TOPIC, "one", request_id=1)
    await dapp.publish(TOPIC, "two", request_id=1)
    await other.publish(TOPIC, "one", request_id=1)
    await dapp.publish(TOPIC, "one", request_id=2)

    assert await wallet.messages(4) == ["one", "two", "one", "one"]


async def test_a_number_and_its_text_are_one_id(join: Join) -> None:
    dapp, wallet = await join(), await join()
    await wallet.subscribe(TOPIC)

    await dapp.publish(TOPIC, request_id=7)
    await dapp.publish(TOPIC, request_id="7")

    assert await wallet.messages(1) == ["message"]


async def test_a_call_that_was_refused_is_made_anew(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, max_topic_messages=1) as server,
        irn_connected(server.client, server.url, Identity()) as dapp,
        irn_connected(server.client, server.url, Identity()) as wallet,
    ):
        await dapp.publish(TOPIC, "first")
        with pytest.raises(Exception, match="MailboxLimitExceeded"):
            await dapp.publish(TOPIC, "second", request_id=2)
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(1) == ["first"]
        await wallet.settled()

        assert await dapp.publish(TOPIC, "second", request_id=2) is True

        assert await wallet.messages(1) == ["second"]


async def test_a_restart_forgets_no_call(tmp_path: Path) -> None:
    identity = Identity()
    async with (
        running_server(tmp_path) as server,
        irn_connected(server.client, server.url, identity) as dapp,
    ):
        await dapp.publish(TOPIC, request_id=1)
    clock = server.clock
    async with (
        running_server(tmp_path, clock) as server,
        irn_connected(server.client, server.url, identity) as dapp,
        irn_connected(server.client, server.url, Identity()) as wallet,
    ):
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(1) == ["message"]

        await dapp.publish(TOPIC, request_id=1)

        await wallet.nothing()


async def test_so_many_calls_are_remembered_and_no_more(tmp_path: Path) -> None:
    identity = Identity()
    async with (
        running_server(tmp_path, max_remembered_calls=2) as server,
        irn_connected(server.client, server.url, identity) as dapp,
        irn_connected(server.client, server.url, Identity()) as wallet,
    ):
        await wallet.subscribe(TOPIC)
        for request_id in (1, 2, 3):
            await dapp.publish(TOPIC, str(request_id), request_id=request_id)
            server.clock.advance(0.001)
        assert await wallet.messages(3) == ["1", "2", "3"]

        for request_id in (2, 3, 1):
            await dapp.publish(TOPIC, str(request_id), request_id=request_id)

        assert await wallet.messages(1) == ["1"]
