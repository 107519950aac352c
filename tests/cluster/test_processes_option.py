"""`serve --processes`: several processes behind one port, and a parent that keeps them."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.cluster.processes import cluster_url
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.server import ForkedServerProcess

pytestmark = needs_postgres


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "operation")


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


async def test_a_process_that_ends_by_itself_ends_all(url: str, tmp_path: Path) -> None:
    async with family(url, tmp_path) as server:
        children = pids(server)
        os.kill(children[0], signal.SIGTERM)

        assert server.process.wait(60) == 1
        assert not any(map(is_alive, children))


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


@pytest.mark.parametrize(
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
        ({"BRIDGE_DATABASE": "postgresql:///nowhere?host=/nowhere"}, "cannot be reached"),
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
