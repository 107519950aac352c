"""Processes whose database is away, refuses for a while, or has another clock.

White-box: how long a full disk is believed and how often refusals are reported has no setting.
"""

import asyncio
import signal
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from bridge_server.kernel.clock import SystemClock
from bridge_server.storage.postgres.clock import CorrectedClock
from tests.cluster.processes import until_found
from tests.support.asking import ask
from tests.support.clock import PassTime
from tests.support.command import run_command
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.project import opened_app
from tests.support.proxies import open_cutting_proxy
from tests.support.rows import each_row
from tests.support.server import ForkedServerProcess, running_server
from tests.support.waiting import eventually

pytestmark = needs_postgres


async def test_a_database_that_comes_later_is_waited_for_and_a_server_that_waits_stops_at_once(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    await asyncio.to_thread(cluster.stop)
    environment = {"BRIDGE_DATABASE": cluster.url()}
    stopped, other = [ForkedServerProcess(tmp_path / each, environment=environment) for each in "ab"]
    with closing(stopped), closing(other):
        starting = [asyncio.create_task(asyncio.to_thread(each.start)) for each in (stopped, other)]

        def do_wait() -> bool:
            try:
                return all("database_awaited" in each.log() for each in (stopped, other))
            except FileNotFoundError:  # one of them has not been launched yet
                return False

        await eventually(do_wait)
        assert "cannot be reached" in other.log()

        stopped.process.send_signal(signal.SIGTERM)
        with pytest.raises(Exception, match="exit code 0"):
            await starting[0]
        await asyncio.to_thread(cluster.start)
        await starting[1]
        assert other.stop() == 0


@each_row(
    ("change", "complaints"),
    [
        (("bridge@", "nobody-knows@"), ["refuses the login"]),
        (("/bridge_", "/nowhere_"), ["is not there"]),
        (("?host=", "?sslmode=impossible&host="), ["cannot be used"]),
        # At the port of a proxy, because TLS is not for the file of a socket.
        (None, ["has no TLS", "set `ssl = on` in its postgresql.conf"]),
    ],
)
async def test_settings_that_are_wrong_end_it_with_exit_code_2(
    postgres: PostgresServer, tmp_path: Path, change: tuple[str, str] | None, complaints: list[str]
) -> None:
    url = await postgres.bare_database("settings")
    async with open_cutting_proxy(url) as proxy:
        wrong = f"{proxy.url}?sslmode=require" if change is None else url.replace(*change, 1)
        done = await asyncio.to_thread(
            run_command,
            "serve",
            "--port",
            "0",
            "--data-dir",
            tmp_path,
            environment={"BRIDGE_DATABASE": wrong},
        )

    assert done.exit_code == 2
    assert [each for each in complaints if each not in done.err] == []


async def test_a_server_that_is_refused_space_is_not_ready_whatever_the_probe_says(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with running_server(tmp_path, database=url) as server, connected(url) as wire:
        # New sessions find no room, as on a full disk; small changes of what is there do.
        await wire.execute(
            "CREATE FUNCTION no_room() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE EXCEPTION "
            "'could not extend file: No space left on device' USING ERRCODE = '53100'; END $$; "
            "CREATE TRIGGER no_room BEFORE INSERT ON sessions FOR EACH ROW EXECUTE FUNCTION no_room()"
        )
        try:
            refused = await ask(server, "POST", "/session/new")
            assert "Nothing was stored: the disk of the database is full" in refused.problem(503)["detail"]
            for _ in range(3):
                answer = await ask(server, "GET", "/readyz")
                assert "the disk of the database is full" in answer.problem(503)["detail"].lower()
        finally:
            await wire.execute("DROP FUNCTION no_room() CASCADE")
        monkeypatch.setattr("bridge_server.storage.postgres.connection._FULL_SECONDS", 0.0)
        assert (await ask(server, "POST", "/session/new")).status == 200
        assert (await ask(server, "GET", "/readyz")).status == 200


async def test_refused_requests_have_ten_lines_in_a_while_and_one_with_the_number_of_the_others(
    url: str, wire: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, pass_time: PassTime
) -> None:
    await pass_time(1)  # the server of an earlier test has counted requests that are not written yet
    monkeypatch.setattr("bridge_server.web.request_log._FAILURE_SECONDS", 3_600.0)
    with capture_logs() as lines:
        async with open_cutting_proxy(url) as proxy, running_server(tmp_path, database=proxy.url) as server:
            proxy.is_refusing = True
            # Waited for, because a process of the database that has not noticed yet would go on answering.
            await wire.execute(
                "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity "
                "WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            answers = await asyncio.gather(*(ask(server, "POST", "/session/new") for _ in range(200)))
            refused = [each.status for each in answers].count(503)
            assert refused > 20
            assert (await ask(server, "GET", "/livez")).status == 200  # all lines are written by then

            await pass_time(3_600)

            failures = [each for each in lines if each.get("status") == 503]
            assert [each["event"] for each in failures].count("request") == 10
            more = [each["requests"] for each in failures if each["event"] == "more_requests_failed"]
            assert more == [refused - 10]
            reads = [await ask(server, "GET", "/session/none") for _ in range(20)]
            details = {answer.problem(503)["detail"] for answer in reads if answer.status == 503}
            assert details
            assert not any("stored" in each for each in details), "a read says nothing of storing"
            proxy.is_refusing = False


MINUTE = 60
SHORT_LIVED: dict[str, Any] = {"session_ttl": 1_800, "sweep_interval": 0.05}
COUNT = "SELECT count(*) FROM sessions WHERE session_id = $1"


class MachineClock(SystemClock):
    """The machine's clock, which the test sets."""

    def __init__(self) -> None:
        self.ahead_seconds = 0

    def now_us(self) -> int:
        return super().now_us() + self.ahead_seconds * 1_000_000

    def now_ms(self) -> int:
        return self.now_us() // 1_000


@each_row("step", [59 * MINUTE, 2 * 86_400])
async def test_a_clock_set_ahead_deletes_no_living_session(url: str, tmp_path: Path, step: int) -> None:
    machine = MachineClock()
    clock: Any = CorrectedClock(machine)
    right: Any = CorrectedClock(MachineClock())
    async with (
        running_server(tmp_path / "one", clock, database=url, **SHORT_LIVED) as one,
        running_server(tmp_path / "other", right, database=url, **SHORT_LIVED) as other,
        connected(url) as wire,
    ):
        expired, living = [await server.open_session() for server in (one, other)]
        machine.ahead_seconds = step
        await wire.execute("UPDATE sessions SET expires_at_ms = 1 WHERE session_id = $1", expired)

        await until_found(wire, 0, COUNT, expired)
        for server in (one, other):
            assert (await ask(server, "GET", f"/session/{living}")).status == 204


async def test_a_clock_set_ahead_lifts_no_limit_and_is_told_at_once(url: str, tmp_path: Path) -> None:
    machine = MachineClock()
    clock: Any = CorrectedClock(machine)
    async with running_server(tmp_path, clock, database=url) as server, opened_app(server) as app:
        while (await app.listing()).status != 429:  # one more passes in five minutes
            pass
        machine.ahead_seconds = 59 * MINUTE

        assert (await app.listing()).status == 429

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
        name = await wire.fetchval("SELECT current_database()")
        await wire.execute("CREATE SCHEMA stepped")
        await wire.execute(
            "CREATE FUNCTION stepped.clock_timestamp() RETURNS timestamptz LANGUAGE sql AS "
            f"$$ SELECT pg_catalog.clock_timestamp() + interval '{59 * MINUTE} s' $$"
        )
        try:
            async with running_server(tmp_path, clock, database=url, **SHORT_LIVED) as server:
                living = await server.open_session()
                before_us = clock.now_us()
                await wire.execute(f'ALTER DATABASE "{name}" SET search_path = stepped, pg_catalog, public')
                await wire.execute(
                    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                    "WHERE application_name LIKE 'bridge-server/%' AND datname = current_database()"
                )

                await eventually(lambda: bool(clock.now_us() - before_us > 58 * MINUTE * 1_000_000))
                assert await wire.fetchval(COUNT, living) == 1
        finally:
            await wire.execute(f'ALTER DATABASE "{name}" RESET search_path')
            await wire.execute("DROP SCHEMA stepped CASCADE")
