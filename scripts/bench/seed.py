"""Databases as a busy server would have left them, written with SQL because the server would take minutes."""

import itertools
import os
import sqlite3
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bridge_server.kernel.secrets import IdMaker
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations

PAYLOAD_BYTES = 1024
HOUR_MS = 3_600_000
_ENVELOPE = '{"data":"%s","hmac":"%s","iv":"%s"}'
_INSERT_SESSION = "INSERT INTO sessions (id, session_id, payload, expires_at_ms) VALUES (?, ?, ?, ?)"
_INSERT_CALL = (
    "INSERT INTO calls (id, call_id, session, payload, expires_at_ms, listed) VALUES (?, ?, ?, ?, ?, 1)"
)
_INSERT_STATUS = "INSERT INTO call_statuses (call, payload, expires_at_ms) VALUES (?, ?, ?)"


@dataclass(frozen=True, slots=True)
class Population:
    """How many sessions, whether a wallet has answered them, their calls, and whether those are answered."""

    sessions: int = 0
    session_payload: bool = False
    calls_per_session: int = 0
    are_answered: bool = False


@dataclass(slots=True)
class Seeded:
    """The public ids of the rows in the database."""

    sessions: list[str] = field(default_factory=list)
    calls: list[str] = field(default_factory=list)


def database_file(folder: Path) -> Path:
    """Where a server with that data directory keeps its database."""
    return Settings.model_validate({"data_dir": folder}).database_file


@contextmanager
def filling(folder: Path) -> Iterator[sqlite3.Connection]:
    """A transaction on the database of a data directory, which is made if there is none.

    Secondary indexes are made again from the finished tables, which is much quicker. At the end all of it is
    on the disk, or the server's first checkpoint would have to bring it there.
    """
    file = database_file(folder)
    migrate(file, packaged_migrations())
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        execute_all(connection, "PRAGMA synchronous = OFF; PRAGMA cache_size = -262144; BEGIN")
        found = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''")
        indexes = found.fetchall()
        for name, _ in indexes:
            connection.execute(f"DROP INDEX {name}")
        yield connection
        for _, sql in indexes:
            connection.execute(sql)
        execute_all(connection, "COMMIT; PRAGMA wal_checkpoint(TRUNCATE)")
    with file.open("rb+") as opened:
        os.fsync(opened.fileno())


def execute_all(connection: sqlite3.Connection, statements: str, **parameters: object) -> None:
    """Execute what semicolons divide, without the commit that `executescript` begins with."""
    for statement in statements.split(";"):
        connection.execute(statement, parameters)


def fill(folder: Path, population: Population) -> Seeded:
    """Create the database of a data directory.

    Sessions were opened half an hour ago or earlier, calls were made in turns since.
    """
    with filling(folder) as connection:
        return _insert(connection, population)


def count_rows(folder: Path, query: str) -> int:
    """Run a counting query on the database of a data directory, beside a server that has it open."""
    file = database_file(folder)
    with closing(sqlite3.connect(f"file:{file}?mode=ro", uri=True, timeout=5)) as connection:
        ((count,),) = connection.execute(query)
    return int(count)


def _payloads() -> Iterator[bytes]:
    """Payloads of 1 KiB, each different: slices of random digits."""
    random_digits = os.urandom(2**19).hex()
    length = PAYLOAD_BYTES - len(_ENVELOPE % ("", "0" * 64, "0" * 32))
    for start in itertools.count(1, 7):
        start %= len(random_digits) - PAYLOAD_BYTES
        digits = random_digits[start : start + length]
        yield (_ENVELOPE % (digits, digits[:64], digits[-32:])).encode("ascii")


def _insert(connection: sqlite3.Connection, population: Population) -> Seeded:
    ids, payloads, now_ms = IdMaker(), _payloads(), time.time_ns() // 1_000_000
    calls_end_ms, sessions_end_ms = now_ms + HOUR_MS, now_ms + 24 * HOUR_MS
    opened_ms = (
        now_ms - HOUR_MS + HOUR_MS // 2 * index // population.sessions for index in range(population.sessions)
    )
    seeded = Seeded([ids.ordered_uuid(at_ms) for at_ms in opened_ms])
    answers = payloads if population.session_payload else itertools.repeat(None)
    rows: Iterable[tuple[object, ...]] = (
        (number, session, answer, sessions_end_ms)
        for (number, session), answer in zip(enumerate(seeded.sessions, 1), answers, strict=False)
    )
    connection.executemany(_INSERT_SESSION, rows)
    for turn in range(population.calls_per_session):
        made_ms = (
            now_ms - HOUR_MS // 2 * (population.calls_per_session - turn) // population.calls_per_session
        )
        calls = [ids.ordered_uuid(made_ms) for _ in range(population.sessions)]
        numbers = range(turn * len(calls) + 1, (turn + 1) * len(calls) + 1)
        rows = zip(numbers, calls, itertools.count(1), payloads, itertools.repeat(calls_end_ms), strict=False)
        connection.executemany(_INSERT_CALL, rows)
        if population.are_answered:
            rows = zip(numbers, payloads, itertools.repeat(calls_end_ms), strict=False)
            connection.executemany(_INSERT_STATUS, rows)
        seeded.calls.extend(calls)
    return seeded
