"""A batch of transactions in one commit, run in the thread of the connection that writes.

A failed transaction harms no other: if it changed nothing, it is left out; otherwise the batch is rolled back
and run again with each transaction in a savepoint of its own.
"""

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from bridge_server.kernel.events import DomainEvent
from bridge_server.storage.database import Statement, Transaction
from bridge_server.storage.failures import passing_failure
from bridge_server.storage.size_limit import SizeLimit


@dataclass(slots=True)
class Job:
    """A transaction to commit, its outcome, and the future of its caller."""

    begin: Callable[[], Transaction[Any]]
    done: asyncio.Future[Any]
    result: Any = None
    error: BaseException | None = None
    events: Sequence[DomainEvent] = ()


class _UncleanError(Exception):
    """A transaction failed after it had changed something; its batch must be run again."""


def commit_batch(connection: sqlite3.Connection, batch: list[Job], size_limit: SizeLimit) -> None:
    """Run the batch in one commit, and look what room it leaves; outcomes are left in the jobs.

    Raises when the whole batch failed.
    """
    try:
        _run_batch(connection, batch, size_limit, _run_bare)
    except _UncleanError:
        _run_batch(connection, batch, size_limit, _run_in_savepoint)


def _run_batch(
    connection: sqlite3.Connection,
    batch: list[Job],
    size_limit: SizeLimit,
    run_job: Callable[[sqlite3.Connection, Job], None],
) -> None:
    try:
        connection.execute("BEGIN IMMEDIATE")
        for job in batch:
            run_job(connection, job)
        size_limit.measure(connection)
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def _run_bare(connection: sqlite3.Connection, job: Job) -> None:
    changes = connection.total_changes
    try:
        _play(connection, job)
    except Exception as error:
        if passing_failure(error) is not None:
            raise
        if connection.total_changes != changes:
            raise _UncleanError from error
        job.error = error


def _run_in_savepoint(connection: sqlite3.Connection, job: Job) -> None:
    connection.execute("SAVEPOINT job")
    try:
        _play(connection, job)
    except Exception as error:
        if passing_failure(error) is not None:
            raise
        connection.execute("ROLLBACK TO job")
        job.error = error
    connection.execute("RELEASE job")


def _play(connection: sqlite3.Connection, job: Job) -> None:
    """Drive the generator: execute its statements, send it their rows, keep its events and its result."""
    job.error = None
    events: list[DomainEvent] = []
    steps = job.begin()
    cursor = connection.cursor()
    try:
        step = next(steps)
        while True:
            if isinstance(step, Statement):
                rows = cursor.execute(step.sql, step.parameters).fetchall()
                step = steps.send(rows if cursor.description else [(_changes(connection, cursor),)])
            else:
                events.append(step)
                step = next(steps)
    except StopIteration as stop:
        job.result = stop.value
        job.events = events


def _changes(connection: sqlite3.Connection, cursor: sqlite3.Cursor) -> int:
    if cursor.rowcount >= 0:
        return cursor.rowcount
    changes: int = connection.execute("SELECT changes()").fetchone()[0]  # begun with WITH, it is not counted
    return changes
