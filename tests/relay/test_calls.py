"""Calls: what the dapp asks, how the wallet finds it, and how many may be open."""

from collections.abc import Sequence
from typing import Any
from uuid import UUID

from tests.support.bridge_client import BridgeClient
from tests.support.problems import pointers
from tests.support.project import look
from tests.support.rows import each_row

_QUOTA = 100


async def fill(bridge: BridgeClient, session_id: str, count: int) -> Sequence[str]:
    return [await bridge.request_call(session_id) for _ in range(count)]


async def test_a_new_call_has_an_id(bridge: BridgeClient, session_id: str) -> None:
    answer = await bridge.post_call(session_id)

    call_id = answer.json["callId"]
    assert str(UUID(call_id)) == call_id
    assert answer.body == f'{{"callId":"{call_id}"}}'.encode()
    assert answer.headers["Content-Type"] == "application/json"


async def test_a_call_is_read_until_it_expires_however_often(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id, "sign this")
    await bridge.answer(call_id)

    for _ in range(3):
        answer = await bridge.call(session_id, call_id)

        assert (answer.status, answer.body) == (200, b'{"encryptionPayload":"sign this"}')
        assert answer.headers["Content-Type"] == "application/json"


async def test_a_session_without_calls_has_an_empty_object(bridge: BridgeClient, session_id: str) -> None:
    answer = await bridge.calls(session_id)

    assert (answer.status, answer.body) == (200, b"{}")
    assert answer.headers["Content-Type"] == "application/json"


async def test_calls_are_keyed_by_id_oldest_first(bridge: BridgeClient, session_id: str) -> None:
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
    assert answer.headers["Content-Type"] == "application/json"


async def test_reading_calls_deletes_nothing(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)

    listings = [await bridge.pending(session_id) for _ in range(3)]

    assert listings == [[call_id]] * 3


async def test_a_call_with_a_status_is_listed_no_more(bridge: BridgeClient, session_id: str) -> None:
    first, second, third = await fill(bridge, session_id, 3)
    await bridge.pending(session_id)

    await bridge.answer(second)

    assert await bridge.pending(session_id) == [first, third]


@each_row("name", ["x", "\u0000", "é" * 255, "😀" * 255])
async def test_a_dapp_name_has_1_to_255_characters(bridge: BridgeClient, session_id: str, name: str) -> None:
    answer = await bridge.post_call(session_id, dapp_name=name)

    assert answer.status == 200


@each_row("name", ["", "x" * 256, "😀" * 256, None, 1, True, ["Dapp"], {"a": 1}])
async def test_a_dapp_name_of_another_length_or_type_is_a_fault(
    bridge: BridgeClient, session_id: str, name: Any
) -> None:
    problem = (await bridge.post_call(session_id, dapp_name=name)).problem(400)

    assert pointers(problem) == ["#/dappName"]
    assert await bridge.pending(session_id) == []


async def test_every_fault_of_a_call_is_reported_at_once(bridge: BridgeClient, session_id: str) -> None:
    problem = (await bridge.send("POST", f"/session/{session_id}/call/new", {})).problem(400)

    assert pointers(problem) == ["#/encryptionPayload", "#/dappName"]


async def test_a_session_has_at_most_100_calls_without_a_status(
    bridge: BridgeClient, session_id: str
) -> None:
    first, *_ = await fill(bridge, session_id, _QUOTA)
    bridge.clock.advance(10.5)

    refused = await bridge.post_call(session_id)

    problem = refused.problem(429)
    assert problem["type"].endswith(":too-many-pending-calls")
    assert refused.headers["Retry-After"] == "3590"  # 3,589.5 s until the first of them expires
    assert len(await bridge.pending(session_id)) == _QUOTA
    assert (await bridge.call(session_id, first)).status == 200


async def test_the_quota_of_one_session_is_not_that_of_another(tight_bridge: BridgeClient) -> None:
    full, other = await tight_bridge.open_session(), await tight_bridge.open_session()
    await fill(tight_bridge, full, 3)

    assert (await tight_bridge.post_call(full)).status == 429
    assert (await tight_bridge.post_call(other)).status == 200


async def test_a_status_frees_a_place(tight_bridge: BridgeClient) -> None:
    session_id = await tight_bridge.open_session()
    _, second, _ = await fill(tight_bridge, session_id, 3)
    (await tight_bridge.post_call(session_id)).problem(429)

    await tight_bridge.answer(second)
    await tight_bridge.answer(second, "again")

    assert (await tight_bridge.post_call(session_id)).status == 200
    (await tight_bridge.post_call(session_id)).problem(429)


async def test_expiry_frees_a_place(tight_bridge: BridgeClient) -> None:
    session_id = await tight_bridge.open_session()
    await fill(tight_bridge, session_id, 3)

    tight_bridge.clock.advance(3600 - 0.001)
    refused = await tight_bridge.post_call(session_id)
    tight_bridge.clock.advance(0.001)
    accepted = await tight_bridge.post_call(session_id)

    refused.problem(429)
    assert refused.headers["Retry-After"] == "1"
    assert accepted.status == 200


async def test_a_full_session_asks_to_retry_when_its_first_pending_call_expires(
    tight_bridge: BridgeClient,
) -> None:
    session_id = await tight_bridge.open_session()
    first, _ = await fill(tight_bridge, session_id, 2)
    tight_bridge.clock.advance(100)
    await fill(tight_bridge, session_id, 1)
    before = await tight_bridge.post_call(session_id)

    await tight_bridge.answer(first)
    tight_bridge.clock.advance(100)
    await fill(tight_bridge, session_id, 1)

    assert before.headers["Retry-After"] == "3500"
    assert (await tight_bridge.post_call(session_id)).headers["Retry-After"] == "3400"


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

    accepted = [await tight_bridge.request_call(session_id) for _ in range(3)]

    assert listed <= 35
    assert await tight_bridge.pending(session_id) == accepted
    (await tight_bridge.post_call(session_id)).problem(429)
    await tight_bridge.answer(accepted[0])
    assert (await tight_bridge.post_call(session_id)).status == 200
