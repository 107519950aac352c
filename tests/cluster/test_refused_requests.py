"""PostgreSQL refuses for a while: clients have true texts, operators few lines and a server not ready."""

import asyncio
from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from tests.cluster.processes import cluster_url
from tests.support.asking import ask
from tests.support.cutting_proxy import open_cutting_proxy
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres
from tests.support.server import RunningServer, running_server

pytestmark = needs_postgres

Lines = list[MutableMapping[str, Any]]


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "refused")


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
            await wire.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
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


async def test_refused_requests_have_ten_lines_a_second_and_one_with_the_number_of_the_others(
    url: str, tmp_path: Path
) -> None:
    with capture_logs() as lines:
        async with server_that_lost_its_database(url, tmp_path) as server:
            answers = await asyncio.gather(*(ask(server, "POST", "/session/new") for _ in range(200)))
            refused = [each.status for each in answers].count(503)
            assert refused > 20

            async def are_counted() -> bool:
                return len(of("request", lines)) + counted(lines) >= refused

            await eventually(are_counted)

    windows = len(of("more_requests_failed", lines))
    assert windows
    assert len(of("request", lines)) <= 10 * (windows + 1)


def of(event: str, lines: Lines) -> Lines:
    return [each for each in lines if each["event"] == event and each["status"] == 503]


def counted(lines: Lines) -> int:
    return sum(each["requests"] for each in of("more_requests_failed", lines))
