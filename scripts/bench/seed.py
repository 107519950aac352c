"""Databases as a busy server would have left them, written with SQL because the server would take minutes."""

import itertools
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bridge_server.kernel.ids import IdMaker
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations

PAYLOAD_BYTES = 1024
_HOUR_MS = 3_600_000
_ROWS_PER_STATEMENT = 20_000
_ENVELOPE = '{"data":"%s","hmac":"%s","iv":"%s"}'


@dataclass(frozen=True, slots=True)
class Population:
    """How many sessions, whether a wallet has answered them, their calls, and sessions without calls."""

    sessions: int = 0
    session_payload: bool = False
    calls_per_session: int = 0
    answered_per_session: int = 0
    silent_sessions: int = 0
    expired: bool = False


@dataclass(slots=True)
class Seeded:
    """The public ids of what is in the database."""

    sessions: list[str] = field(default_factory=list)
    pending: list[str] = field(default_factory=list)
    answered: list[str] = field(default_factory=list)


class _Payloads:
    """Payloads of 1 KiB, each different: slices of random digits."""

    def __init__(self) -> None:
        self._digits = os.urandom(2**19).hex()
        self._starts = itertools.count(1, 7)
        self._data_length = PAYLOAD_BYTES - len(_ENVELOPE % ("", "0" * 64, "0" * 32))

    def __iter__(self) -> Iterator[bytes]:
        room = len(self._digits) - PAYLOAD_BYTES
        for start in self._starts:
            start %= room
            digits = self._digits[start : start + self._data_length]
            yield (_ENVELOPE % (digits, digits[:64], digits[-32:])).encode("ascii")


def database_file(folder: Path) -> Path:
    """Where a server with that data directory keeps its database."""
    return Settings.model_validate({"data_dir": folder}).database_file


def fill(folder: Path, population: Population) -> Seeded:
    """Create the database of a data directory.

    Sessions were opened half an hour ago or earlier, calls were made in turns since.
    """
    migrate(database_file(folder), packaged_migrations())
    connection = sqlite3.connect(database_file(folder), isolation_level=None)
    try:
        connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")
        connection.execute("BEGIN")
        seeded = _insert(connection, population)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    sync(database_file(folder))
    return seeded


def put_living_before(folder: Path, count: int) -> None:
    """Give what is there higher numbers, and put so many sessions before it that still live."""
    ids, now_ms = IdMaker(), time.time_ns() // 1_000_000
    connection = sqlite3.connect(database_file(folder), isolation_level=None)
    try:
        connection.execute("PRAGMA synchronous = OFF")
        connection.execute("BEGIN")
        for statement in ("UPDATE sessions SET id = id + ?", "UPDATE calls SET session = session + ?"):
            connection.execute(statement, (count,))
        living = [ids.ordered_uuid(now_ms - _HOUR_MS + index // 1_000) for index in range(count)]
        _insert_sessions(connection, living, None, now_ms + 24 * _HOUR_MS)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()
    sync(database_file(folder))


def sync(file: Path) -> None:
    """Bring the file to the disk, or the server's first checkpoint would have to."""
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def _insert(connection: sqlite3.Connection, population: Population) -> Seeded:
    ids, payloads = IdMaker(), iter(_Payloads())
    now_ms = time.time_ns() // 1_000_000
    expires_at_ms = now_ms + (-2 if population.expired else 1) * _HOUR_MS
    count = population.sessions + population.silent_sessions
    sessions = [
        ids.ordered_uuid(now_ms - _HOUR_MS + _HOUR_MS // 2 * index // count) for index in range(count)
    ]
    ends_ms = expires_at_ms if population.expired else now_ms + 24 * _HOUR_MS
    _insert_sessions(connection, sessions, payloads if population.session_payload else None, ends_ms)
    seeded, turns = Seeded(sessions), population.calls_per_session
    for turn in range(turns):
        made_ms = now_ms - _HOUR_MS // 2 * (turns - turn) // turns
        calls = [ids.ordered_uuid(made_ms) for _ in range(population.sessions)]
        first = turn * len(calls) + 1
        _insert_calls(connection, first, calls, payloads, expires_at_ms)
        if turn < population.answered_per_session:
            _insert_statuses(connection, first, len(calls), payloads, expires_at_ms)
            seeded.answered += calls
        else:
            seeded.pending += calls
    return seeded


def _insert_sessions(
    connection: sqlite3.Connection, sessions: list[str], payloads: Iterator[bytes] | None, expires_at_ms: int
) -> None:
    insert_many(
        connection,
        "INSERT INTO sessions (id, session_id, payload, expires_at_ms) VALUES (?, ?, ?, ?)",
        (
            (number, session, next(payloads) if payloads else None, expires_at_ms)
            for number, session in enumerate(sessions, 1)
        ),
    )


def _insert_calls(
    connection: sqlite3.Connection,
    first: int,
    calls: list[str],
    payloads: Iterator[bytes],
    expires_at_ms: int,
) -> None:
    """One call for each session, in the order of the sessions."""
    insert_many(
        connection,
        "INSERT INTO calls (id, call_id, session, payload, expires_at_ms, listed) VALUES (?, ?, ?, ?, ?, 1)",
        ((first + index, call, index + 1, next(payloads), expires_at_ms) for index, call in enumerate(calls)),
    )


def _insert_statuses(
    connection: sqlite3.Connection, first: int, count: int, payloads: Iterator[bytes], expires_at_ms: int
) -> None:
    insert_many(
        connection,
        "INSERT INTO call_statuses (call, payload, expires_at_ms) VALUES (?, ?, ?)",
        ((first + index, next(payloads), expires_at_ms) for index in range(count)),
    )


def insert_many(connection: sqlite3.Connection, sql: str, rows: Iterable[tuple[object, ...]]) -> None:
    """Execute the statement for every row, a large slice of them at a time."""
    rows = iter(rows)
    while chunk := list(itertools.islice(rows, _ROWS_PER_STATEMENT)):
        connection.executemany(sql, chunk)
