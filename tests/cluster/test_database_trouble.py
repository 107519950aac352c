"""Processes whose database is away, refuses for a while, or has another clock."""

import asyncio
import signal
from collections.abc import AsyncIterator, Mapping, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.clock import SystemClock
from bridge_server.storage.postgres.clock import CorrectedClock
from tests.cluster.processes import cluster_url
from tests.support.asking import ask
from tests.support.clock import PassTime
from tests.support.command import run_command
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.project import accounts, opened_app
from tests.support.proxies import open_cutting_proxy
from tests.support.rows import each_row
from tests.support.server import ForkedServerProcess, RunningServer, running_server
from tests.support.waiting import eventually

pytestmark = needs_postgres


# A server that starts while its database is away waits for it; settings that are wrong end it at once.


@pytest.fixture
async def server(cluster: PostgresCluster, tmp_path: Path) -> AsyncIterator[ForkedServerProcess]:
    """A process that is not started, and neither is its database."""
    await asyncio.to_thread(cluster.stop)
    server = ForkedServerProcess(tmp_path / "data", environment={"BRIDGE_DATABASE": cluster.url()})
    yield server
    server.close()


async def until_it_says(server: ForkedServerProcess, text: str) -> None:
    async def is_said() -> bool:
        try:
            return text in server.log()
        except FileNotFoundError:  # it has not been launched yet
            return False

    await eventually(is_said)


async def test_a_database_that_comes_later_is_waited_for(
    cluster: PostgresCluster, server: ForkedServerProcess
) -> None:
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    await until_it_says(server, "database_awaited")
    assert "cannot be reached" in server.log()

    await asyncio.to_thread(cluster.start)
    await starting

    assert server.stop() == 0


async def test_a_server_that_waits_for_its_database_stops_at_once(server: ForkedServerProcess) -> None:
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    await until_it_says(server, "database_awaited")

    server.process.send_signal(signal.SIGTERM)

    with pytest.raises(Exception, match="exit code 0"):
        await starting


@each_row(
    ("change", "complaint"),
    [
        (("bridge@", "nobody-knows@"), "refuses the login"),
        (("/bridge_", "/nowhere_"), "is not there"),
        (("?host=", "?sslmode=impossible&host="), "cannot be used"),
    ],
)
async def test_settings_that_are_wrong_end_it_with_exit_code_2(
    postgres: PostgresServer, tmp_path: Path, change: tuple[str, str], complaint: str
) -> None:
    url = (await postgres.bare_database("settings")).replace(*change, 1)

    done = await asyncio.to_thread(
        run_command, "serve", "--port", "0", "--data-dir", tmp_path, environment={"BRIDGE_DATABASE": url}
    )

    assert done.exit_code == 2
    assert complaint in done.err


async def test_tls_that_the_database_server_does_not_have_is_a_setting(
    postgres: PostgresServer, tmp_path: Path
) -> None:
    async with open_cutting_proxy(await postgres.bare_database("settings")) as proxy:
        done = await asyncio.to_thread(
            run_command, "serve", "--port", "0", "--data-dir", tmp_path,
            environment={"BRIDGE_DATABASE": f"{proxy.url}?sslmode=require"},
        )  # fmt: skip

    assert done.exit_code == 2
    assert "has no TLS" in done.err
    assert "set `ssl = on` in its postgresql.conf" in done.err


# PostgreSQL refuses for a while: clients have true texts, operators few lines and a server not ready.

Lines = list[MutableMapping[str, Any]]


@asynccontextmanager
async def full_disk(url: str) -> AsyncIterator[None]:
    """New sessions find no room, as on a full disk; small changes of what is there do."""
    async with connected(url) as wire:
        await wire.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; "
            "CREATE TRIGGER no_room BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION no_room()"
        )
        try:
            yield
        finally:
            await wire.execute("DROP FUNCTION no_room() CASCADE")


async def test_a_server_that_is_refused_space_is_not_ready_whatever_the_probe_says(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_server(tmp_path, database=url) as server:
        async with full_disk(url):
            refused = await ask(server, "POST", "/session/new")
            assert "Nothing was stored: the disk of the database is full" in refused.problem(503)["detail"]
            for _ in range(3):
                answer = await ask(server, "GET", "/readyz")
                assert "the disk of the database is full" in answer.problem(503)["detail"].lower()
        monkeypatch.setattr("bridge_server.storage.postgres.connection._FULL_SECONDS", 0.0)
        assert (await ask(server, "POST", "/session/new")).status == 200
        assert (await ask(server, "GET", "/readyz")).status == 200


@asynccontextmanager
async def server_that_lost_its_database(url: str, folder: Path) -> AsyncIterator[RunningServer]:
    async with open_cutting_proxy(url) as proxy, running_server(folder, database=proxy.url) as server:
        proxy.is_refusing = True
        async with connected(url) as wire:
            # Waited for, because a process of the database that has not noticed yet would go on answering.
            await wire.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        yield server
        proxy.is_refusing = False


async def test_a_read_that_is_refused_says_nothing_of_storing(url: str, tmp_path: Path) -> None:
    async with server_that_lost_its_database(url, tmp_path) as server:
        details = set()
        for _ in range(20):
            answer = await ask(server, "GET", "/session/none")
            if answer.status == 503:
                details.add(answer.problem(503)["detail"])

    assert details
    assert not any("stored" in each for each in details)


async def test_refused_requests_have_ten_lines_in_a_while_and_one_with_the_number_of_the_others(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_time: PassTime
) -> None:
    await pass_time(1)  # the server of an earlier test has counted requests that are not written yet
    monkeypatch.setattr("bridge_server.web.request_log._FAILURE_SECONDS", 3_600.0)
    with capture_logs() as lines:
        async with server_that_lost_its_database(url, tmp_path) as server:
            answers = await asyncio.gather(*(ask(server, "POST", "/session/new") for _ in range(200)))
            refused = [each.status for each in answers].count(503)
            assert refused > 20
            assert (await ask(server, "GET", "/livez")).status == 200  # all lines are written by then

            await pass_time(3_600)

            assert len(of("request", lines)) == 10
            assert [each["requests"] for each in of("more_requests_failed", lines)] == [refused - 10]


def of(event: str, lines: Lines) -> Lines:
    return [each for each in lines if each["event"] == event and each["status"] == 503]


# A machine's clock is set while a server runs: nothing that lives is deleted, and no limit is lifted.


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
async def clocks_url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "clocks")


@each_row("step", STEPS)
async def test_a_clock_set_ahead_deletes_no_living_session(
    clocks_url: str, tmp_path: Path, step: int
) -> None:
    machine, right = MachineClock(), CorrectedClock(MachineClock())
    settings: Mapping[str, Any] = {"database": clocks_url, **SHORT_LIVED}
    async with (
        running_server(tmp_path / "one", CorrectedClock(machine), **settings) as one,  # type: ignore[arg-type]
        running_server(tmp_path / "other", right, **settings) as other,  # type: ignore[arg-type]
        connected(clocks_url) as wire,
    ):
        expired, living = [await server.open_session() for server in (one, other)]
        machine.ahead_seconds = step
        await wire.execute("UPDATE sessions SET expires_at_ms = 1 WHERE session_id = $1", expired)

        async def is_swept() -> bool:
            return not await wire.fetchval(COUNT, expired)

        await eventually(is_swept)
        for server in (one, other):
            assert (await ask(server, "GET", f"/session/{living}")).status == 204


async def test_a_clock_set_ahead_lifts_no_limit(clocks_url: str, tmp_path: Path) -> None:
    machine = MachineClock()
    (account,) = accounts(1)
    clock: Any = CorrectedClock(machine)
    async with running_server(tmp_path, clock, database=clocks_url) as server, opened_app(server) as app:
        await app.subscribe(account)

        async def statuses() -> list[int]:
            """Of calls that are made at once: two more pass in a second."""
            return [each.status for each in await asyncio.gather(*(app.notify([account]) for _ in range(30)))]

        while 429 not in await statuses():
            pass
        machine.ahead_seconds = 5 * MINUTE

        assert (await statuses()).count(429) >= 10


async def test_a_clock_that_differs_is_told_at_once(clocks_url: str, tmp_path: Path) -> None:
    machine = MachineClock()
    clock: Any = CorrectedClock(machine)
    async with running_server(tmp_path, clock, database=clocks_url) as server:
        machine.ahead_seconds = 59 * MINUTE

        async def is_told() -> bool:
            answer = await ask(server, "GET", "/readyz")
            return answer.status == 503 and b"3540.0 s ahead" in answer.body

        await eventually(is_told)


async def test_the_step_of_the_database_servers_clock_is_taken_as_a_step_and_nothing_is_swept(
    clocks_url: str, tmp_path: Path
) -> None:
    """The clock of a database server is played by a function that stands before the real one."""
    clock: Any = CorrectedClock(MachineClock())
    async with connected(clocks_url) as wire:
        await wire.execute("CREATE SCHEMA stepped")
        await wire.execute(
            "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            f"$$ SELECT pg_catalog.clock_timestamp() + interval '{59 * MINUTE} s' $$"
        )
    try:
        await _sweeps_nothing(clocks_url, tmp_path, clock)
    finally:
        async with connected(clocks_url) as wire:
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

        await eventually(lambda: bool(clock.now_us() - before_us > 58 * MINUTE * 1_000_000))
        async with connected(url) as wire:
            assert await wire.fetchval(COUNT, living) == 1
