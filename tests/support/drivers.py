"""The databases that the contract in `tests/storage` is held against: another driver is one more entry."""

import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path

from bridge_server.kernel.events import Events
from bridge_server.storage.database import Database
from bridge_server.storage.sqlite import SqliteDatabase


@dataclass(frozen=True, slots=True)
class Driver:
    """Opens an empty database with the tables of `tests.storage.notes` in a directory of the test's own."""

    name: str
    opened: Callable[[Path, Events], AbstractAsyncContextManager[Database]]


_SQLITE_TABLES = """
CREATE TABLE notes (
    name TEXT PRIMARY KEY,
    text TEXT,
    data BLOB,
    number INTEGER CHECK (number >= 0)
);
CREATE TABLE events (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
PRAGMA journal_mode = WAL;
"""


def make_notes_file(directory: Path) -> Path:
    """An SQLite file with the tables."""
    file = directory / "notes.sqlite3"
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(_SQLITE_TABLES)
    return file


@asynccontextmanager
async def _opened_sqlite(directory: Path, events: Events) -> AsyncIterator[Database]:
    database = SqliteDatabase(make_notes_file(directory), events)
    async with database.opened():
        yield database


DRIVERS = (Driver("sqlite", _opened_sqlite),)
