"""Reset: an empty server, and nothing parked."""

from tests.testmode.conftest import Controlled


async def test_a_reset_ends_sessions(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()

    await controlled.control.reset()

    async with controlled.server.client.get(f"{controlled.url}/session/{session_id}") as response:
        assert response.status == 404
