"""Of several processes one sweeps at a time, whatever happens to the one that does."""

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack

import pytest

from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import Events
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.processes import opened_with_wake_ups, sweeper_hold
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, needs_postgres

pytestmark = needs_postgres

Processes = Sequence[PostgresDatabase]


@pytest.fixture
async def processes(postgres: PostgresServer) -> AsyncIterator[Processes]:
    url = await postgres.database("bridge", migrate)
    async with AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            events = Events()
            database = PostgresDatabase(url, events, {})
            await stack.enter_async_context(opened_with_wake_ups(database, events, []))
            found.append(database)
        yield found


async def may_sweep(database: PostgresDatabase) -> bool:
    try:
        async with sweeper_hold(database)() as is_held:
            return is_held
    except UnavailableError:
        return False


async def test_two_processes_never_sweep_at_once(processes: Processes) -> None:
    first, second = processes
    async with sweeper_hold(first)() as is_held:
        assert is_held
        assert not await may_sweep(second)

    assert await may_sweep(second)
    assert await may_sweep(first)


async def test_sweepers_of_two_processes_take_turns(processes: Processes) -> None:
    sweeping: set[int] = set()
    most, done = 0, [0, 0]

    def sweep_of(number: int) -> Sweeper:
        async def sweep(_: int) -> int:
            nonlocal most
            sweeping.add(number)
            most = max(most, len(sweeping))
            await processes[number].read("SELECT 1")
            sweeping.discard(number)
            done[number] += 1
            return 0

        return Sweeper([sweep], ManualClock(), 0.001, hold=sweeper_hold(processes[number]))

    async def both_have() -> bool:
        return min(done) >= 5

    async with running(sweep_of(0).run_forever()), running(sweep_of(1).run_forever()):
        await eventually(both_have)

    assert most == 1


async def test_a_process_that_loses_its_connection_loses_the_hold(processes: Processes) -> None:
    first, second = processes
    async with sweeper_hold(first)():
        assert first.ear is not None
        first.ear.wire.terminate()

        async def is_anothers() -> bool:
            return await may_sweep(second)

        await eventually(is_anothers)

    async def is_back() -> bool:
        return await may_sweep(first)

    await eventually(is_back)


async def test_a_failed_sweep_lets_go(processes: Processes) -> None:
    with pytest.raises(ZeroDivisionError):
        async with sweeper_hold(processes[0])():
            raise ZeroDivisionError

    assert await may_sweep(processes[1])


async def test_a_process_that_hears_no_others_does_not_sweep(postgres: PostgresServer) -> None:
    database = PostgresDatabase(await postgres.database("bridge", migrate), Events(), {})
    async with database.opened():
        assert not await may_sweep(database)
