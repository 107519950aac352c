"""The database crashes under load and comes back: 503 meanwhile, and what was answered is there."""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from random import Random

import aiohttp
import pytest

from bridge_server.storage.database import DatabaseRefusedError
from bridge_server.storage.postgres.failures import CONNECTIONS
from tests.support.eventually import eventually
from tests.support.postgres import connected, needs_postgres
from tests.support.postgres_cluster import PostgresCluster, programs
from tests.support.server import RunningServer, running_server
from tests.support.write_load import Ledger, PatientLoad, WriteLoad
from tests.test_crash import Inspection

pytestmark = [
    needs_postgres,
    pytest.mark.skipif(programs() is None, reason="needs PostgreSQL's server programs, to crash a server"),
]

_CLIENTS = 8
_RETURN_SECONDS = 60


@pytest.fixture
def cluster() -> Iterator[PostgresCluster]:
    """A server of PostgreSQL for this test alone."""
    cluster = PostgresCluster.made(owner=os.getpid())
    cluster.start()
    yield cluster
    if cluster.is_running:
        cluster.stop("immediate")


@asynccontextmanager
async def loaded(load: WriteLoad) -> AsyncIterator[None]:
    """Clients write until the end of the block."""
    writing = asyncio.create_task(load.run(_CLIENTS))
    try:
        yield
        assert not writing.done(), writing.exception()
    finally:
        writing.cancel()
        with suppress(asyncio.CancelledError):
            await writing


async def status_of(server: RunningServer, path: str) -> int:
    async with server.client.get(f"{server.url}{path}") as response:
        return response.status


async def test_a_database_that_crashes_under_load_and_returns_loses_nothing(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    ledger = Ledger()
    async with (
        running_server(
            tmp_path / "data", database=cluster.url(), requests_burst=1_000_000, sessions_burst=1_000_000
        ) as server,
        aiohttp.ClientSession() as client,
    ):
        load = PatientLoad(client, server.url, ledger, Random(1))

        async def is_ready() -> bool:
            return await status_of(server, "/readyz") == 200

        async def is_away() -> bool:
            return await status_of(server, "/readyz") == 503

        session_id = await server.open_session()
        async with loaded(load):
            for _ in range(2):
                await ledger.reaches(ledger.answers + 100)
                await asyncio.to_thread(cluster.stop, "immediate")
                await eventually(is_away, _RETURN_SECONDS)
                assert await status_of(server, "/livez") == 200
                assert await status_of(server, f"/session/{session_id}") == 503
                await asyncio.to_thread(cluster.start)
                await eventually(is_ready, _RETURN_SECONDS)
            await ledger.reaches(ledger.answers + 100)

        assert await Inspection(client, server.url, ledger).find_losses() == []


async def test_requests_that_a_limit_cannot_be_asked_about_are_503(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with running_server(
        tmp_path / "data", database=cluster.url(), quota_exempt=(), requests_burst=100
    ) as server:
        assert await status_of(server, "/hello") == 200
        await asyncio.to_thread(cluster.stop, "immediate")

        async def is_unavailable() -> bool:
            return await status_of(server, "/hello") == 503

        await eventually(is_unavailable)
        async with server.client.post(f"{server.url}/session/new") as response:
            assert (response.status, response.headers["Retry-After"]) == (503, "2")
        assert await status_of(server, "/livez") == 200

        await asyncio.to_thread(cluster.start)

        async def is_back() -> bool:
            return await status_of(server, "/hello") == 200

        await eventually(is_back, _RETURN_SECONDS)


async def test_a_server_whose_database_is_away_stops_in_time(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    async with asyncio.timeout(120):
        async with running_server(tmp_path / "data", database=cluster.url()) as server:
            await server.open_session()
            await asyncio.to_thread(cluster.stop, "immediate")
        assert not cluster.is_running


async def said_by(server: RunningServer, path: str) -> tuple[int, str]:
    async with server.client.get(f"{server.url}{path}") as response:
        return response.status, await response.text()


async def count_of_sessions(url: str) -> int:
    async with connected(url) as wire:
        count: int = await wire.fetchval(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name LIKE 'bridge-server/%'"
        )
        return count


async def test_a_standby_at_the_address_of_the_database_is_named_and_serves_once_it_is_promoted(
    cluster: PostgresCluster, tmp_path: Path
) -> None:
    with (cluster.data / "postgresql.conf").open("a") as options:
        options.write("wal_level = replica\n")
    await asyncio.to_thread(cluster.stop)
    await asyncio.to_thread(cluster.start)
    async with running_server(tmp_path / "data", database=cluster.url()) as server:
        await server.open_session()
        await asyncio.to_thread(cluster.stop, "fast")
        (cluster.data / "standby.signal").touch()
        await asyncio.to_thread(cluster.start)

        async def is_named() -> bool:
            status, said = await said_by(server, "/readyz")
            return status == 503 and "is a standby that only reads: name the primary" in said

        await eventually(is_named, _RETURN_SECONDS)
        with pytest.raises(DatabaseRefusedError, match="is a standby that only reads: name the primary"):
            async with running_server(tmp_path / "other", database=cluster.url()):
                pass

        await asyncio.to_thread(cluster.promote)

        async def all_are_back() -> bool:
            return await count_of_sessions(cluster.url()) == CONNECTIONS

        await eventually(all_are_back, _RETURN_SECONDS)
        assert await said_by(server, "/readyz") == (200, "ready\n")
        await server.open_session()


async def test_a_login_that_is_refused_later_is_named(cluster: PostgresCluster, tmp_path: Path) -> None:
    access = cluster.data / "pg_hba.conf"
    access.write_text(f"local all guarded scram-sha-256\n{access.read_text()}")
    url = cluster.url().replace("bridge@", "guarded:sesame@", 1)
    end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'guarded'"
    async with connected(cluster.url()) as wire:
        await wire.execute("CREATE ROLE guarded SUPERUSER LOGIN PASSWORD 'sesame'")
        await wire.execute("SELECT pg_reload_conf()")
        async with running_server(tmp_path / "data", database=url) as server:
            await wire.execute("ALTER ROLE guarded PASSWORD 'another'")
            await wire.execute(end)

            async def is_named() -> bool:
                status, said = await said_by(server, "/readyz")
                assert "sesame" not in said
                return status == 503 and "refuses the login: correct the user and the password" in said

            await eventually(is_named, _RETURN_SECONDS)
            with pytest.raises(DatabaseRefusedError, match=r"refuses the login .*: correct the user"):
                async with running_server(tmp_path / "other", database=url):
                    pass

            await wire.execute("ALTER ROLE guarded PASSWORD 'sesame'")

            async def is_ready() -> bool:
                return await said_by(server, "/readyz") == (200, "ready\n")

            await eventually(is_ready, _RETURN_SECONDS)
