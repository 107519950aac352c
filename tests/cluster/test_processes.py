"""`serve --processes`, and what the processes of one database know of each other."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from bridge_server.kernel.instants import milliseconds_of
from tests.cluster.processes import ClusterProcess, cluster_url, processes_over
from tests.support.command import run_command
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster
from tests.support.rows import each_row
from tests.support.server import ForkedServerProcess
from tests.support.waiting import eventually

pytestmark = needs_postgres


# The processes of a database know of each other, and an upgrade ends those that it leaves behind.


def listed(url: str, *arguments: str) -> str:
    """The output of `bridge-server processes`."""
    done = run_command("processes", *arguments, environment={"BRIDGE_DATABASE": url})
    assert done.exit_code == 0, done.err
    return done.out


def states(url: str) -> dict[str, str]:
    """The state of each process, by its URL."""
    processes: list[dict[str, Any]] = json.loads(listed(url, "--json"))["processes"]
    return {each["url"]: each["state"] for each in processes}


async def both_announced(url: str, pair: list[ClusterProcess]) -> None:
    """Return once both are in the table with their URLs."""
    async with connected(url) as connection:

        async def are_there() -> bool:
            rows = await connection.fetch("SELECT DISTINCT url FROM processes WHERE url IS NOT NULL")
            return {row[0] for row in rows} == {each.url for each in pair}

        await eventually(are_there)


async def test_every_process_is_listed_with_its_url_its_state_and_the_time_of_its_start(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path) as pair, connected(url) as connection:
        await both_announced(url, pair)
        pair[1].process.stop()
        assert states(url) == {pair[0].url: "running", pair[1].url: "stopped"}
        await asyncio.to_thread(pair[1].process.start)

        async def three_are_there() -> bool:
            count = "SELECT count(DISTINCT number) FROM processes WHERE url IS NOT NULL"
            return bool(await connection.fetchval(count) == 3)

        await eventually(three_are_there)
        found: list[dict[str, Any]] = json.loads(listed(url, "--json"))["processes"]
        started = [milliseconds_of(each["started_at"]) for each in found]
        now_ms = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        lines = listed(url).splitlines()
        # The program of before wrote no time.
        await connection.execute("UPDATE processes SET started_at_ms = NULL")
        unknown = listed(url).splitlines()
        os.kill(pair[0].pid, signal.SIGSTOP)
        try:

            async def is_silent() -> bool:
                """A beat that was on its way when the process stopped may come after the change."""
                await connection.execute("UPDATE processes SET seen_at_ms = seen_at_ms - 60000")
                return states(url)[pair[0].url] == "silent"

            await eventually(is_silent)
        finally:
            os.kill(pair[0].pid, signal.SIGCONT)

    assert [each["state"] for each in found] == ["running", "stopped", "running"]
    assert started == sorted(started)
    assert now_ms - 600_000 < started[0] < started[2] <= now_ms
    assert lines[0].split() == ["number", "state", "started", "seen", "version", "url", "wallet"]
    assert [line.split()[1] for line in lines[1:]] == ["running", "stopped", "running"]
    assert [line.split()[2] for line in lines[1:]] == [each["started_at"] for each in found]
    assert [line.split()[2] for line in unknown[1:]] == ["-", "-", "-"]


async def test_a_process_is_listed_under_its_internal_url_and_rows_of_those_long_gone_are_deleted(
    url: str, tmp_path: Path
) -> None:
    named = "http://10.0.0.5:8080"
    async with (
        processes_over(url, tmp_path, 1, internal_url=named, sweep_interval=0.2),
        connected(url) as connection,
    ):
        add = "INSERT INTO processes (number, lane, seen_at_ms, version) VALUES ($1, 0, $2, '1')"
        now_ms = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        seen = {1_001: now_ms - 700_000, 1_002: 700_000 - now_ms, 1_003: now_ms - 500_000}
        for each in seen.items():
            await connection.execute(add, *each)

        async def is_there() -> bool:
            count = "SELECT count(*) FROM processes WHERE url = $1"
            return bool(await connection.fetchval(count, named) == 2)

        async def are_swept() -> bool:
            rows = await connection.fetch("SELECT number FROM processes WHERE number > 1000")
            return [row[0] for row in rows] == [1_003]

        await eventually(is_there)
        await eventually(are_swept)


async def test_an_upgrade_that_older_programs_cannot_bear_ends_them_with_a_line(
    url: str, tmp_path: Path
) -> None:
    async with processes_over(url, tmp_path) as pair, connected(url) as connection:
        add = "INSERT INTO schema_versions VALUES ($1, $2, 0)"
        try:
            await connection.execute(add, 9_000, 12)
            await both_announced(url, pair)
            assert all(each.process.is_running for each in pair)

            await connection.execute(add, 9_001, 9_001)

            for each in pair:
                assert each.process.process.wait(60) == 1
                assert "must know version 9001 of its schema" in each.process.log().splitlines()[-1]
        finally:
            await connection.execute("DELETE FROM schema_versions WHERE version >= 9000")


# `serve --processes`: several processes behind one port, and a parent that keeps them


@asynccontextmanager
async def family(url: str, folder: Path, **variables: str) -> AsyncIterator[ForkedServerProcess]:
    """A parent of three processes."""
    environment = {"BRIDGE_DATABASE": url, "BRIDGE_PROCESSES": "3", **variables}
    server = ForkedServerProcess(folder / "data", environment=environment)
    try:
        server.start()
        yield server
    finally:
        server.close()


def pids(server: ForkedServerProcess) -> list[int]:
    return [each["pid"] for each in server.facts["processes"]]


def is_alive(pid: int) -> bool:
    try:
        status = Path(f"/proc/{pid}/stat").read_text("ascii")
    except (FileNotFoundError, ProcessLookupError):  # it may end between the opening and the reading
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


async def status_at(url: str, path: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as client, client.get(url + path, headers=headers) as response:
        return response.status


def write(file: Path, token: str = "token", text: str = "") -> None:
    """Write the file of settings: an admin token, and other lines."""
    file.write_text(f'admin_token = "{token}"\n{text}', "utf-8")


@pytest.fixture(scope="module")
async def shared_family(
    postgres: PostgresServer, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[tuple[ForkedServerProcess, Path, str]]:
    """A parent of three processes with a file of settings, and the URL of their database."""
    folder, url = tmp_path_factory.mktemp("family"), await cluster_url(postgres, "family")
    file = folder / "bridge.toml"
    write(file)
    async with family(url, folder, BRIDGE_CONFIG=str(file)) as server:
        yield server, file, url
        assert server.stop() == 0
        assert not any(map(is_alive, pids(server)))
        assert not (folder / "data.ready").exists()


@pytest.fixture
async def server(
    shared_family: tuple[ForkedServerProcess, Path, str],
) -> AsyncIterator[ForkedServerProcess]:
    """The parent of the module, whose three processes answer before and after the test."""
    server, file, _ = shared_family
    await until_complete(server, without=set())
    yield server
    write(file)
    assert server.process.poll() is None
    await until_complete(server, without=set())


@pytest.fixture
def file(shared_family: tuple[ForkedServerProcess, Path, str]) -> Path:
    return shared_family[1]


@pytest.fixture
def family_url(shared_family: tuple[ForkedServerProcess, Path, str]) -> str:
    return shared_family[2]


async def until_complete(server: ForkedServerProcess, without: set[int]) -> None:
    """Wait until three processes answer, none of which is among these; the ready file names them."""

    async def is_complete() -> bool:
        server.facts = json.loads((server.data_dir.parent / "data.ready").read_bytes())
        found = pids(server)
        return len(found) == 3 and not without & set(found) and all(map(is_alive, found))

    await eventually(is_complete)


async def until_said(server: ForkedServerProcess, event: str) -> None:
    await eventually(lambda: event in server.log())


def children_of(server: ForkedServerProcess) -> list[int]:
    pid = server.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


async def replaced(server: ForkedServerProcess) -> None:
    """Have the processes replaced, one after another."""
    before = set(pids(server))
    server.process.send_signal(signal.SIGUSR1)
    await until_complete(server, without=before)


def ended(server: ForkedServerProcess) -> int:
    """How many processes have ended, by the log: each signal writes a line."""
    log = (server.data_dir.parent / "data.log").read_text("utf-8")
    return log.count("process_ended")


async def is_told(url: str, token: str) -> bool:
    """Whether the process takes this token of an operator."""
    return await status_at(url, "/admin/settings", Authorization=f"Bearer {token}") == 200


async def test_three_processes_answer_at_one_port_and_each_at_its_own(
    server: ForkedServerProcess, family_url: str
) -> None:
    inner = [each["url"] for each in server.facts["processes"]]
    assert len({server.url, *inner}) == 4
    assert len({server.process.pid, *pids(server)}) == 4
    assert server.facts["pid"] == server.process.pid

    async with aiohttp.ClientSession() as client:
        for number in range(6):
            async with client.post(f"{server.url}/session/new", headers={"Connection": "close"}) as made:
                session_id = (await made.json())["sessionId"]
            async with client.get(f"{inner[number % 3]}/session/{session_id}") as read:
                assert read.status == 204

    async with connected(family_url) as connection:

        async def are_listed() -> bool:
            rows = await connection.fetch("SELECT DISTINCT url FROM processes WHERE url IS NOT NULL")
            return {row[0] for row in rows} >= set(inner)

        await eventually(are_listed)
    assert sorted(each.name for each in server.data_dir.iterdir() if each.is_dir()) == ["1", "2", "3"]


async def test_a_killed_process_is_started_again_and_the_others_serve_on(
    server: ForkedServerProcess, family_url: str
) -> None:
    before = ended(server)
    async with connected(family_url) as connection:
        newest = await connection.fetchval("SELECT max(number) FROM processes")
        os.kill(pids(server)[1], signal.SIGKILL)

        async def is_replaced() -> bool:
            assert await status_at(server.url, "/hello", Connection="close") == 200
            return bool(await connection.fetchval("SELECT max(number) FROM processes") > newest)

        await eventually(is_replaced)
    assert ended(server) == before + 1
    await until_complete(server, without=set())
    (first, *_) = pids(server)
    os.kill(first, signal.SIGTERM)  # it ends by itself
    await until_complete(server, without={first})


async def test_a_signal_replaces_one_process_after_another_and_no_request_is_refused(
    server: ForkedServerProcess,
) -> None:
    before, statuses, is_over = set(pids(server)), [], asyncio.Event()
    async with aiohttp.ClientSession() as client:

        async def ask_on() -> None:
            while not is_over.is_set():
                headers = {"Connection": "close", "Prefer": "wait=1"}
                async with client.post(f"{server.url}/session/new", headers=headers) as made:
                    statuses.append(made.status)
                    session = (await made.json())["sessionId"]
                async with client.get(f"{server.url}/session/{session}", headers=headers) as read:
                    statuses.append(read.status)

        asking = [asyncio.create_task(ask_on()) for _ in range(8)]
        await replaced(server)
        is_over.set()
        await asyncio.gather(*asking)

    assert set(statuses) == {200, 204}
    assert not any(map(is_alive, before))


async def test_processes_that_replace_others_take_the_settings_as_they_are_now(
    server: ForkedServerProcess, file: Path
) -> None:
    write(file, text="cache_bytes = 1000000\nprocesses = 9\n")
    await replaced(server)

    async with (
        aiohttp.ClientSession(headers={"Authorization": "Bearer token"}) as client,
        client.get(f"{server.url}/admin/settings") as answer,
    ):
        settings = (await answer.json())["settings"]
    assert (settings["cache_bytes"]["value"], len(pids(server))) == (1_000_000, 3)

    write(file, text="max_wait = wrong")
    server.process.send_signal(signal.SIGUSR1)
    await until_said(server, "settings_not_taken")


async def test_settings_with_which_no_process_starts_are_given_up_while_the_others_serve(
    server: ForkedServerProcess, file: Path
) -> None:
    first, *others = pids(server)
    with socket.create_server(("127.0.0.1", 0)) as another:
        write(file, text=f'metrics_host = "127.0.0.1"\nmetrics_port = {another.getsockname()[1]}\n')
        server.process.send_signal(signal.SIGUSR1)
        await until_complete(server, without={first})
        assert "settings_not_taken" in server.log()
        assert set(others) < set(pids(server))

    write(file)
    await replaced(server)


async def test_a_hangup_of_the_parent_reaches_every_process_and_one_that_comes_back(
    server: ForkedServerProcess, file: Path
) -> None:
    def hang_up(token: str) -> None:
        write(file, token)
        server.process.send_signal(signal.SIGHUP)

    hang_up("revoked")
    for each in [each["url"] for each in server.facts["processes"]]:
        await eventually(partial(is_told, each, "revoked"))
    assert "needs_restart=[]" in server.log() or '"needs_restart":[]' in server.log()

    before, (first, *others) = ended(server), pids(server)
    hang_up("between")
    os.kill(first, signal.SIGKILL)

    async def has_come_back() -> bool:
        hang_up("now")  # it must not end a process that is starting
        server.facts = json.loads((server.data_dir.parent / "data.ready").read_bytes())
        return first not in pids(server)

    await eventually(has_come_back)
    for each in [each["url"] for each in server.facts["processes"]]:
        await eventually(partial(is_told, each, "now"))
        for former in ("revoked", "between"):
            assert await status_at(each, "/admin/settings", Authorization=f"Bearer {former}") == 401
    assert set(others) < set(pids(server))
    assert ended(server) == before + 1


async def test_a_port_that_another_program_has_is_refused(
    server: ForkedServerProcess, family_url: str, tmp_path: Path
) -> None:
    port = server.url.rpartition(":")[2]
    done = await asyncio.to_thread(
        run_command, "serve", "--port", port, "--data-dir", tmp_path / "other", "--processes", "2",
        environment={"BRIDGE_DATABASE": family_url},
    )  # fmt: skip

    assert done.exit_code == 2
    assert "Address already in use" in done.err


@each_row(
    ("environment", "complaint"),
    [
        ({}, "processes: the file in data_dir is for one process"),
        (
            {"BRIDGE_DATABASE": "postgresql:///bridge", "BRIDGE_TEST": "true"},
            "test: tests control one process",
        ),
        (
            {"BRIDGE_DATABASE": "postgresql:///bridge", "BRIDGE_INTERNAL_URL": "http://10.0.0.5"},
            "internal_url: each of the processes listens at a port of its own",
        ),
        ({"BRIDGE_DATABASE": "postgresql:///bridge?sslmode=impossible"}, "cannot be used"),
    ],
)
def test_processes_that_cannot_be_are_refused(
    tmp_path: Path, environment: dict[str, str], complaint: str
) -> None:
    done = run_command(
        "serve", "--port", "0", "--data-dir", tmp_path / "data", "--processes", "2", environment=environment
    )

    assert done.exit_code == 2
    assert complaint in done.err
    assert json.dumps(done.out) == '""'


async def test_processes_that_are_killed_while_the_database_is_away_come_back_with_it(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with family(cluster.url(), tmp_path) as server:
        first, second, third = pids(server)
        await asyncio.to_thread(cluster.stop, "fast")
        os.kill(first, signal.SIGKILL)
        await until_said(server, "database_awaited")
        (starting,) = set(children_of(server)) - {second, third}
        os.kill(starting, signal.SIGKILL)
        os.kill(second, signal.SIGTERM)
        await asyncio.to_thread(cluster.start)

        await until_complete(server, without={first, starting, second})
        assert server.stop() == 0


async def test_a_process_that_cannot_start_because_of_a_setting_ends_all(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with connected(cluster.url()) as wire:
        await wire.execute("CREATE ROLE passing LOGIN SUPERUSER")
    async with family(cluster.url().replace("bridge@", "passing@", 1), tmp_path) as server:
        async with connected(cluster.url()) as wire:
            await wire.execute("ALTER ROLE passing NOLOGIN")
        os.kill(pids(server)[0], signal.SIGKILL)

        assert server.process.wait(60) == 1
        assert "refuses the login" in server.log()


async def test_the_service_manager_hears_from_the_parent_alone(url: str, tmp_path: Path) -> None:
    address = tmp_path / "notify"
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.bind(str(address))
        manager.settimeout(60)
        async with family(url, tmp_path, NOTIFY_SOCKET=str(address), WATCHDOG_USEC="60000000") as server:
            heard = await asyncio.to_thread(heard_until, manager, b"READY=1")
            heard += await asyncio.to_thread(heard_until, manager, b"WATCHDOG=1")
            assert server.stop() == 0
            heard += await asyncio.to_thread(heard_until, manager, b"STOPPING=1")

    assert set(heard) == {b"READY=1", b"WATCHDOG=1", b"STOPPING=1"}
    assert heard.count(b"READY=1") == 1


def heard_until(manager: socket.socket, last: bytes) -> list[bytes]:
    heard = [manager.recv(1_000)]
    while heard[-1] != last:
        heard.append(manager.recv(1_000))
    return heard


async def test_processes_that_are_all_told_to_leave_come_back_and_a_stop_that_is_repeated_ends_well(
    url: str, tmp_path: Path
) -> None:
    async with family(url, tmp_path) as server:
        before, process = set(pids(server)), server.process
        for pid in (*before, process.pid):  # as `systemctl kill` without --kill-whom=main
            os.kill(pid, signal.SIGUSR1)

        await until_complete(server, without=before)
        assert process.poll() is None

        async def has_ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        await eventually(has_ended)
        assert process.returncode == 0


async def test_processes_end_with_their_parent(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        children = pids(server)
        server.kill()

        await eventually(lambda: not any(map(is_alive, children)))
