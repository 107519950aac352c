"""Listing more subscribers than fit into buffers: streamed, whole, and never the server's trouble."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import orjson
import pytest
import pytest_asyncio

from bridge_server.kernel.clock import SystemClock
from tests.support.engines import settings_over
from tests.support.project import App, account, opened_app, operator_beside, subscribe, subscribe_crowd
from tests.support.raw_http import raw_connection, spell
from tests.support.server import running_server, server_process
from tests.support.slow import slow

CROWD, MILLION = 200_000, 1_000_000
FLAT_BYTES = 16 * 2**20

in_module = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def app(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """A project with so many subscribers that no buffer on the way holds their listing."""
    async with (
        running_server(tmp_path_factory.mktemp("crowd") / "data") as server,
        opened_app(server) as app,
    ):
        await app.subscribe(account(0))
        subscribe_crowd(server.settings, CROWD)
        yield app


@in_module
async def test_client_that_leaves_in_the_middle_harms_no_other(app: App) -> None:
    request = spell("GET", app.paths["listing"], b"", f"Authorization: Bearer {app.secret}".encode())

    async with raw_connection(app.server) as connection:
        await connection.send(request)
        head = await connection.reader.readexactly(20_000)
        connection.writer.transport.abort()

    assert head.startswith(b"HTTP/1.1 200 OK")
    async with asyncio.timeout(60):
        answers = await asyncio.gather(*(app.lookup([account(1)]) for _ in range(50)))
    assert {answer.status for answer in answers} == {200}


@in_module
async def test_lasting_subscriber_is_listed_once_while_others_come_and_go(app: App) -> None:
    stays = [account(number) for number in range(0, CROWD + 1, 2)]
    leave = [account(number) for number in range(CROWD - 1, CROWD - 1_001, -2)]
    headers = {"Authorization": f"Bearer {app.secret}"}

    async with app.server.client.get(app.server.url + app.paths["listing"], headers=headers) as response:
        first = await response.content.readexactly(10_000)
        await app.unsubscribe(*leave)
        await app.subscribe("abc:x:before", "eip155:2:0x" + "1" * 40)
        listed = orjson.loads(first + await response.read())

    assert listed == sorted(set(listed))
    assert set(stays) <= set(listed)
    assert "abc:x:before" not in listed
    assert "eip155:2:0x" + "1" * 40 in listed
    assert not set(leave) & set(listed)


@slow
async def test_a_million_subscribers_are_listed_with_flat_memory(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    with server_process(data_dir) as server:
        async with operator_beside(settings_over(data_dir), SystemClock()) as operator:
            project, secret = await operator.projects.create("App")
            await subscribe(operator, project.project_id, [account(0)])
        subscribe_crowd(settings_over(data_dir), MILLION)
        url = f"{server.url}/{project.project_id}/subscribers"
        headers = {"Authorization": f"Bearer {secret.secret}"}
        async with aiohttp.ClientSession() as client:
            async with client.get(f"{server.url}/hello") as response:
                assert response.status == 200
            before = peak_bytes(server.process.pid)

            async with client.get(url, headers=headers) as response:
                body = await response.read()
                assert response.status == 200

        assert peak_bytes(server.process.pid) - before < FLAT_BYTES
    assert orjson.loads(body) == [account(number) for number in range(MILLION + 1)]


def peak_bytes(pid: int) -> int:
    """The most memory that the process has held at once (Linux)."""
    status = Path(f"/proc/{pid}/status").read_text("ascii")
    (line,) = [line for line in status.splitlines() if line.startswith("VmHWM:")]
    return int(line.split()[1]) * 1024
