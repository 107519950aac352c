"""The clock of test mode: what becomes due is done when the answer comes."""

import asyncio
from datetime import UTC, datetime, timedelta

from tests.testmode.conftest import Controlled

DAY = timedelta(days=1)


async def test_an_advanced_clock_expires_sessions_and_sweeps_them(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    before = await controlled.control.clock.now()

    moved = await controlled.control.clock.advance(days=1, seconds=1)

    assert moved.now == before.now + DAY + timedelta(seconds=1)
    assert moved.swept == 1
    async with controlled.server.client.get(f"{controlled.url}/session/{session_id}") as response:
        assert response.status == 404


async def test_a_parked_poll_learns_that_its_session_has_expired(controlled: Controlled) -> None:
    session_id = await controlled.server.open_session()
    url = f"{controlled.url}/session/{session_id}?wait=20"
    poll = asyncio.create_task(controlled.server.client.get(url))
    await asyncio.sleep(0.1)

    await controlled.control.clock.advance(days=2)

    assert (await poll).status == 404


async def test_a_clock_that_is_set_and_frozen_stands_still(controlled: Controlled) -> None:
    moment = datetime(2027, 6, 1, 12, tzinfo=UTC)

    moved = await controlled.control.clock.set(moment, frozen=True)

    assert moved.frozen
    assert (await controlled.control.clock.now()).now == moment
