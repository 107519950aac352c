"""Transactions in lockstep: each round executes the next statement of every transaction, one exchange a text.

Two transactions that have a turn in common follow each other, in the order in which they were asked for.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bridge_server.kernel.events import DomainEvent
from bridge_server.storage.database import NO_TURNS, Row, Statement, Transaction, Turn, Turns
from bridge_server.storage.postgres.statements import Statements


@dataclass(slots=True, eq=False)
class LaneJob:
    """A transaction to commit, its progress, its outcome, and the future of its caller."""

    begin: Callable[[], Transaction[Any]]
    done: asyncio.Future[Any]
    turns: Turns = NO_TURNS
    result: Any = None
    error: Exception | None = None
    events: list[DomainEvent] = field(default_factory=list)
    has_changed: bool = False
    steps: Transaction[Any] | None = None
    statement: Statement | None = None
    awaited: int = 0
    followers: list["LaneJob"] | None = None

    def reset(self) -> None:
        """Forget an attempt."""
        self.result = self.error = self.steps = self.statement = self.followers = None
        self.events = []
        self.has_changed = False
        self.awaited = 0


class UncleanError(Exception):
    """A transaction failed after it had changed something: what shares its commit must be run again."""

    def __init__(self, job: LaneJob, cause: Exception) -> None:
        super().__init__(str(cause))
        self.job = job
        self.cause = cause


async def run_rounds(jobs: Sequence[LaneJob], statements: Statements) -> None:
    """Run every job to its end; outcomes are left in the jobs.

    Raises UncleanError, and what the database refuses: then nothing of the jobs may be committed.
    """
    for job in jobs:
        if job.steps is not None:
            job.reset()
    _link(jobs)
    active = _advance([(job, None) for job in jobs if not job.awaited])
    while active:
        active = _advance(await _answers(active, statements))


async def _answers(active: list[LaneJob], statements: Statements) -> list[tuple[LaneJob, list[Row] | None]]:
    """The rows of each job's statement."""
    groups: dict[str, list[LaneJob]] = {}
    for job in active:
        assert job.statement is not None
        sql = job.statement.sql
        if sql in groups:
            groups[sql].append(job)
        else:
            groups[sql] = [job]
    answered: list[tuple[LaneJob, list[Row] | None]] = []
    for sql, members in groups.items():
        parameters = [job.statement.parameters for job in members if job.statement is not None]
        answers = await statements.run_many(sql, parameters)
        for job, (rows, has_changed) in zip(members, answers, strict=True):
            if has_changed:
                job.has_changed = True
            answered.append((job, rows))
    return answered


def _advance(answered: list[tuple[LaneJob, list[Row] | None]]) -> list[LaneJob]:
    """Send the rows to the jobs, and start followers of jobs that are done; returns jobs with a statement."""
    active = []
    for job, rows in answered:  # which grows by the jobs that are started
        job.statement = _next_statement(job, rows)
        if job.statement is not None:
            active.append(job)
            continue
        for follower in job.followers or ():
            follower.awaited -= 1
            if not follower.awaited:
                answered.append((follower, None))
    return active


def _next_statement(job: LaneJob, rows: list[Row] | None) -> Statement | None:
    """Run the job's generator to its next statement; None when it has ended."""
    steps = job.steps
    try:
        if steps is None:
            steps = job.steps = job.begin()
            step = next(steps)
        else:
            assert rows is not None
            step = steps.send(rows)
        while not isinstance(step, Statement):
            job.events.append(step)
            step = next(steps)
    except StopIteration as stop:
        job.result = stop.value
        return None
    except Exception as error:
        if job.has_changed:
            raise UncleanError(job, error) from error
        job.error = error
        return None
    return step


def _link(jobs: Sequence[LaneJob]) -> None:
    """Have each job wait for the earlier ones with which it has a turn in common."""
    alone: dict[Turn, LaneJob] = {}
    sharing: dict[Turn, list[LaneJob]] = {}
    for job in jobs:
        if job.turns is NO_TURNS:
            continue
        earlier: dict[LaneJob, None] = {}
        for turn in job.turns.exclusive:
            sharers = sharing.pop(turn, None)
            earlier.update(dict.fromkeys(sharers or [alone[turn]] if sharers or turn in alone else ()))
            alone[turn] = job
        for turn in job.turns.shared:
            if turn in job.turns.exclusive:
                continue
            if turn in alone:
                earlier[alone[turn]] = None
            sharing.setdefault(turn, []).append(job)
        earlier.pop(job, None)
        job.awaited = len(earlier)
        for each in earlier:
            each.followers = [*(each.followers or ()), job]
