"""A destination of the outbox is one process's at a time. A process is a database of its own here."""

import asyncio
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest

from bridge_server.kernel.events import Events
from bridge_server.storage.postgres import processes as leases_module
from bridge_server.storage.postgres.database import PostgresDatabase
from bridge_server.storage.postgres.migrate import migrate
from bridge_server.storage.postgres.processes import LeasedDestinations
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres

HOOK, OTHER = "https://hook.example:443", "fcm"
LEASE_SECONDS, DELIVERY_SECONDS = 60.0, 40.0
ROWS = "SELECT destination FROM outbox_lanes ORDER BY destination"


@dataclass
class Process:
    """The leases of one process, and its clock."""

    leases: LeasedDestinations
    clock: ManualClock
    in_use: set[str] = field(default_factory=set)


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    return await postgres.database("bridge", migrate)


@asynccontextmanager
async def process_on(url: str, lease_seconds: float = LEASE_SECONDS) -> AsyncIterator[Process]:
    database, clock = PostgresDatabase(url, Events(), {}), ManualClock()
    leases = LeasedDestinations(database, lambda: database.number, lease_seconds, DELIVERY_SECONDS, clock)
    process = Process(leases, clock)

    def in_use() -> Collection[str]:
        return process.in_use

    async with database.opened(), leases.holding(in_use):
        yield process


@pytest.fixture
async def first(url: str) -> AsyncIterator[Process]:
    async with process_on(url) as process:
        yield process


@pytest.fixture
async def second(url: str) -> AsyncIterator[Process]:
    async with process_on(url) as process:
        yield process


async def rows(url: str) -> list[str]:
    async with connected(url) as connection:
        return [row[0] for row in await connection.fetch(ROWS)]


async def end_all(url: str) -> None:
    """Let the time of every lease pass, by the clock of the database."""
    async with connected(url) as connection:
        await connection.execute("UPDATE outbox_lanes SET until_ms = 0")


async def test_a_destination_that_one_process_has_is_no_other_ones(first: Process, second: Process) -> None:
    assert await first.leases.take(HOOK)

    assert not await second.leases.take(HOOK)
    assert second.leases.is_elsewhere(HOOK)
    assert await second.leases.take(OTHER)
    assert (first.leases.tenure(HOOK) > 0, second.leases.tenure(HOOK)) == (True, 0)
    assert (first.leases.was_here(HOOK), second.leases.was_here(HOOK)) == (True, False)


async def test_a_look_tells_what_is_elsewhere_and_only_for_a_moment(first: Process, second: Process) -> None:
    await first.leases.take(HOOK)
    await second.leases.take(OTHER)

    await second.leases.refresh()

    assert (second.leases.is_elsewhere(HOOK), second.leases.is_elsewhere(OTHER)) == (True, False)
    second.clock.advance(1)
    assert not second.leases.is_elsewhere(HOOK)


async def test_nothing_begins_once_a_delivery_could_outlast_the_lease(first: Process) -> None:
    await first.leases.take(HOOK)

    first.clock.advance(LEASE_SECONDS - DELIVERY_SECONDS - 0.1)
    assert first.leases.tenure(HOOK)
    first.clock.advance(0.1)
    assert not first.leases.tenure(HOOK)


async def test_a_lease_that_is_taken_again_has_another_tenure(first: Process) -> None:
    await first.leases.take(HOOK)
    tenure = first.leases.tenure(HOOK)

    first.clock.advance(LEASE_SECONDS)
    assert await first.leases.take(HOOK)

    assert first.leases.tenure(HOOK) not in (0, tenure)


async def test_a_lease_that_has_ended_is_another_ones_and_its_former_holder_notices(
    url: str, first: Process, second: Process, monkeypatch: pytest.MonkeyPatch
) -> None:
    await first.leases.take(HOOK)
    await end_all(url)

    assert await second.leases.take(HOOK)

    await first.leases._renew()
    assert not first.leases.tenure(HOOK)
    assert not await first.leases.take(HOOK)


async def test_leases_are_renewed_while_they_are_in_use(url: str) -> None:
    async with process_on(url, lease_seconds=DELIVERY_SECONDS + 0.2) as process:
        process.in_use.add(HOOK)
        await process.leases.take(HOOK)
        tenure = process.leases.tenure(HOOK)
        process.clock.advance(0.3)
        assert not process.leases.tenure(HOOK)

        await process.leases._renew()

        assert process.leases.tenure(HOOK) == tenure


async def test_a_destination_that_is_not_in_use_any_more_is_given_up(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases_module, "_IDLE_SECONDS", 0.01)
    async with process_on(url) as process:
        process.in_use |= {HOOK, OTHER}
        assert await process.leases.take(HOOK)
        assert await process.leases.take(OTHER)

        process.in_use.remove(HOOK)

        async def is_given_up() -> bool:
            return await rows(url) == [OTHER]

        await eventually(is_given_up)
        assert (process.leases.tenure(HOOK), process.leases.was_here(HOOK)) == (0, True)
        assert process.leases.tenure(OTHER)
    assert await rows(url) == []


async def test_many_are_taken_by_few_statements(first: Process) -> None:

    names = [f"https://{number}.example:443" for number in range(200)]

    taken = await asyncio.gather(*(first.leases.take(name) for name in names))

    assert all(taken)
    assert len({first.leases.tenure(name) for name in names}) == 200


async def test_leases_of_processes_that_crashed_are_forgotten_at_a_start(url: str) -> None:
    async with process_on(url) as crashed, process_on(url):
        await crashed.leases.take(HOOK)
        await end_all(url)
        async with process_on(url):
            assert await rows(url) == []
