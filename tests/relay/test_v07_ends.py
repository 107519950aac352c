"""What generation 0.7 is told of what has expired or was ended: whatever lets its clients go on."""

from tests.relay.v07 import as_v07
from tests.support.bridge_client import BridgeClient
from tests.support.problems import pointers

_HOUR = 3600
_DAY = 24 * _HOUR
_MS = 0.001
_UNKNOWN = "5f9c55ec-102a-45ab-a679-b264d7cdc261"


async def test_a_session_lives_until_the_expiry_that_was_answered(v07: BridgeClient, session_id: str) -> None:
    await v07.update(session_id)
    expires_at_ms = (await v07.session(session_id)).json["data"]["expires"]

    v07.clock.advance((expires_at_ms - v07.clock.now_ms()) / 1000 - _MS)
    alive = await v07.session(session_id)
    v07.clock.advance(_MS)
    gone = await v07.session(session_id)

    assert (alive.status, gone.status) == (200, 204)


async def test_a_session_that_ended_reads_as_one_without_details(v07: BridgeClient, session_id: str) -> None:
    await v07.update(session_id)
    await v07.session(session_id)

    ended = await v07.end(session_id)

    assert ended.json == {"success": True}
    for gone in (session_id, _UNKNOWN):
        answer = await v07.session(gone)
        assert (answer.status, answer.body) == (204, b"")


async def test_a_long_poll_of_an_ended_session_is_404(v07: BridgeClient, session_id: str) -> None:
    await v07.end(session_id)

    (await v07.get(f"/session/{session_id}?wait=20")).problem(404)
    (await v07.get(f"/session/{session_id}", {"Prefer": "wait=20"})).problem(404)


async def test_a_session_can_be_ended_again(bridge: BridgeClient, session_id: str) -> None:
    v07 = as_v07(bridge)
    await v07.end(session_id)

    for gone in (session_id, _UNKNOWN):
        assert (await v07.end(gone)).json == {"success": True}
        (await bridge.end(gone)).problem(404)


async def test_other_paths_of_an_ended_session_are_404(v07: BridgeClient, session_id: str) -> None:
    call_id = await v07.request_call(session_id)
    await v07.end(session_id)

    for answer in [
        await v07.update(session_id),
        await v07.post_call(session_id),
        await v07.calls(session_id),
        await v07.call(session_id, call_id),
        await v07.answer(call_id),
        await v07.status(call_id),
    ]:
        answer.problem(404)


async def test_a_call_and_its_status_live_an_hour(v07: BridgeClient, session_id: str) -> None:
    unanswered, answered = [await v07.request_call(session_id) for _ in range(2)]
    v07.clock.advance(_HOUR - _MS)
    await v07.answer(answered)
    pending = (await v07.calls(session_id)).json

    v07.clock.advance(_MS)

    assert list(pending["data"]) == [unanswered]
    assert (await v07.calls(session_id)).json == {"data": {}}
    (await v07.call(session_id, unanswered)).problem(404)
    (await v07.status(unanswered)).problem(404)
    assert (await v07.status(answered)).status == 200


async def test_a_body_that_is_wrong_is_refused_as_everywhere(v07: BridgeClient, session_id: str) -> None:
    call_id = await v07.request_call(session_id)
    wrong = {"encryptionPayload": None, "push": {"type": "fcm"}}

    updated = await v07.send("PUT", f"/session/{session_id}", wrong)
    called = await v07.send("POST", f"/session/{session_id}/call/new", wrong)
    answered = await v07.send("POST", f"/call-status/{call_id}/new", wrong)

    assert pointers(updated.problem(400)) == ["#/encryptionPayload", "#/push/token", "#/push/webhook"]
    assert pointers(called.problem(400)) == ["#/encryptionPayload", "#/dappName"]
    assert pointers(answered.problem(400)) == ["#/encryptionPayload"]
    assert (await v07.session(session_id)).status == (await v07.status(call_id)).status == 204


async def test_calls_of_both_generations_count_towards_one_limit(tight_bridge: BridgeClient) -> None:
    session_id = await tight_bridge.open_session()
    for client in (tight_bridge, as_v07(tight_bridge), tight_bridge):
        await client.request_call(session_id)

    answer = await as_v07(tight_bridge).post_call(session_id)

    answer.problem(429)
    assert int(answer.headers["Retry-After"]) == _HOUR
