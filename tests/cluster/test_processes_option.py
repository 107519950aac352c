"""`serve --processes`: several processes behind one port, and a parent that keeps them."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.processes import cluster_url
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster, programs
from tests.support.rows import each_row
from tests.support.server import ForkedServerProcess

pytestmark = needs_postgres


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "operation")


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A server of PostgreSQL for a test that stops it."""
    if programs() is None:
        pytest.skip("needs PostgreSQL's server programs, to stop a server")
    cluster = PostgresCluster.made(owner=os.getpid())
    cluster.start()
    yield cluster
    if cluster.is_running:
        cluster.stop("immediate")


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
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()[0] != "Z"


async def status_at(url: str, path: str, **headers: str) -> int:
    async with aiohttp.ClientSession() as client, client.get(url + path, headers=headers) as response:
        return response.status


async def test_three_processes_answer_at_one_port_and_each_at_its_own(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
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

        async with connected(url) as connection:

            async def are_listed() -> bool:
                rows = await connection.fetch("SELECT DISTINCT url FROM processes WHERE url IS NOT NULL")
                return {row[0] for row in rows} == set(inner)

            await eventually(are_listed)
        assert sorted(each.name for each in (tmp_path / "data").iterdir() if each.is_dir()) == ["1", "2", "3"]
        children = pids(server)
        assert server.stop() == 0
    assert not any(map(is_alive, children))
    assert not (tmp_path / "data.ready").exists()


async def test_a_killed_process_is_started_again_and_the_others_serve_on(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        async with connected(url) as connection:
            newest = await connection.fetchval("SELECT max(number) FROM processes")
            os.kill(pids(server)[1], signal.SIGKILL)

            async def is_replaced() -> bool:
                assert await status_at(server.url, "/hello", Connection="close") == 200
                return bool(await connection.fetchval("SELECT max(number) FROM processes") > newest)

            await eventually(is_replaced)
        assert server.stop() == 0
        assert "process_ended" in server.log()


async def test_a_process_that_ends_by_itself_is_started_again(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        children = pids(server)
        os.kill(children[0], signal.SIGTERM)

        await until_complete(server, without={children[0]})
        assert server.process.poll() is None
        assert server.stop() == 0


async def test_processes_that_are_killed_while_the_database_is_away_come_back_with_it(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with family(cluster.url(), tmp_path) as server:
        killed = pids(server)[:2]
        await asyncio.to_thread(cluster.stop, "fast")
        for _ in range(2):  # the second time in its start
            os.kill(killed[0], signal.SIGKILL)
            await until_said(server, "database_awaited")
            killed = [*(set(children_of(server)) - set(pids(server))), *killed]
        os.kill(pids(server)[1], signal.SIGTERM)
        await asyncio.to_thread(cluster.start)

        await until_complete(server, without=set(killed) | set(pids(server)[:2]))
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


async def test_a_signal_replaces_one_process_after_another_and_no_request_is_refused(
    url: str, tmp_path: Path
) -> None:
    async with family(url, tmp_path) as server, aiohttp.ClientSession() as client:
        before, statuses, is_over = set(pids(server)), [], asyncio.Event()

        async def ask_on() -> None:
            while not is_over.is_set():
                headers = {"Connection": "close", "Prefer": "wait=1"}
                async with client.post(f"{server.url}/session/new", headers=headers) as made:
                    statuses.append(made.status)
                    session = (await made.json())["sessionId"]
                async with client.get(f"{server.url}/session/{session}", headers=headers) as read:
                    statuses.append(read.status)

        asking = [asyncio.create_task(ask_on()) for _ in range(8)]
        server.process.send_signal(signal.SIGUSR1)
        await until_complete(server, without=before)
        is_over.set()
        await asyncio.gather(*asking)

        assert set(statuses) == {200, 204}
        assert not any(map(is_alive, before))
        assert server.stop() == 0


async def test_processes_that_replace_others_take_the_settings_as_they_are_now(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text("max_wait = 11\n", "utf-8")
    async with family(url, tmp_path, BRIDGE_CONFIG=str(file), BRIDGE_ADMIN_TOKEN="token") as server:
        file.write_text("cache_bytes = 1000000\nprocesses = 9\n", "utf-8")
        before = set(pids(server))
        server.process.send_signal(signal.SIGUSR1)
        await until_complete(server, without=before)

        async with (
            aiohttp.ClientSession(headers={"Authorization": "Bearer token"}) as client,
            client.get(f"{server.url}/admin/settings") as answer,
        ):
            settings = (await answer.json())["settings"]
        assert (settings["cache_bytes"]["value"], len(pids(server))) == (1_000_000, 3)

        file.write_text("max_wait = wrong", "utf-8")
        server.process.send_signal(signal.SIGUSR1)
        await until_said(server, "settings_not_taken")
        assert server.stop() == 0


async def test_settings_with_which_no_process_starts_are_given_up_while_the_others_serve(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text("", "utf-8")
    async with family(url, tmp_path, BRIDGE_CONFIG=str(file)) as server:
        first, *others = pids(server)
        with socket.create_server(("127.0.0.1", 0)) as another:
            file.write_text(
                f'metrics_host = "127.0.0.1"\nmetrics_port = {another.getsockname()[1]}\n', "utf-8"
            )
            server.process.send_signal(signal.SIGUSR1)
            await until_complete(server, without={first})
            assert "settings_not_taken" in server.log()
            assert set(others) < set(pids(server))

        file.write_text("cache_bytes = 1000000\n", "utf-8")
        before = set(pids(server))
        server.process.send_signal(signal.SIGUSR1)
        await until_complete(server, without=before)
        assert server.stop() == 0


async def test_processes_that_are_all_told_to_leave_come_back(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        before = set(pids(server))
        for pid in (*before, server.process.pid):  # as `systemctl kill` without --kill-whom=main
            os.kill(pid, signal.SIGUSR1)

        await until_complete(server, without=before)
        assert server.process.poll() is None
        assert server.stop() == 0


async def until_complete(server: ForkedServerProcess, without: set[int]) -> None:
    """Wait until three processes answer, none of which is among these; the ready file names them."""

    async def is_complete() -> bool:
        server.facts = json.loads((server.data_dir.parent / "data.ready").read_bytes())
        return len(pids(server)) == 3 and not without & set(pids(server))

    await eventually(is_complete)


async def until_said(server: ForkedServerProcess, event: str) -> None:
    async def is_said() -> bool:
        return event in server.log()

    await eventually(is_said)


def children_of(server: ForkedServerProcess) -> list[int]:
    pid = server.process.pid
    return [int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text("ascii").split()]


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


async def test_processes_end_with_their_parent(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        children = pids(server)
        server.kill()

        async def are_gone() -> bool:
            return not any(map(is_alive, children))

        await eventually(are_gone)


async def test_a_stop_that_is_asked_for_again_and_again_ends_well(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        process = server.process
        assert process is not None

        async def has_ended() -> bool:
            process.send_signal(signal.SIGTERM)
            return process.poll() is not None

        await eventually(has_ended)
        assert process.returncode == 0


async def test_a_hangup_of_the_parent_reaches_every_process(url: str, tmp_path: Path) -> None:
    file = tmp_path / "bridge.toml"

    def write(token: str) -> None:
        file.write_text(f'admin_token = "{token}"\n', "utf-8")

    write("before")
    async with family(url, tmp_path, BRIDGE_CONFIG=str(file)) as server:
        inner = [each["url"] for each in server.facts["processes"]]
        write("after")
        server.process.send_signal(signal.SIGHUP)

        for each in inner:

            async def is_taken(each: str = each) -> bool:
                return await status_at(each, "/admin/settings", Authorization="Bearer after") == 200

            await eventually(is_taken)
        assert "needs_restart=[]" in server.log() or '"needs_restart":[]' in server.log()
        assert server.stop() == 0


async def test_a_process_that_comes_back_has_the_settings_of_the_last_hangup(
    url: str, tmp_path: Path
) -> None:
    file = tmp_path / "bridge.toml"
    file.write_text('admin_token = "revoked"\n', "utf-8")
    async with family(url, tmp_path, BRIDGE_CONFIG=str(file)) as server:
        first, *others = pids(server)
        file.write_text('admin_token = "between"\n', "utf-8")
        server.process.send_signal(signal.SIGHUP)
        os.kill(first, signal.SIGKILL)

        async def has_come_back() -> bool:
            file.write_text('admin_token = "now"\n', "utf-8")
            server.process.send_signal(signal.SIGHUP)  # it must not end a process that is starting
            server.facts = json.loads((tmp_path / "data.ready").read_bytes())
            return first not in pids(server)

        await eventually(has_come_back)
        for each in [each["url"] for each in server.facts["processes"]]:

            async def is_taken(each: str = each) -> bool:
                return await status_at(each, "/admin/settings", Authorization="Bearer now") == 200

            await eventually(is_taken)
            for former in ("revoked", "between"):
                assert await status_at(each, "/admin/settings", Authorization=f"Bearer {former}") == 401
        assert set(others) < set(pids(server))
        log = (tmp_path / "data.log").read_text("utf-8")  # whole: each signal writes a line
        assert log.count("process_ended") == 1
        assert server.stop() == 0


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


async def test_a_port_that_another_program_has_is_refused(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        port = server.url.rpartition(":")[2]
        done = run_command(
            "serve", "--port", port, "--data-dir", tmp_path / "other", "--processes", "2",
            environment={"BRIDGE_DATABASE": url},
        )  # fmt: skip

    assert done.exit_code == 2
    assert "Address already in use" in done.err
