"""Projects with subscribers as they would have come over the years, written with SQL.

An account's number says nothing about its address nor about its project, as with people who come when they
like: what is sent to a project's subscribers lands all over the table of deliveries.
"""

import random
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from secrets import token_urlsafe

from plan import Plan
from seed import database_file, insert_many, sync

from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.secrets import digest
from bridge_server.storage.migrate import migrate, packaged_migrations

MILLION = 1_000_000
TYPE_ID = "4b1d0c8e-7f5a-4c7e-9f0e-3f1f3a3c2d10"
_HOUR_MS = 3_600_000
_DAY_MS = 24 * _HOUR_MS
_MILLIONS_SAMPLE = 300_000
_ANY_SUBSCRIBERS = "SELECT account, account_id FROM subscriptions WHERE account <= ?"  # numbers are random
_DELIVER_ALL = """
INSERT INTO deliveries (account, sending) SELECT subscriptions.account, sendings.id
FROM subscriptions JOIN sendings ON sendings.project = subscriptions.project ORDER BY 1, 2
"""
_CHARGE_ALL = """
INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
SELECT project, account, :full_at_us, 1800000000, :full_at_us FROM subscriptions ORDER BY 1, 2
"""
_COUNT_ALL = """
INSERT INTO daily_figures (project, type, day, sent) SELECT sendings.project, sendings.type, ?, count(*)
FROM sendings JOIN deliveries ON deliveries.sending = sendings.id GROUP BY sendings.project, sendings.type
"""


@dataclass(frozen=True, slots=True)
class SeededProject:
    """A project, what may publish for it, and its subscribers as GET /subscribers spells them."""

    number: int
    project_id: str
    secret: str
    accounts: Sequence[str]
    account_numbers: Sequence[int]

    @property
    def header(self) -> str:
        """The header field that authenticates its backend."""
        return f"Authorization: Bearer {self.secret}"


def fill_projects(folder: Path, sizes: Sequence[int], sendings_each: int = 0) -> list[SeededProject]:
    """Create the database of a data directory: one project for each size, with so many subscribers.

    Each project has sent all of them `sendings_each` notifications in the past hour: there are deliveries,
    and buckets that are not full.
    """
    projects = _projects(sizes)
    migrate(database_file(folder), packaged_migrations())
    with _bulk_writing(database_file(folder)) as connection:
        _insert(connection, projects)
        if sendings_each:
            _send(connection, len(projects), sendings_each)
    sync(database_file(folder))
    return projects


def fill_with_million(folder: Path, plan: Plan) -> SeededProject:
    """A database whose one project has a million subscribers, of whom some are returned.

    Made once a run, copied after that.
    """
    kept = plan.directory / "bench-million.sqlite3"
    if not kept.exists():
        with plan.folder() as maker:
            fill_projects(maker, [MILLION])
            shutil.move(database_file(maker), kept)
    shutil.copyfile(kept, database_file(folder))
    sync(database_file(folder))
    connection = sqlite3.connect(kept)
    try:
        rows = connection.execute(_ANY_SUBSCRIBERS, (_MILLIONS_SAMPLE,)).fetchall()
    finally:
        connection.close()
    return _project(1, [account for _, account in rows], [number for number, _ in rows])


def sign_in(connection: sqlite3.Connection, accounts: Sequence[tuple[int, str]]) -> list[str]:
    """A token for each of these numbers and spellings of accounts, good for a day."""
    tokens = [token_urlsafe(32) for _ in accounts]
    expires_at_ms = time.time_ns() // 1_000_000 + _DAY_MS
    rows = zip(tokens, accounts, strict=True)
    connection.execute("BEGIN")
    insert_many(
        connection,
        "INSERT INTO inbox_tokens (digest, account, account_id, expires_at_ms) VALUES (?, ?, ?, ?)",
        ((digest(token), number, spelled, expires_at_ms) for token, (number, spelled) in rows),
    )
    connection.execute("COMMIT")
    return tokens


def _projects(sizes: Sequence[int]) -> list[SeededProject]:
    chance = random.Random(len(sizes))
    numbers = list(range(1, sum(sizes) + 1))
    chance.shuffle(numbers)
    projects, first = [], 0
    for index, size in enumerate(sizes, 1):
        addresses = [chance.randbytes(20).hex() for _ in range(size)]
        accounts = [f"eip155:1:{checksummed(f'0x{address}')}" for address in addresses]
        projects.append(_project(index, accounts, numbers[first : first + size]))
        first += size
    return projects


def _project(number: int, accounts: Sequence[str], account_numbers: Sequence[int]) -> SeededProject:
    project_id, secret = (sha256(f"{what} {number}".encode()).hexdigest() for what in ("project", "secret"))
    return SeededProject(number, project_id[:32], secret, accounts, account_numbers)


@contextmanager
def _bulk_writing(file: Path) -> Iterator[sqlite3.Connection]:
    """A transaction without secondary indexes: they are made again from the finished tables."""
    connection = sqlite3.connect(file, isolation_level=None)
    try:
        connection.executescript("PRAGMA synchronous = OFF; PRAGMA cache_size = -262144;")
        connection.execute("BEGIN")
        indexes = connection.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql > ''")
        rows = indexes.fetchall()
        for name, _ in rows:
            connection.execute(f"DROP INDEX {name}")
        yield connection
        for _, sql in rows:
            connection.execute(sql)
        connection.execute("COMMIT")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _insert(connection: sqlite3.Connection, projects: Sequence[SeededProject]) -> None:
    """Rows in the order of their keys, which is much the quickest."""
    now_ms = time.time_ns() // 1_000_000 - _DAY_MS
    everybody = [
        (number, f"eip155:{account[9:].lower()}")
        for project in projects
        for account, number in zip(project.accounts, project.account_numbers, strict=True)
    ]
    insert_many(connection, "INSERT INTO accounts (id, account_key) VALUES (?, ?)", iter(sorted(everybody)))
    del everybody
    for project in projects:
        _insert_project(connection, project, now_ms)


def _insert_project(connection: sqlite3.Connection, project: SeededProject, now_ms: int) -> None:
    number = project.number
    connection.execute(
        "INSERT INTO projects (id, project_id, name, created_at_ms) VALUES (?, ?, ?, ?)",
        (number, project.project_id, f"Project {number}", now_ms),
    )
    connection.execute(
        "INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (?, ?, ?)",
        (number, digest(project.secret), now_ms),
    )
    connection.execute(
        "INSERT INTO notification_types (id, project, type_id, name, created_at_ms) VALUES (?, ?, ?, ?, ?)",
        (number, number, TYPE_ID, "Alerts", now_ms),
    )
    connection.execute(
        "INSERT INTO type_sets (id, project, types, subscribers) VALUES (?, ?, ?, ?)",
        (number, number, f'["{TYPE_ID}"]', len(project.accounts)),
    )
    connection.execute("INSERT INTO type_set_members (type, type_set) VALUES (?, ?)", (number, number))
    subscribers = sorted(
        (f"eip155:{account[9:].lower()}", account_number, account)
        for account, account_number in zip(project.accounts, project.account_numbers, strict=True)
    )
    insert_many(
        connection,
        "INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)"
        " VALUES (?, ?, ?, ?, ?, ?)",
        ((number, key, account, spelled, number, now_ms) for key, account, spelled in subscribers),
    )


def _send(connection: sqlite3.Connection, projects: int, sendings_each: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    insert_many(
        connection,
        "INSERT INTO notifications (id, project, type, title, body) VALUES (?, ?, ?, 'Welcome', 'Hello')",
        ((number, number, number) for number in range(1, projects + 1)),
    )
    insert_many(
        connection,
        "INSERT INTO sendings (project, type, notification, sent_at_ms) VALUES (?, ?, ?, ?)",
        (
            (number, number, number, now_ms - _HOUR_MS + turn)
            for turn in range(sendings_each)
            for number in range(1, projects + 1)
        ),
    )
    connection.execute(_DELIVER_ALL)
    connection.execute(_CHARGE_ALL, {"full_at_us": (now_ms + _HOUR_MS) * 1000})
    connection.execute(_COUNT_ALL, (now_ms // _DAY_MS,))
