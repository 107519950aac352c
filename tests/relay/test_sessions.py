"""Sessions over HTTP (contract section 4, B)."""

from uuid import UUID

from tests.support.server import RunningServer


async def test_a_new_session_has_a_random_uuid(server: RunningServer) -> None:
    async with server.client.post(f"{server.url}/session/new") as response:
        body = await response.json()

    assert response.status == 200
    assert response.content_type == "application/json"
    assert UUID(body["sessionId"]).version == 4
    assert list(body) == ["sessionId"]
