"""A server that starts while its database is away waits for it; settings that are wrong end it at once."""

import asyncio
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.command import run_command
from tests.support.cutting_proxy import open_cutting_proxy
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster, programs
from tests.support.rows import each_row
from tests.support.server import ForkedServerProcess

pytestmark = needs_postgres


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A server of PostgreSQL that is not started."""
    if programs() is None:
        pytest.skip("needs PostgreSQL's server programs, to start a server")
    cluster = PostgresCluster.made(owner=os.getpid())
    yield cluster
    if cluster.is_running:
        cluster.stop("immediate")


@pytest.fixture
def server(cluster: PostgresCluster, tmp_path: Path) -> Iterator[ForkedServerProcess]:
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


async def test_a_standby_is_waited_for_until_it_takes_writes(
    cluster: PostgresCluster, server: ForkedServerProcess
) -> None:
    await asyncio.to_thread(cluster.start)
    async with connected(cluster.url()) as wire:
        await wire.execute("ALTER DATABASE postgres SET default_transaction_read_only = on")
    starting = asyncio.create_task(asyncio.to_thread(server.start))
    await until_it_says(server, "is a standby that only reads")
    async with connected(cluster.url()) as wire:
        await wire.execute("SET default_transaction_read_only = off")
        await wire.execute("ALTER DATABASE postgres RESET default_transaction_read_only")
    await starting

    assert server.stop() == 0


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
