"""Projects with subscribers as they would have come over the years, written with SQL.

An account's number says nothing about its address nor about its project, as with people who come when they
like: deliveries to a project's subscribers land all over the table of deliveries.
"""

import random
import shutil
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

import orjson
from clients import PLACEHOLDER
from plan import Plan
from seed import HOUR_MS, database_file, execute_all, filling

from bridge_server.ethereum.address import checksummed
from bridge_server.kernel.secrets import digest

MILLION = 1_000_000
TYPE_ID = "4b1d0c8e-7f5a-4c7e-9f0e-3f1f3a3c2d10"
_DAY_MS = 24 * HOUR_MS
_MILLIONS_SAMPLE = 300_000
_ANY_SUBSCRIBERS = "SELECT account_id, account FROM subscriptions WHERE account <= ?"  # numbers are random
_INSERT_PROJECT = """
INSERT INTO projects (id, project_id, name, created_at_ms) VALUES (:number, :project_id, 'Project', :now_ms);
INSERT INTO project_secrets (project, digest, created_at_ms) VALUES (:number, :digest, :now_ms);
INSERT INTO notification_types (id, project, type_id, name, created_at_ms)
VALUES (:number, :number, :type_id, 'Alerts', :now_ms);
INSERT INTO type_sets (id, project, types, subscribers)
VALUES (:number, :number, json_array(:type_id), :subscribers);
INSERT INTO type_set_members (type, type_set) VALUES (:number, :number)
"""
_INSERT_SUBSCRIPTION = """
INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
VALUES (?, ?, ?, ?, ?, ?)
"""
_NOTIFY_ALL = """
INSERT INTO notifications (id, project, type, title, body)
SELECT id, project, id, 'Welcome', 'Hello' FROM notification_types
"""
_SEND_ALL = """
INSERT INTO sendings (project, type, notification, sent_at_ms)
SELECT project, type, id, :sent_at_ms FROM notifications
"""
_DELIVER_ALL = """
INSERT INTO deliveries (account, sending) SELECT subscriptions.account, sendings.id
FROM subscriptions JOIN sendings ON sendings.project = subscriptions.project ORDER BY 1, 2;
INSERT INTO account_buckets (project, account, full_at_us, interval_us, sweep_at_us)
SELECT project, account, :full_at_us, 1800000000, :full_at_us FROM subscriptions ORDER BY 1, 2;
INSERT INTO daily_figures (project, type, day, sent) SELECT sendings.project, sendings.type, :day, count(*)
FROM sendings JOIN deliveries ON deliveries.sending = sendings.id GROUP BY sendings.project, sendings.type
"""


@dataclass(frozen=True, slots=True)
class Subscriber:
    """An account as GET /subscribers spells it, and its number in the database."""

    account: str
    number: int

    @property
    def key(self) -> str:
        """How the database compares it."""
        return f"eip155:{self.account[9:].lower()}"


@dataclass(frozen=True, slots=True)
class SeededProject:
    """A project and its subscribers, in the order of GET /subscribers."""

    number: int
    subscribers: Sequence[Subscriber]

    @property
    def project_id(self) -> str:
        """Its public id."""
        return sha256(f"project {self.number}".encode()).hexdigest()[:32]

    @property
    def secret(self) -> str:
        """The secret of its backend."""
        return sha256(f"secret {self.number}".encode()).hexdigest()

    @property
    def header(self) -> str:
        """The header field that authenticates its backend."""
        return f"Authorization: Bearer {self.secret}"

    def notification(self) -> bytes:
        """The body of a notification to all of them, another one every time."""
        content = {
            "type": TYPE_ID,
            "title": f"Order {PLACEHOLDER.decode()} filled",
            "body": "Your order to sell 12.5 ETH was filled at a price of 2,318.20 USDC.",
            "url": "https://app.example.org/orders?page=latest",
        }
        accounts = [each.account for each in self.subscribers]
        return orjson.dumps({"notification": content, "accounts": accounts})


def fill_projects(folder: Path, sizes: Sequence[int], sendings_each: int = 0) -> list[SeededProject]:
    """Create the database of a data directory: one project for each size, with so many subscribers.

    Each project has sent all of them `sendings_each` notifications in the past hour: there are deliveries,
    and buckets that are not full.
    """
    chance, numbers = random.Random(len(sizes)), list(range(1, sum(sizes) + 1))
    chance.shuffle(numbers)
    projects = [
        SeededProject(index, sorted((_subscriber(chance, numbers.pop()) for _ in range(size)), key=_key))
        for index, size in enumerate(sizes, 1)
    ]
    with filling(folder) as connection:
        everybody = sorted((each.number, each.key) for project in projects for each in project.subscribers)
        connection.executemany("INSERT INTO accounts (id, account_key) VALUES (?, ?)", everybody)
        del everybody
        for project in projects:
            _insert_project(connection, project)
        if sendings_each:
            _send(connection, sendings_each)
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
    with closing(sqlite3.connect(kept)) as connection:
        return SeededProject(
            1, [Subscriber(*row) for row in connection.execute(_ANY_SUBSCRIBERS, [_MILLIONS_SAMPLE])]
        )


def _subscriber(chance: random.Random, number: int) -> Subscriber:
    return Subscriber(f"eip155:1:{checksummed(f'0x{chance.randbytes(20).hex()}')}", number)


def _key(subscriber: Subscriber) -> str:
    return subscriber.key


def _insert_project(connection: sqlite3.Connection, project: SeededProject) -> None:
    number, now_ms = project.number, time.time_ns() // 1_000_000 - _DAY_MS
    execute_all(
        connection,
        _INSERT_PROJECT,
        number=number,
        project_id=project.project_id,
        digest=digest(project.secret),
        type_id=TYPE_ID,
        subscribers=len(project.subscribers),
        now_ms=now_ms,
    )
    rows = ((number, each.key, each.number, each.account, number, now_ms) for each in project.subscribers)
    connection.executemany(_INSERT_SUBSCRIPTION, rows)


def _send(connection: sqlite3.Connection, sendings_each: int) -> None:
    now_ms = time.time_ns() // 1_000_000
    connection.execute(_NOTIFY_ALL)
    for turn in range(sendings_each):
        connection.execute(_SEND_ALL, {"sent_at_ms": now_ms - HOUR_MS + turn})
    execute_all(connection, _DELIVER_ALL, full_at_us=(now_ms + HOUR_MS) * 1000, day=now_ms // _DAY_MS)
