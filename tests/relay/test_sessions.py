"""Sessions: opened by the dapp, updated by the wallet, read by the dapp, ended by either."""

from collections.abc import Awaitable, Callable
from typing import TypeAlias
from uuid import UUID

import pytest

from tests.support.asking import Answer, ask
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row

Move: TypeAlias = Callable[[BridgeClient, str], Awaitable[Answer]]

MOVES: dict[str, Move] = {
    "read": lambda bridge, session_id: bridge.session(session_id),
    "update": lambda bridge, session_id: bridge.update(session_id),
    "end": lambda bridge, session_id: bridge.end(session_id),
    "post a call": lambda bridge, session_id: bridge.post_call(session_id),
    "read the calls": lambda bridge, session_id: bridge.calls(session_id),
    "read a call": lambda bridge, session_id: bridge.call(session_id, "0192"),
}
every_move = pytest.mark.parametrize("move", MOVES.values(), ids=MOVES.keys())


async def test_a_new_session_has_a_uuid_of_the_moment_with_74_random_bits(bridge: BridgeClient) -> None:
    answer = await ask(bridge.server, "POST", "/session/new")

    assert answer.headers["Content-Type"] == "application/json"
    session_id = answer.json["sessionId"]
    assert str(UUID(session_id)) == session_id
    assert UUID(session_id).version == 7
    assert UUID(session_id).int >> 80 == bridge.clock.now_ms()
    assert answer.body == f'{{"sessionId":"{session_id}"}}'.encode()


@each_row("content_type", [None, "application/json", "text/plain", "no/such;;thing"])
async def test_a_session_opens_whatever_the_body_says(bridge: BridgeClient, content_type: str | None) -> None:
    for body in (b"", b"{}", b"[1", b"\xff not JSON", b'{"a":1,"a":2}'):
        answer = await ask(bridge.server, "POST", "/session/new", body, content_type=content_type)

        assert (await bridge.session(answer.json["sessionId"])).status == 204


async def test_every_new_session_has_another_id(bridge: BridgeClient) -> None:
    ids = {await bridge.open_session() for _ in range(20)}

    assert len(ids) == 20


async def test_a_session_without_details_reads_as_204_without_a_body(
    bridge: BridgeClient, session_id: str
) -> None:
    for _ in range(2):
        answer = await bridge.session(session_id)

        assert (answer.status, answer.body) == (204, b"")
        assert "Content-Type" not in answer.headers
        assert "Content-Length" not in answer.headers


async def test_an_update_is_answered_with_the_expiry_of_the_session(
    bridge: BridgeClient, session_id: str
) -> None:
    bridge.clock.advance(1.2345)

    answer = await bridge.update(session_id)

    assert answer.json == {"expires": bridge.clock.now_ms() + 24 * 3_600_000}
    assert answer.body == b'{"expires":%d}' % (bridge.clock.now_ms() + 24 * 3_600_000)


async def test_the_dapp_reads_what_the_wallet_put_as_often_as_it_likes(
    bridge: BridgeClient, session_id: str
) -> None:
    await bridge.update(session_id, "approved")

    for _ in range(3):
        answer = await bridge.session(session_id)

        assert (answer.status, answer.body) == (200, b'{"encryptionPayload":"approved"}')
        assert answer.headers["Content-Type"] == "application/json"


async def test_a_second_update_replaces_the_first(bridge: BridgeClient, session_id: str) -> None:
    await bridge.update(session_id, "first")
    await bridge.session(session_id)

    await bridge.update(session_id, {"second": 2})

    assert (await bridge.session(session_id)).json == {"encryptionPayload": {"second": 2}}


async def test_sessions_do_not_see_each_other(bridge: BridgeClient) -> None:
    one, other = await bridge.open_session(), await bridge.open_session()

    await bridge.update(one, "of one")
    call_id = await bridge.request_call(one)

    assert (await bridge.session(other)).status == 204
    assert (await bridge.calls(other)).body == b"{}"
    (await bridge.call(other, call_id)).problem(404)


async def test_ending_a_session_succeeds(bridge: BridgeClient, session_id: str) -> None:
    answer = await bridge.end(session_id)

    assert (answer.status, answer.body) == (200, b'{"success":true}')
    assert answer.headers["Content-Type"] == "application/json"


@every_move
async def test_an_ended_session_is_unknown(bridge: BridgeClient, session_id: str, move: Move) -> None:
    await bridge.update(session_id)
    await bridge.session(session_id)
    await bridge.calls(session_id)
    await bridge.end(session_id)

    answer = await move(bridge, session_id)

    answer.problem(404)


async def test_the_calls_and_statuses_of_a_session_end_with_it(bridge: BridgeClient, session_id: str) -> None:
    open_call, answered_call = [await bridge.request_call(session_id) for _ in range(2)]
    await bridge.answer(answered_call)
    assert (await bridge.status(answered_call)).status == 200
    assert (await bridge.status(open_call)).status == 204

    await bridge.end(session_id)

    for call_id in (open_call, answered_call):
        (await bridge.call(session_id, call_id)).problem(404)
        (await bridge.status(call_id)).problem(404)
        (await bridge.answer(call_id)).problem(404)


async def test_statuses_of_long_ago_that_are_read_all_the_time_end_with_their_session(
    bridge: BridgeClient, session_id: str
) -> None:
    calls = []
    for _ in range(40):
        calls.append(await bridge.request_call(session_id))
        await bridge.answer(calls[-1])
    assert {(await bridge.status(call_id)).status for call_id in calls} == {200}

    await bridge.end(session_id)

    assert {(await bridge.status(call_id)).status for call_id in calls} == {404}


@every_move
async def test_an_unknown_session_reads_as_an_ended_session(bridge: BridgeClient, move: Move) -> None:
    ended = await bridge.open_session()
    await bridge.end(ended)

    never = (await move(bridge, "5f9c55ec-102a-45ab-a679-b264d7cdc261")).problem(404)

    before = (await move(bridge, ended)).problem(404)
    assert {**never, "instance": ""} == {**before, "instance": ""}
