"""`serve --processes`, and what the processes of one database know of each other."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Collection, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.instants import milliseconds_of
from tests.cluster.processes import processes_over, until_found
from tests.support.command import run_command
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.server import ForkedServerProcess
from tests.support.waiting import eventually

pytestmark = needs_postgres


def listed(url: str, *arguments: str) -> str:
    """The output of `bridge-server processes`."""
    done = run_command("processes", *arguments, environment={"BRIDGE_DATABASE": url})
    assert done.exit_code == 0, done.err
    return done.out


def rows_of(url: str) -> list[dict[str, Any]]:
    """The processes as `--json` lists them."""
    rows: list[dict[str, Any]] = json.loads(listed(url, "--json"))["processes"]
    return rows


async def until_announced(wire: Any, urls: Collection[str]) -> None:
    """Return once processes with these URLs are in the table."""
    count = "SELECT count(DISTINCT url) FROM processes WHERE url = ANY ($1)"
    await until_found(wire, len(urls), count, urls)


NOW_MS = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint"


async def test_every_process_is_listed_with_its_url_its_state_and_the_time_of_its_start(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path) as pair, connected(url) as wire:
        urls = [each.url for each in pair]
        await until_announced(wire, urls)
        pair[1].process.stop()
        states = {each["url"]: each["state"] for each in rows_of(url)}
        assert states == dict(zip(urls, ("running", "stopped"), strict=True))
        await asyncio.to_thread(pair[1].process.start)

        await until_found(wire, 3, "SELECT count(DISTINCT number) FROM processes WHERE url IS NOT NULL")
        found, lines = rows_of(url), listed(url).splitlines()
        started = [milliseconds_of(each["started_at"]) for each in found]
        now_ms = await wire.fetchval(NOW_MS)
        # The program of before wrote no time.
        await wire.execute("UPDATE processes SET started_at_ms = NULL")
        unknown = listed(url).splitlines()
        os.kill(pair[0].pid, signal.SIGSTOP)
        try:

            async def is_silent() -> bool:
                """A beat that was on its way when the process stopped may come after the change."""
                await wire.execute("UPDATE processes SET seen_at_ms = seen_at_ms - 60000")
                return "silent" in {each["state"] for each in rows_of(url) if each["url"] == urls[0]}

            await eventually(is_silent)
        finally:
            os.kill(pair[0].pid, signal.SIGCONT)

    assert [each["state"] for each in found] == ["running", "stopped", "running"]
    assert started == sorted(started)
    assert now_ms - 600_000 < started[0] < started[2] <= now_ms
    assert lines[0].split() == ["number", "state", "started", "seen", "version", "url", "wallet"]
    shown = [tuple(line.split()[1:3]) for line in lines[1:]]
    assert shown == [(each["state"], each["started_at"]) for each in found]
    assert [line.split()[2] for line in unknown[1:]] == ["-", "-", "-"]


async def test_a_process_is_listed_under_its_internal_url_and_rows_of_those_long_gone_are_deleted(
    url: str, tmp_path: Path
) -> None:
    settings: dict[str, Any] = {"internal_url": "http://10.0.0.5:8080", "sweep_interval": 0.2}
    async with processes_over(url, tmp_path, 1, **settings), connected(url) as wire:
        add = "INSERT INTO processes (number, lane, seen_at_ms, version) VALUES ($1, 0, $2, '1')"
        now_ms = await wire.fetchval(NOW_MS)
        for each in ((1_001, now_ms - 700_000), (1_002, 700_000 - now_ms), (1_003, now_ms - 500_000)):
            await wire.execute(add, *each)

        await until_found(wire, 2, "SELECT count(*) FROM processes WHERE url = 'http://10.0.0.5:8080'")
        await until_found(wire, [1_003], "SELECT array_agg(number) FROM processes WHERE number > 1000")


async def test_an_upgrade_that_older_programs_cannot_bear_ends_them_with_a_line(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path) as pair, connected(url) as wire:
        add = "INSERT INTO schema_versions VALUES ($1, $2, 0)"
        try:
            await wire.execute(add, 9_000, 12)
            await until_announced(wire, [each.url for each in pair])
            assert all(each.process.is_running for each in pair)

            await wire.execute(add, 9_001, 9_001)

            for each in pair:
                assert each.process.process.wait(60) == 1
                assert "must know version 9001 of its schema" in each.process.log().splitlines()[-1]
        finally:
            await wire.execute("DELETE FROM schema_versions WHERE version >= 9000")


class Family(ForkedServerProcess):
    """A parent of three processes with a file of settings."""

    def __init__(self, database: str, folder: Path, **variables: str) -> None:
        self.database = database
        self.file = folder / "bridge.toml"
        self.write()
        environment = {"BRIDGE_DATABASE": database, "BRIDGE_PROCESSES": "3", "BRIDGE_CONFIG": str(self.file)}
        super().__init__(folder / "data", environment={**environment, **variables})

    @property
    def pids(self) -> list[int]:
        return [each["pid"] for each in self.facts["processes"]]

    @property
    def urls(self) -> list[str]:
        return [each["url"] for each in self.facts["processes"]]

    @property
    def ended(self) -> int:
        """How many processes have ended: each writes a line."""
        return self.log().count("process_ended")

    @property
    def children(self) -> set[int]:
        pid = self.process.pid
        return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()}

    def log(self) -> str:
        """The whole log, and not the last part of it: tests read on from where it ended before."""
        return (self.data_dir.parent / "data.log").read_text("utf-8")

    def write(self, token: str = "token", text: str = "") -> None:
        """Write the file of settings: an admin token, and other lines."""
        self.file.write_text(f'admin_token = "{token}"\n{text}', "utf-8")

    def look(self) -> None:
        """Read the ready file, which names the processes, anew."""
        self.facts = json.loads((self.data_dir.parent / "data.ready").read_bytes())

    async def until_complete(self, without: Iterable[int] = ()) -> None:
        """Wait until three processes answer, none of which is among these."""

        def is_complete() -> bool:
            self.look()
            found = self.pids
            return len(found) == 3 and not set(without) & set(found) and all(map(is_alive, found))

        await eventually(is_complete)

    async def replace(self) -> None:
        """Have the processes replaced, one after another."""
        before = self.pids
        self.process.send_signal(signal.SIGUSR1)
        await self.until_complete(without=before)


@contextmanager
def family(database: str, folder: Path, **variables: str) -> Iterator[Family]:
    server = Family(database, folder, **variables)
    try:
        server.start()
        yield server
    finally:
        server.close()


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def status_at(url: str, path: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as client, client.get(url + path, headers=headers) as response:
        return response.status


async def is_told(url: str, token: str) -> bool:
    """Whether the process takes this token of an operator."""
    return await status_at(url, "/admin/settings", Authorization=f"Bearer {token}") == 200


@pytest.fixture(scope="module")
async def shared_family(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Family]:
    folder = tmp_path_factory.mktemp("family")
    with family(await postgres.database("family"), folder) as server:
        yield server
        assert server.stop() == 0
        assert not any(map(is_alive, server.pids))
        assert not (folder / "data.ready").exists()


@pytest.fixture
async def server(shared_family: Family) -> AsyncIterator[Family]:
    """The parent of the module, whose three processes answer before and after the test."""
    await shared_family.until_complete()
    yield shared_family
    shared_family.write()
    assert shared_family.process.poll() is None
    await shared_family.until_complete()


async def test_three_processes_answer_at_one_port_and_each_at_its_own(server: Family) -> None:
    assert len({server.url, *server.urls}) == 4
    assert len({server.process.pid, *server.pids}) == 4
    assert server.facts["pid"] == server.process.pid

    async with aiohttp.ClientSession() as client:
        for number in range(6):
            async with client.post(f"{server.url}/session/new", headers={"Connection": "close"}) as made:
                session_id = (await made.json())["sessionId"]
            async with client.get(f"{server.urls[number % 3]}/session/{session_id}") as read:
                assert read.status == 204

    async with connected(server.database) as wire:
        await until_announced(wire, server.urls)
    assert sorted(each.name for each in server.data_dir.iterdir() if each.is_dir()) == ["1", "2", "3"]


async def test_a_killed_process_is_started_again_and_the_others_serve_on(server: Family) -> None:
    before = server.ended
    async with connected(server.database) as wire:
        newest = await wire.fetchval("SELECT max(number) FROM processes")
        os.kill(server.pids[1], signal.SIGKILL)

        async def is_replaced() -> bool:
            assert await status_at(server.url, "/hello", Connection="close") == 200
            return bool(await wire.fetchval("SELECT max(number) FROM processes") > newest)

        await eventually(is_replaced)
    assert server.ended == before + 1
    await server.until_complete()
    first = server.pids[0]
    os.kill(first, signal.SIGTERM)  # it ends by itself
    await server.until_complete(without=[first])


async def test_a_signal_replaces_one_process_after_another_by_the_settings_of_now_and_no_request_is_refused(
    server: Family,
) -> None:
    before, statuses, is_over = server.pids, set(), asyncio.Event()
    server.write(text="cache_bytes = 1000000\nprocesses = 9\n")
    async with aiohttp.ClientSession() as client:

        async def ask_on() -> None:
            while not is_over.is_set():
                headers = {"Connection": "close", "Prefer": "wait=1"}
                async with client.post(f"{server.url}/session/new", headers=headers) as made:
                    statuses.add(made.status)
                    session = (await made.json())["sessionId"]
                async with client.get(f"{server.url}/session/{session}", headers=headers) as read:
                    statuses.add(read.status)

        asking = [asyncio.create_task(ask_on()) for _ in range(8)]
        await server.replace()
        is_over.set()
        await asyncio.gather(*asking)
        token = {"Authorization": "Bearer token"}
        async with client.get(f"{server.url}/admin/settings", headers=token) as answer:
            settings = (await answer.json())["settings"]

    assert statuses == {200, 204}
    assert not any(map(is_alive, before))
    assert (settings["cache_bytes"]["value"], len(server.pids)) == (1_000_000, 3)
    server.write(text="max_wait = wrong")
    before_the_signal = len(server.log())
    server.process.send_signal(signal.SIGUSR1)
    await eventually(lambda: "settings_not_taken" in server.log()[before_the_signal:])


async def test_settings_with_which_no_process_starts_are_given_up_while_the_others_serve(
    server: Family,
) -> None:
    (first, *others), before = server.pids, len(server.log())
    with socket.create_server(("127.0.0.1", 0)) as another:
        server.write(text=f'metrics_host = "127.0.0.1"\nmetrics_port = {another.getsockname()[1]}\n')
        server.process.send_signal(signal.SIGUSR1)
        await server.until_complete(without=[first])
        await eventually(lambda: "settings_not_taken" in server.log()[before:])
        assert set(others) < set(server.pids)

    server.write()
    await server.replace()


async def test_a_hangup_of_the_parent_reaches_every_process_and_one_that_comes_back(server: Family) -> None:
    def hang_up(token: str) -> None:
        server.write(token)
        server.process.send_signal(signal.SIGHUP)

    before_the_signal = len(server.log())
    hang_up("revoked")
    for url in server.urls:
        await eventually(partial(is_told, url, "revoked"))
    await eventually(lambda: "needs_restart" in server.log()[before_the_signal:])
    said = server.log()[before_the_signal:]
    assert "needs_restart=[]" in said or '"needs_restart":[]' in said

    before, (first, *others) = server.ended, server.pids
    hang_up("between")
    os.kill(first, signal.SIGKILL)

    def has_come_back() -> bool:
        hang_up("now")  # it must not end a process that is starting
        server.look()
        return first not in server.pids

    await eventually(has_come_back)
    for url in server.urls:
        await eventually(partial(is_told, url, "now"))
        for former in ("revoked", "between"):
            assert await status_at(url, "/admin/settings", Authorization=f"Bearer {former}") == 401
    assert set(others) < set(server.pids)
    assert server.ended == before + 1


async def test_processes_that_cannot_be_are_refused(server: Family, tmp_path: Path) -> None:
    database = {"BRIDGE_DATABASE": "postgresql:///bridge"}
    for port, environment, complaint in (
        (server.url.rpartition(":")[2], {"BRIDGE_DATABASE": server.database}, "Address already in use"),
        ("0", {}, "processes: the file in data_dir is for one process"),
        ("0", {**database, "BRIDGE_TEST": "true"}, "test: tests control one process"),
        (
            *("0", {**database, "BRIDGE_INTERNAL_URL": "http://10.0.0.5"}),
            "internal_url: each of the processes listens at a port of its own",
        ),
        ("0", {"BRIDGE_DATABASE": "postgresql:///bridge?sslmode=impossible"}, "cannot be used"),
    ):
        arguments = ("serve", "--port", port, "--data-dir", tmp_path / "data", "--processes", "2")
        done = await asyncio.to_thread(run_command, *arguments, environment=environment)
        assert (done.exit_code, done.out, complaint in done.err) == (2, "", True), done.err


async def test_processes_that_are_killed_while_the_database_is_away_come_back_with_it(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    with family(cluster.url(), tmp_path) as server:
        first, second, third = server.pids
        await asyncio.to_thread(cluster.stop, "fast")
        os.kill(first, signal.SIGKILL)
        await eventually(lambda: "database_awaited" in server.log())
        (starting,) = server.children - {second, third}
        os.kill(starting, signal.SIGKILL)
        os.kill(second, signal.SIGTERM)
        await asyncio.to_thread(cluster.start)

        await server.until_complete(without=[first, starting, second])
        assert server.stop() == 0


async def test_a_process_that_cannot_start_because_of_a_setting_ends_all(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with connected(cluster.url()) as wire:
        await wire.execute("CREATE ROLE passing LOGIN SUPERUSER")
    with family(cluster.url().replace("bridge@", "passing@", 1), tmp_path) as server:
        async with connected(cluster.url()) as wire:
            await wire.execute("ALTER ROLE passing NOLOGIN")
        os.kill(server.pids[0], signal.SIGKILL)

        assert server.process.wait(60) == 1
        assert "refuses the login" in server.log()


async def test_the_service_manager_hears_from_the_parent_alone(url: str, tmp_path: Path) -> None:
    address, heard = tmp_path / "notify", list[bytes]()
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)

        def hear_until(last: bytes) -> None:
            while heard[-1:] != [last]:
                heard.append(manager.recv(1_000))

        with family(url, tmp_path, NOTIFY_SOCKET=str(address), WATCHDOG_USEC="60000000") as server:
            await asyncio.to_thread(hear_until, b"READY=1")
            await asyncio.to_thread(hear_until, b"WATCHDOG=1")
            assert server.stop() == 0
            await asyncio.to_thread(hear_until, b"STOPPING=1")

    assert set(heard) == {b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}
    assert heard.count(b"READY=1") == 1


async def test_processes_that_are_all_told_to_leave_come_back_and_a_stop_that_is_repeated_ends_well(
    url: str, tmp_path: Path
) -> None:
    with family(url, tmp_path) as server:
        before, process = server.pids, server.process
        for pid in (*before, process.pid):  # as `systemctl kill` without --kill-whom=main
            os.kill(pid, signal.SIGUSR1)
        await server.until_complete(without=before)
        assert process.poll() is None

        def has_ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        await eventually(has_ended)
        assert process.returncode == 0


async def test_processes_end_with_their_parent(url: str, tmp_path: Path) -> None:
    with family(url, tmp_path) as server:
        server.kill()
        await eventually(lambda: not any(map(is_alive, server.pids)))
