"""Statuses: what the wallet answers to a call."""

from uuid import uuid4

from tests.support.bridge_client import BridgeClient


async def test_a_call_without_a_status_reads_as_204_without_a_body(
    bridge: BridgeClient, session_id: str
) -> None:
    call_id = await bridge.request_call(session_id)

    for _ in range(2):
        answer = await bridge.status(call_id)

        assert (answer.status, answer.body) == (204, b"")
        assert "Content-Type" not in answer.headers


async def test_posting_a_status_succeeds(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)

    answer = await bridge.answer(call_id)

    assert (answer.status, answer.body) == (200, b'{"success":true}')
    assert answer.headers["Content-Type"] == "application/json"


async def test_the_dapp_reads_a_status_as_often_as_it_likes(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)
    await bridge.answer(call_id, "signed")

    for _ in range(3):
        answer = await bridge.status(call_id)

        assert (answer.status, answer.body) == (200, b'{"encryptionPayload":"signed"}')
        assert answer.headers["Content-Type"] == "application/json"


async def test_a_later_status_replaces_the_earlier(bridge: BridgeClient, session_id: str) -> None:
    call_id = await bridge.request_call(session_id)
    await bridge.answer(call_id, "first")
    await bridge.status(call_id)

    await bridge.answer(call_id, {"second": 2})

    assert (await bridge.status(call_id)).json == {"encryptionPayload": {"second": 2}}


async def test_a_status_belongs_to_its_call_alone(bridge: BridgeClient, session_id: str) -> None:
    answered, other = [await bridge.request_call(session_id) for _ in range(2)]

    await bridge.answer(answered)

    assert (await bridge.status(other)).status == 204
    assert await bridge.pending(session_id) == [other]


async def test_an_unknown_call_has_no_status_and_takes_none(bridge: BridgeClient, session_id: str) -> None:
    for unknown in (str(uuid4()), session_id):
        (await bridge.status(unknown)).problem(404)
        (await bridge.answer(unknown)).problem(404)
        (await bridge.call(session_id, unknown)).problem(404)
