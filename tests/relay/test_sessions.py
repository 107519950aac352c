"""Sessions, their calls, and the statuses of calls. Their shapes are in `test_contract`."""

from collections.abc import Awaitable, Callable, Sequence
from itertools import product
from typing import TypeAlias
from uuid import UUID

import pytest

from tests.relay.polls import V07_PATH
from tests.support.asking import Answer, ask, pointers
from tests.support.bridge_client import BridgeClient
from tests.support.project import look
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


async def fill(bridge: BridgeClient, session_id: str, count: int) -> Sequence[str]:
    return [await bridge.request_call(session_id) for _ in range(count)]


async def test_every_new_session_has_a_uuid_of_the_moment_with_74_random_bits(bridge: BridgeClient) -> None:
    ids = {await bridge.open_session() for _ in range(20)}
    assert len(ids) == 20
    assert {UUID(each).int >> 80 for each in ids} == {bridge.clock.now_ms()}


@each_row("content_type", [None, "application/json", "text/plain", "no/such;;thing"])
async def test_a_session_opens_whatever_the_body_says(bridge: BridgeClient, content_type: str | None) -> None:
    for prefix, body in product(["", V07_PATH], [b"", b"{}", b"[1", b"\xff not JSON", b'{"a":1,"a":2}']):
        answer = await ask(bridge.server, "POST", f"{prefix}/session/new", body, content_type=content_type)
        assert (await bridge.session(answer.json["sessionId"])).status == 204


async def test_reading_takes_nothing_away_however_often(bridge: BridgeClient, session_id: str) -> None:
    await bridge.update(session_id, "approved")
    answered, pending = await fill(bridge, session_id, 2)
    await bridge.answer(answered, "signed")
    fresh = await bridge.open_session()

    for _ in range(3):
        assert (await bridge.session(session_id)).body == b'{"encryptionPayload":"approved"}'
        assert (await bridge.call(session_id, answered)).body == b'{"encryptionPayload":"call"}'
        assert (await bridge.status(answered)).body == b'{"encryptionPayload":"signed"}'
        assert await bridge.pending(session_id) == [pending]
        assert (await bridge.session(fresh)).status == (await bridge.status(pending)).status == 204
    await bridge.answer(answered, {"second": 2})
    assert (await bridge.status(answered)).json == {"encryptionPayload": {"second": 2}}


@every_move
async def test_an_ended_session_is_unknown_as_one_that_never_was(
    bridge: BridgeClient, session_id: str, move: Move
) -> None:
    await bridge.update(session_id)
    await bridge.session(session_id)
    await bridge.calls(session_id)
    await bridge.end(session_id)
    ended = (await move(bridge, session_id)).problem(404)

    never = (await move(bridge, "5f9c55ec-102a-45ab-a679-b264d7cdc261")).problem(404)
    assert {**never, "instance": ""} == {**ended, "instance": ""}


async def test_the_calls_and_statuses_of_a_session_end_with_it(bridge: BridgeClient, session_id: str) -> None:
    answered = []
    for _ in range(40):  # so many that the first of them are not listed any more
        answered.append(await bridge.request_call(session_id))
        await bridge.answer(answered[-1])
    open_call = await bridge.request_call(session_id)
    assert {(await bridge.status(call_id)).status for call_id in answered} == {200}
    assert (await bridge.status(open_call)).status == 204

    await bridge.end(session_id)

    assert {(await bridge.status(call_id)).status for call_id in answered} == {404}
    for call_id in (open_call, answered[0]):
        (await bridge.call(session_id, call_id)).problem(404)
        (await bridge.status(call_id)).problem(404)
        (await bridge.answer(call_id)).problem(404)


async def test_calls_are_keyed_by_id_oldest_first_until_they_have_a_status(
    bridge: BridgeClient, session_id: str
) -> None:
    ids = []
    for number in range(12):
        ids.append(await bridge.request_call(session_id, f"call {number}"))
        bridge.clock.advance([0, 0.001, -0.005][number % 3])

    answer = await bridge.calls(session_id)

    members = [
        b'"%b":{"encryptionPayload":"call %d"}' % (call_id.encode(), number)
        for number, call_id in enumerate(ids)
    ]
    assert answer.body == b"{" + b",".join(members) + b"}"
    await bridge.answer(ids.pop(1))
    assert await bridge.pending(session_id) == ids


async def test_a_dapp_name_is_a_text_of_1_to_255_characters(bridge: BridgeClient, session_id: str) -> None:
    for name in ("", "x" * 256, "😀" * 256, None, 1, ["Dapp"]):
        problem = (await bridge.post_call(session_id, dapp_name=name)).problem(400)
        assert pointers(problem) == ["#/dappName"], name
    nothing = (await bridge.send("POST", f"/session/{session_id}/call/new", {})).problem(400)
    assert pointers(nothing) == ["#/encryptionPayload", "#/dappName"], "every fault is reported at once"
    assert await bridge.pending(session_id) == []
    for right in ("\u0000", "😀" * 255):
        assert (await bridge.post_call(session_id, dapp_name=right)).status == 200


async def test_a_session_has_at_most_100_calls_without_a_status(
    bridge: BridgeClient, session_id: str
) -> None:
    first, *_ = await fill(bridge, session_id, 100)
    bridge.clock.advance(10.5)
    refused = await bridge.post_call(session_id)

    assert refused.problem(429)["type"].endswith(":too-many-pending-calls")
    assert refused.headers["Retry-After"] == "3590"  # 3,589.5 s until the first of them expires
    assert len(await bridge.pending(session_id)) == 100
    assert (await bridge.call(session_id, first)).status == 200


async def test_a_status_frees_a_place_once_and_in_its_own_session_alone(tight_bridge: BridgeClient) -> None:
    session_id, other = await tight_bridge.open_session(), await tight_bridge.open_session()
    _, second, _ = await fill(tight_bridge, session_id, 3)
    (await tight_bridge.post_call(session_id)).problem(429)
    assert (await tight_bridge.post_call(other)).status == 200
    await tight_bridge.answer(second)
    await tight_bridge.answer(second, "again")

    assert (await tight_bridge.post_call(session_id)).status == 200
    (await tight_bridge.post_call(session_id)).problem(429)


async def test_expiry_frees_a_place(tight_bridge: BridgeClient) -> None:
    session_id = await tight_bridge.open_session()
    first, _ = await fill(tight_bridge, session_id, 2)
    tight_bridge.clock.advance(100)
    await fill(tight_bridge, session_id, 1)

    async def refused() -> str:
        """After how many seconds a client that is refused should try again."""
        answer = await tight_bridge.post_call(session_id)
        answer.problem(429)
        return answer.headers["Retry-After"]

    assert await refused() == "3500"
    await tight_bridge.answer(first)
    tight_bridge.clock.advance(100)
    await fill(tight_bridge, session_id, 1)
    assert await refused() == "3400", "until the first pending call expires"
    tight_bridge.clock.advance(3400 - 0.001)
    assert await refused() == "1"
    tight_bridge.clock.advance(0.001)
    assert (await tight_bridge.post_call(session_id)).status == 200


async def test_a_refused_call_does_not_prolong_the_session(tight_bridge: BridgeClient) -> None:
    session_id = await tight_bridge.open_session()
    tight_bridge.clock.advance(86_400 - 1800)
    await fill(tight_bridge, session_id, 3)
    tight_bridge.clock.advance(1800)
    (await tight_bridge.post_call(session_id)).problem(429)
    tight_bridge.clock.advance(86_400 - 1800)

    (await tight_bridge.session(session_id)).problem(404)


async def test_a_session_with_hundreds_of_answered_calls_has_its_quota_and_a_short_list(
    tight_bridge: BridgeClient,
) -> None:
    session_id = await tight_bridge.open_session()
    for _ in range(100):
        await tight_bridge.answer(await tight_bridge.request_call(session_id))
    listed = look(tight_bridge.server, "SELECT count(*) FROM calls WHERE listed = 1")[0][0]
    accepted = await fill(tight_bridge, session_id, 3)

    assert listed <= 35
    assert await tight_bridge.pending(session_id) == accepted
    (await tight_bridge.post_call(session_id)).problem(429)
    await tight_bridge.answer(accepted[0])
    assert (await tight_bridge.post_call(session_id)).status == 200
