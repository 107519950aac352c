"""The processes of a database know of each other, and an upgrade ends those that it leaves behind."""

import asyncio
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest

from bridge_server.kernel.instants import milliseconds_of
from tests.cluster.processes import ClusterProcess, cluster_url, processes_over
from tests.support.command import run_command
from tests.support.eventually import eventually
from tests.support.postgres import PostgresServer, connected, needs_postgres

pytestmark = needs_postgres


@pytest.fixture
async def url(postgres: PostgresServer) -> str:
    """Of an empty database."""
    return await cluster_url(postgres, "operation")


def listed(url: str, *arguments: str) -> str:
    """What `bridge-server processes` prints."""
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


async def test_every_process_is_listed_with_its_url_and_whether_it_runs(url: str, tmp_path: Path) -> None:
    async with processes_over(url, tmp_path) as pair:
        await both_announced(url, pair)
        pair[1].process.stop()

        assert states(url) == {pair[0].url: "running", pair[1].url: "stopped"}
        lines = listed(url).splitlines()

        async with connected(url) as connection:
            os.kill(pair[0].pid, signal.SIGSTOP)
            try:
                await connection.execute("UPDATE processes SET seen_at_ms = seen_at_ms - 60000")
                assert states(url)[pair[0].url] == "silent"
            finally:
                os.kill(pair[0].pid, signal.SIGCONT)

    assert lines[0].split() == ["number", "state", "started", "seen", "version", "url", "wallet"]
    assert [line.split()[1] for line in lines[1:]] == ["running", "stopped"]


async def test_every_process_is_listed_with_the_time_of_its_start(url: str, tmp_path: Path) -> None:
    async with processes_over(url, tmp_path) as pair, connected(url) as connection:
        await both_announced(url, pair)
        pair[1].process.stop()
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

    assert [each["state"] for each in found] == ["running", "stopped", "running"]
    assert started == sorted(started)
    assert now_ms - 600_000 < started[0] < started[2] <= now_ms
    assert [line.split()[2] for line in lines[1:]] == [each["started_at"] for each in found]
    assert [line.split()[2] for line in unknown[1:]] == ["-", "-", "-"]


async def test_a_process_is_listed_under_its_internal_url(url: str, tmp_path: Path) -> None:
    named = "http://10.0.0.5:8080"
    async with processes_over(url, tmp_path, 1, internal_url=named), connected(url) as connection:

        async def is_there() -> bool:
            found = await connection.fetchval("SELECT count(*) FROM processes WHERE url = $1", named)
            return bool(found == 2)

        await eventually(is_there)


async def test_rows_of_processes_that_are_gone_for_ten_minutes_are_deleted(url: str, tmp_path: Path) -> None:
    async with processes_over(url, tmp_path, 1, sweep_interval=0.2), connected(url) as connection:
        add = "INSERT INTO processes (number, lane, seen_at_ms, version) VALUES ($1, 0, $2, '1')"
        now_ms = await connection.fetchval("SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint")
        for number, seen_at_ms in (
            (1_001, now_ms - 700_000),
            (1_002, 700_000 - now_ms),
            (1_003, now_ms - 500_000),
        ):
            await connection.execute(add, number, seen_at_ms)

        async def are_swept() -> bool:
            rows = await connection.fetch("SELECT number FROM processes WHERE number > 1000")
            return [row[0] for row in rows] == [1_003]

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
