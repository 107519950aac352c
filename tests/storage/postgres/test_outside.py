"""A server looks again for what the operator's commands have committed, and not for what servers have."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.processes import OutsideCommits, Processes
from tests.storage.notes import put
from tests.support.postgres import needs_postgres

pytestmark = needs_postgres


@pytest.fixture
async def three(url: str) -> AsyncIterator[Sequence[PostgresDatabase]]:
    """The database as two servers and a command have it."""
    async with AsyncExitStack() as stack:
        found = [PostgresDatabase(url, Events(), {}) for _ in range(3)]
        for number, each in enumerate(found):
            await stack.enter_async_context(each.opened())
            if number < 2:
                await Processes(each).announce(f"http://server-{number}")
        yield found


async def test_commits_of_commands_are_seen_and_those_of_servers_are_not(
    three: Sequence[PostgresDatabase],
) -> None:
    server, other, command = three
    outside = OutsideCommits(server)
    assert not await outside.have_come()

    for number in range(3):
        await server.transaction(put(f"own {number}", "x"))
        await other.transaction(put(f"other {number}", "x"))
    assert not await outside.have_come()
    await command.transaction(put("command", "x"))
    assert await outside.have_come()
    assert not await outside.have_come()
