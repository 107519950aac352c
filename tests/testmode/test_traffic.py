"""The record of requests."""

from tests.testmode.conftest import Controlled


async def test_requests_are_recorded_with_their_bodies(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    await controlled.server.request_call(session_id)

    traffic = await controlled.control.traffic()

    assert [each.route for each in traffic.requests] == ["open-session", "request-call"]
    assert traffic.requests[1].path == f"/session/{session_id}/call/new"
    assert traffic.requests[1].request["body"] == '{"encryptionPayload": "call", "dappName": "Dapp"}'
