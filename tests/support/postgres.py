"""A PostgreSQL server for the tests of one run, private and shared by all workers, and databases on it that
tests use one after another. BRIDGE_TEST_POSTGRES names the URL of another one, whose user may create
databases.
"""

import fcntl
import os
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from tests.support.postgres_cluster import PostgresCluster, programs
from tests.support.programs import WORKER
from tests.support.waiting import eventually

ANOTHER = os.environ.get("BRIDGE_TEST_POSTGRES")
_IS_LEFT_OUT = "WITHOUT_POSTGRES" in os.environ
HAS_POSTGRES = not _IS_LEFT_OUT and (bool(ANOTHER) or programs() is not None)

_MISSING_PROGRAMS = "needs PostgreSQL's server programs"
_LEFT_OUT = "on PostgreSQL: `scripts/test --all` runs it, and `scripts/test` with a path"
_INSTALL = (
    f"{_MISSING_PROGRAMS}: `scripts/system-packages` installs them, or BRIDGE_TEST_POSTGRES names a server"
)

needs_postgres = pytest.mark.skipif(not HAS_POSTGRES, reason=_LEFT_OUT if _IS_LEFT_OUT else _INSTALL)


_TEMPLATE = "rooms"
_FILES = "postgres-files"
_WRITTEN = """
SELECT quote_ident(nspname) || '.' || quote_ident(relname), relname::text,
    pg_relation_size(pg_class.oid) + coalesce(pg_relation_size(nullif(reltoastrelid, 0)), 0) > 65536
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE relkind = 'r' AND nspname NOT IN ('pg_catalog', 'information_schema')
    AND pg_relation_size(pg_class.oid) > 0
"""
_RESTART_SEQUENCES = """
SELECT setval(quote_ident(schemaname) || '.' || quote_ident(sequencename), 1, false)
FROM pg_sequences WHERE last_value IS NOT NULL
"""
_END_OTHERS = """
SELECT pid, pg_terminate_backend(pid) FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
"""
_ARE_THERE = "SELECT count(*) FROM pg_stat_activity WHERE pid = ANY ($1)"
_COPIED_FILES = 15
"""The first version that can make a database by copying files, a fifth of the work of logging them."""

MakeSchema = Callable[[Any], Awaitable[object]]
"""Makes a schema by a connection of asyncpg."""


class PostgresServer:
    """The databases of one worker. Each has a schema, which is made once, and is emptied for each test."""

    def __init__(self, url: str, template: str | None = None) -> None:
        """With the name of a `template` that has the rooms' tables."""
        self.url = url
        self._template = template
        self._prefix = f"bridge_{os.environ.get(WORKER, 'alone')}_{os.getpid()}"
        self.made: set[str] = set()

    def url_of(self, database: str) -> str:
        return urlsplit(self.url)._replace(path=f"/{database}").geturl()

    async def database(self, schema: str, make_schema: MakeSchema | None = None) -> str:
        """The URL of the worker's database for this schema, empty but for `schema_versions`.

        It has the rooms' tables, unless `make_schema` makes others. Nothing else is connected to it any more.
        """
        name = f"{self._prefix}_{schema}"
        if name not in self.made:
            template = None if make_schema is not None else self._template
            await self._create(name, template)
            if template is None:
                async with connected(self.url_of(name)) as connection:
                    await (make_schema or make_rooms)(connection)
        async with connected(self.url_of(name)) as connection:
            await _empty(connection)
        return self.url_of(name)

    async def bare_database(self, name: str = "bare") -> str:
        """The URL of a new database without any table; an earlier one of the name is dropped."""
        name = f"{self._prefix}_{name}"
        await self._create(name)
        return self.url_of(name)

    async def drop_all(self) -> None:
        async with connected(self.url) as connection:
            for name in self.made:
                await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
        self.made.clear()

    async def _create(self, name: str, template: str | None = None) -> None:
        async with connected(self.url) as connection:
            if name in self.made:
                await connection.execute(f'DROP DATABASE IF EXISTS "{name}" WITH (FORCE)')
            await create(connection, name, template)
        self.made.add(name)


async def create(connection: Any, name: str, template: str | None = None) -> None:
    """Make a database: a copy of the template, or one without any table."""
    copied = " STRATEGY file_copy" if connection.get_server_version().major >= _COPIED_FILES else ""
    await connection.execute(f'CREATE DATABASE "{name}" TEMPLATE {template or "template0"}{copied}')


async def make_rooms(connection: Any) -> None:
    from bridge_server.storage.postgres.migrate import migrate  # noqa: PLC0415 - asyncpg may be missing

    await migrate(connection)


async def _empty(connection: Any) -> None:
    # Other connections end first: they have no lock any more that a test could meet.
    ended = [row[0] for row in await connection.fetch(_END_OTHERS)]

    async def are_gone() -> bool:
        return not await connection.fetchval(_ARE_THERE, ended)

    if ended:
        await eventually(are_gone)
    found = await connection.fetch(_WRITTEN)
    written = {table: is_large for table, name, is_large in found if name != "schema_versions"}
    # To truncate a table is to make several files: a few rows are sooner deleted. All go in one statement, at
    # whose end no row refers to one that is gone.
    large = [table for table in written if written[table]]
    deletes = [f"d{n} AS (DELETE FROM {table})" for n, table in enumerate(written) if not written[table]]
    statements = [f"LOCK TABLE {', '.join(written)}"] if written else []
    statements += [f"TRUNCATE {', '.join(large)} CASCADE"] if large else []
    statements += [f"WITH {', '.join(deletes)} SELECT"] if deletes else []
    await connection.execute(";".join([*statements, _RESTART_SEQUENCES]))


@asynccontextmanager
async def connected(url: str) -> AsyncIterator[Any]:
    import asyncpg  # noqa: PLC0415 - the tests run without it where there is no PostgreSQL

    connection = await asyncpg.connect(url)
    try:
        yield connection
    finally:
        await connection.close()


@contextmanager
def postgres_server(shared_folder: Path) -> Iterator[PostgresServer]:
    """The server of this run, which the first worker starts. `shared_folder` belongs to all workers."""
    if ANOTHER:
        import asyncio  # noqa: PLC0415

        server = PostgresServer(ANOTHER)
        yield server
        asyncio.run(server.drop_all())
        return
    note = shared_folder / "postgres-url"
    with _alone(shared_folder):
        if not note.exists():
            owner = os.getppid() if WORKER in os.environ else os.getpid()  # its end is the end of the run
            cluster = PostgresCluster.made(owner, files=shared_folder / _FILES)
            cluster.start()

            async def make_template() -> None:
                async with connected(cluster.url()) as connection:
                    await create(connection, _TEMPLATE)
                async with connected(cluster.url(_TEMPLATE)) as connection:
                    await make_rooms(connection)

            loop = BackgroundLoop()  # the test that asks first may run in a loop of its own
            loop.run(make_template())
            loop.stop()
            note.write_text(cluster.url())
    yield PostgresServer(note.read_text(), _TEMPLATE)


def crash_cluster(shared_folder: Path) -> PostgresCluster:
    """A server of this process's own, not started yet. Its files are copies: to make them takes longer."""
    with _alone(shared_folder):
        return PostgresCluster.made(os.getpid(), files=shared_folder / _FILES)


@contextmanager
def _alone(shared_folder: Path) -> Iterator[None]:
    """Have other workers wait until the end of the block."""
    with (shared_folder / "postgres-lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


# Where PostgreSQL's server programs are, nothing else is a reason to skip a test that needs them.

VARIABLE = "STRICT_POSTGRES"
"""Set in the environment, it makes such a skip a failure."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Report a skip as a failure, unless the programs are missing."""
    report = yield
    if VARIABLE not in os.environ or not report.skipped or call.excinfo is None:
        return report
    reasons = [str(mark.kwargs.get("reason", "")) for mark in item.iter_markers("skipif")]
    is_marked = any(reason.startswith(_MISSING_PROGRAMS) for reason in reasons)
    if is_marked or "postgres" in getattr(item, "fixturenames", ()):
        reason = str(call.excinfo.value)
        if not reason.startswith(_MISSING_PROGRAMS):
            report.outcome = "failed"
            report.longrepr = f"{VARIABLE} is set, and the test was skipped: {reason}"
    return report
