"""Small transactions over two tables, from which the tests are made, and a look into a file."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from bridge_server.kernel.signals import Touched
from bridge_server.storage.database import Database, Statement, Transaction, Value

PUT = """
INSERT INTO notes (name, text) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET text = excluded.text
"""
TEXT = "SELECT text FROM notes WHERE name = ?"
NAMES = "SELECT name FROM notes ORDER BY name"
EVENTS = "SELECT name FROM events ORDER BY id"
Begin = Callable[[], Transaction[str]]


class NoteError(Exception):
    """An error that a transaction raises of its own accord."""


def put(name: str, text: str) -> Begin:
    """Write a note and an event, touch the note's key, return its text."""

    def work() -> Transaction[str]:
        yield Statement(PUT, (name, text))
        yield Statement("INSERT INTO events (name) VALUES (?)", (name,))
        yield Touched(("note", name))
        return text

    return work


def fail_at_once() -> Transaction[str]:
    """Raise before anything is yielded."""
    yield from ()
    raise NoteError("at once")


def fail_after_reading() -> Transaction[str]:
    """Raise after a statement that changed nothing, and after an announcement."""
    yield Statement(NAMES)
    yield Touched(("note", "bad"))
    raise NoteError("after reading")


def fail_after_writing() -> Transaction[str]:
    """Raise after both tables were changed and the change was announced."""
    yield from put("bad", "text")()
    raise NoteError("after writing")


def break_a_rule() -> Transaction[str]:
    """Run into a constraint with the first statement."""
    yield Statement("INSERT INTO notes (name, number) VALUES (?, ?)", ("bad", -1))
    return "unreachable"


def break_a_rule_late() -> Transaction[str]:
    """Run into a constraint when something was changed already."""
    yield from put("bad", "text")()
    yield Statement("UPDATE notes SET number = -1 WHERE name = ?", ("bad",))
    return "unreachable"


FAILING = [fail_at_once, fail_after_reading, fail_after_writing, break_a_rule, break_a_rule_late]


async def text_of(database: Database, name: str) -> Value:
    """The text of the note; None when there is none."""
    rows = await database.read(TEXT, (name,))
    return rows[0][0] if rows else None


async def names(database: Database) -> list[Value]:
    """The names of all notes, sorted."""
    return [name for (name,) in await database.read(NAMES)]


async def clear(database: Database) -> None:
    """Delete all notes and events."""

    def work() -> Transaction[None]:
        yield Statement("DELETE FROM notes")
        yield Statement("DELETE FROM events")

    await database.transaction(work)


def ask(file: Path, sql: str) -> list[tuple[Any, ...]]:
    """The rows of a statement, by a connection of its own to the file."""
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()
