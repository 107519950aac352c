"""The databases of the servers that tests start: files, or with `--engine=postgres` databases of PostgreSQL.
A test that looks into one does it by `database_of`, which both have.
"""

import importlib
import pkgutil
import re
import sqlite3
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, closing, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeAlias

import pytest

import bridge_server
from bridge_server.kernel.events import Events
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.kit.testing.server import place_schema
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import Database
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.postgres import PostgresServer

Rows: TypeAlias = list[tuple[Any, ...]]


@dataclass(frozen=True, slots=True)
class _File:
    """The file of a server, as another program has it."""

    connection: sqlite3.Connection

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        return self.connection.execute(sql, parameters).fetchall()

    def changed(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        return self.connection.execute(sql, parameters).rowcount

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> None:
        self.connection.executemany(sql, parameters)

    def tables(self) -> list[str]:
        names = "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'"
        return [name for (name,) in self.execute(names)]


@dataclass(frozen=True, slots=True)
class _Postgres:
    """The database of a server, by statements of SQLite."""

    connection: Any
    loop: BackgroundLoop
    statements: Any

    def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Rows:
        rows = self._run(self.connection.fetch, sql, *self.statements.encoded(parameters))
        return [self.statements.decoded(tuple(row)) for row in rows]

    def changed(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        tag: str = self._run(self.connection.execute, sql, *self.statements.encoded(parameters))
        return int(tag.rpartition(" ")[2])

    def executemany(self, sql: str, parameters: Iterable[Sequence[Any]]) -> None:
        self._run(self.connection.executemany, sql, [self.statements.encoded(each) for each in parameters])

    def tables(self) -> list[str]:
        names = "SELECT tablename::text FROM pg_tables WHERE schemaname = current_schema()"
        own = {"processes", "roles", "outbox_lanes", "schema_versions"}
        return [name for (name,) in self.execute(names) if name not in own]

    def _run(self, call: Any, sql: str, *arguments: Any) -> Any:
        return self.loop.run(call(str(self.statements.translated(sql)), *arguments))


DatabaseAccess: TypeAlias = _File | _Postgres


class Databases:
    """PostgreSQL databases of this worker: one for each data directory, emptied for the next test's."""

    def __init__(self, server: PostgresServer) -> None:
        self.loop = BackgroundLoop()
        self._server = server
        self._of: dict[Path, tuple[str, str]] = {}
        self._free: list[str] = []
        self._idle: dict[str, Any] = {}
        self._users: Counter[Path] = Counter()

    def url_of(self, data_dir: Path) -> str:
        """The database of the data directory: an empty one, when it is asked for first."""
        if data_dir not in self._of:
            name = self._free.pop() if self._free else f"rooms{len(self._of) + 1}"
            self._of[data_dir] = (name, self.loop.run(self._server.database(name)))
        return self._of[data_dir][1]

    @contextmanager
    def used(self, data_dir: Path) -> Iterator[None]:
        """Keep the database of the data directory during the block, whichever test ends meanwhile."""
        self._users[data_dir] += 1
        try:
            yield
        finally:
            self._users[data_dir] -= 1

    def release(self) -> None:
        """A test has ended: the databases that no server uses may be another test's."""
        for data_dir in [each for each in self._of if not self._users[each]]:
            name, url = self._of.pop(data_dir)
            self._free.append(name)
            if url in self._idle:
                self.loop.run(self._idle.pop(url).close())

    @contextmanager
    def connected(self, url: str) -> Iterator[Any]:
        """A connection of asyncpg, which the next block may have: to open one is most of a look."""
        import asyncpg  # noqa: PLC0415 - it may be missing

        kept = self._idle.pop(url, None)
        if kept is None or kept.is_closed():
            kept = self.loop.run(asyncpg.connect(url, statement_cache_size=0))
        try:
            yield kept
        except BaseException:
            self.loop.run(kept.close())
            raise
        if url in self._idle:  # blocks were nested
            self.loop.run(kept.close())
        else:
            self._idle[url] = kept

    def close(self) -> None:
        for kept in self._idle.values():
            self.loop.run(kept.close())
        self.loop.stop()


_in_use: list[Databases] = []
"""The databases of this run, if they are not files."""


def use(databases: Databases | None) -> None:
    """Give the servers of this run these databases; files if there are none."""
    _in_use[:] = [] if databases is None else [databases]


def engine_settings(data_dir: Path) -> dict[str, str]:
    """The settings that name the database of a server over the data directory, besides `data_dir`."""
    return {"database": _in_use[0].url_of(data_dir)} if _in_use else {}


def settings_over(data_dir: Path) -> Settings:
    """The settings of a program that uses the database of a server over the data directory."""
    database: dict[str, Any] = dict(engine_settings(data_dir))
    return Settings(data_dir=data_dir, **database)


def engine_environment(data_dir: Path) -> dict[str, str]:
    return {f"BRIDGE_{name.upper()}": value for name, value in engine_settings(data_dir).items()}


@contextmanager
def database_kept(data_dir: Path) -> Iterator[None]:
    with _in_use[0].used(data_dir) if _in_use else nullcontext():
        yield


def release_databases() -> None:
    for databases in _in_use:
        databases.release()


@contextmanager
def database_of(settings: Settings) -> Iterator[DatabaseAccess]:
    """The database of a server with these settings; what the block has changed is committed at its end."""
    if settings.database is None:
        with closing(sqlite3.connect(settings.database_file, timeout=30)) as file, file:
            yield _File(file)
        return
    from bridge_server.storage.postgres import statements  # noqa: PLC0415 - asyncpg may be missing

    [databases] = _in_use
    loop = databases.loop
    with databases.connected(settings.database.get_secret_value()) as connection:
        transaction = connection.transaction()
        loop.run(transaction.start())
        yield _Postgres(connection, loop, statements)
        loop.run(transaction.commit())


SQLITE, POSTGRES = "sqlite", "postgres"
ENGINES = (SQLITE, POSTGRES)


@asynccontextmanager
async def schema_database(
    request: pytest.FixtureRequest, directory: Path, events: Events
) -> AsyncIterator[Database]:
    """An empty database of the engine that the fixture's parameter names."""
    database: Database
    if request.param == SQLITE:
        place_schema(directory / "bridge.sqlite3")
        database = SqliteDatabase(directory / "bridge.sqlite3", events)
    else:
        # asyncpg is optional: only a test that has a server to talk to imports the driver.
        from bridge_server.assembly.postgres_overrides import OVERRIDES  # noqa: PLC0415
        from bridge_server.storage.postgres.database import PostgresDatabase  # noqa: PLC0415

        server: PostgresServer = request.getfixturevalue("postgres")
        database = PostgresDatabase(await server.database("bridge"), events, OVERRIDES)
    async with database.opened():
        yield database


# The statements that the package has written down: constants of modules that hold SQL.

STATEMENT = re.compile(r"\s*(?:SELECT|INSERT\s+INTO|UPDATE|DELETE\s+FROM|WITH)\s", re.ASCII)


def modules() -> Iterator[str]:
    """The modules of the package but for the driver of PostgreSQL."""
    passed_over = {"sql_postgres", "postgres_overrides", "__main__"}
    for module in pkgutil.walk_packages(bridge_server.__path__, "bridge_server."):
        leaf = module.name.rpartition(".")[2]
        if leaf not in passed_over and not module.name.startswith("bridge_server.storage.postgres"):
            yield module.name


def _statements() -> Iterator[tuple[str, str]]:
    for module in modules():
        for constant, value in vars(importlib.import_module(module)).items():
            for number, sql in enumerate(value if isinstance(value, tuple) else (value,)):
                if isinstance(sql, str) and STATEMENT.match(sql):
                    yield f"{module}.{constant}" + (f"[{number}]" if isinstance(value, tuple) else ""), sql


STATEMENTS: Mapping[str, str] = MappingProxyType(dict(_statements()))
"""By their names, such as `bridge_server.relay.store.INSERT_CALL`. An imported statement has two names."""


def parameter_count(sql: str) -> int:
    """How many parameters the statement has, as a room writes it."""
    numbers = [int(number) for number in re.findall(r"\?(\d+)", sql)]
    return max(numbers, default=sql.count("?"))
