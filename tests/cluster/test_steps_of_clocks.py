"""A machine's clock is set while a server runs: nothing that lives is deleted, and no limit is lifted."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.clock import SystemClock
from bridge_server.storage.postgres.clock import CorrectedClock
from tests.cluster.processes import cluster_url
from tests.support.asking import ask
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.project import accounts, opened_app
from tests.support.rows import each_row
from tests.support.server import running_server

pytestmark = needs_postgres

MINUTE, DAY = 60, 86_400
SHORT_LIVED: Mapping[str, Any] = {"session_ttl": 1_800, "sweep_interval": 0.05}
COUNT = "SELECT count(*) FROM sessions WHERE session_id = $1"
STEPS = [59 * MINUTE, 2 * DAY]


class MachineClock(SystemClock):
    """The machine's clock, which the test sets."""

    def __init__(self) -> None:
        self.ahead_seconds = 0

    def now_us(self) -> int:
        return super().now_us() + self.ahead_seconds * 1_000_000

    def now_ms(self) -> int:
        return self.now_us() // 1_000


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "clocks")


@each_row("step", STEPS)
async def test_a_clock_set_ahead_deletes_no_living_session(url: str, tmp_path: Path, step: int) -> None:
    machine, right = MachineClock(), CorrectedClock(MachineClock())
    settings: Mapping[str, Any] = {"database": url, **SHORT_LIVED}
    async with (
        running_server(tmp_path / "one", CorrectedClock(machine), **settings) as one,  # type: ignore[arg-type]
        running_server(tmp_path / "other", right, **settings) as other,  # type: ignore[arg-type]
        connected(url) as wire,
    ):
        expired, living = [await server.open_session() for server in (one, other)]
        machine.ahead_seconds = step
        await wire.execute("UPDATE sessions SET expires_at_ms = 1 WHERE session_id = $1", expired)

        async def is_swept() -> bool:
            return not await wire.fetchval(COUNT, expired)

        await eventually(is_swept)
        for server in (one, other):
            assert (await ask(server, "GET", f"/session/{living}")).status == 204


async def test_a_clock_set_ahead_lifts_no_limit(url: str, tmp_path: Path) -> None:
    machine = MachineClock()
    (account,) = accounts(1)
    clock: Any = CorrectedClock(machine)
    async with running_server(tmp_path, clock, database=url) as server, opened_app(server) as app:
        await app.subscribe(account)
        while (await app.notify([account])).status != 429:
            pass
        machine.ahead_seconds = 5 * MINUTE

        statuses = [(await app.notify([account])).status for _ in range(20)]

    assert statuses.count(429) >= 10


async def test_a_clock_that_differs_is_told_at_once(url: str, tmp_path: Path) -> None:
    machine = MachineClock()
    clock: Any = CorrectedClock(machine)
    async with running_server(tmp_path, clock, database=url) as server:
        machine.ahead_seconds = 59 * MINUTE

        async def is_told() -> bool:
            answer = await ask(server, "GET", "/readyz")
            return answer.status == 503 and b"3540.0 s ahead" in answer.body

        await eventually(is_told)


async def test_the_step_of_the_database_servers_clock_is_taken_as_a_step_and_nothing_is_swept(
    url: str, tmp_path: Path
) -> None:
    """The clock of a database server is played by a function that stands before the real one."""
    clock: Any = CorrectedClock(MachineClock())
    async with connected(url) as wire:
        await wire.execute("CREATE SCHEMA stepped")
        await wire.execute(
            "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            f"$$ SELECT pg_catalog.clock_timestamp() + interval '{59 * MINUTE} s' $$"
        )
    try:
        await _sweeps_nothing(url, tmp_path, clock)
    finally:
        async with connected(url) as wire:
            name = await wire.fetchval("SELECT current_database()")
            await wire.execute(f'ALTER DATABASE "{name}" RESET search_path')
            await wire.execute("DROP SCHEMA stepped CASCADE")


async def _sweeps_nothing(url: str, folder: Path, clock: Any) -> None:
    async with running_server(folder, clock, database=url, **SHORT_LIVED) as server:
        living = await server.open_session()
        before_us = clock.now_us()
        async with connected(url) as wire:
            name = await wire.fetchval("SELECT current_database()")
            await wire.execute(f'ALTER DATABASE "{name}" SET search_path = stepped, pg_catalog, public')
            await wire.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name LIKE 'bridge-server/%' AND datname = current_database()"
            )

        async def is_taken() -> bool:
            return bool(clock.now_us() - before_us > 58 * MINUTE * 1_000_000)

        await eventually(is_taken)
        async with connected(url) as wire:
            assert await wire.fetchval(COUNT, living) == 1


@each_row("step", STEPS)
async def test_beside_a_file_nothing_is_deleted_before_an_operator_can_set_the_clock_right(
    tmp_path: Path, step: int
) -> None:
    clock = ManualClock()
    with capture_logs() as events:
        async with running_server(tmp_path, clock, database=None, **SHORT_LIVED) as server:
            session = await server.open_session()
            clock.set_by(step)

            async def has_looked() -> bool:
                return any(event["event"] == "clock_jumped" for event in events)

            await eventually(has_looked)
            clock.set_by(-step)
            assert (await ask(server, "GET", f"/session/{session}")).status == 204
