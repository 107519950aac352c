"""Group commit on PostgreSQL: one connection that writes, and the transactions that share its commits."""

import asyncio
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import field
from hashlib import blake2b
from typing import Any, TypeAlias

import structlog

from bridge_server.kernel.background import settle
from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.kernel.values import dataclass
from bridge_server.kernel.version import VERSION
from bridge_server.storage.database import NO_TURNS, ForEach, Row, Statement, Transaction, Turn, Turns
from bridge_server.storage.group_commit import SIBLINGS, CommitQueue
from bridge_server.storage.postgres import failures
from bridge_server.storage.postgres.connection import KeptConnection
from bridge_server.storage.postgres.statements import NOW_MS, Statements

BATCH_LIMIT = 128
_SAME_TURN_LIMIT = 16
"""A batch has as many rounds as it has transactions with one turn: more would keep all others waiting."""
_EXAMINED_LIMIT = 1_024
_ATTEMPTS = 3
_LONGEST_PAUSE_SECONDS = 0.02
_OUTCOME_SECONDS = 15.0
_OUTCOME_PAUSE_SECONDS = 0.1

log = structlog.get_logger()

CommitListener: TypeAlias = Callable[[int, int, Sequence[DomainEvent]], None]
"""Called with a lane, its count of commits and the events of the commit, once these are published."""


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
    statement: Statement | ForEach | None = None
    awaited: int = 0
    followers: list["LaneJob"] | None = None

    def reset(self) -> None:
        """Forget an attempt."""
        self.result = self.error = self.steps = self.statement = self.followers = None
        self.events = []
        self.has_changed = False
        self.awaited = 0


class UncleanError(Exception):
    """A transaction failed after it had changed something: all transactions of its commit must run again."""

    def __init__(self, job: LaneJob, cause: Exception) -> None:
        super().__init__(str(cause))
        self.job = job
        self.cause = cause


class CommitLane(CommitQueue):
    """Runs transactions on one connection."""

    def __init__(
        self,
        lane: int,
        link: KeptConnection,
        events: Events,
        listeners: Sequence[CommitListener],
        waiting_limit: int,
        apart: "CommitLane | None" = None,
    ) -> None:
        """Transactions whose turns cannot be had at once are handed to the lane `apart`, which waits."""
        super().__init__()
        self._lane = lane
        self._link = link
        self._events = events
        self._listeners = listeners
        self._waiting_limit = waiting_limit
        self._apart = apart
        self._waiting = Waiting()
        self._attempts = CommitAttempts(lane, link)
        self._is_short_of_locks = False
        self.runs_again = 0

    def use(self, process: int) -> None:
        """Count commits in the row of this process."""
        self._attempts.use(process)

    @property
    def commits(self) -> int:
        """The commits since the start."""
        return self._attempts.commits

    def submit(self, begin: Callable[[], Transaction[Any]], turns: Turns) -> asyncio.Future[Any]:
        """Queue a transaction. It runs even if the returned future is cancelled."""
        if self._drain is None and not self._link.is_open:
            raise failures.not_now(failures.LostConnectionError())
        waiting = self._waiting.jobs
        if len(waiting) >= self._waiting_limit:
            raise failures.unavailable("too many writes are waiting for the database")
        job = LaneJob(begin, asyncio.get_running_loop().create_future(), turns)
        waiting.append(job)
        if len(waiting) == self._siblings:
            self._gathered.set()
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())
        return job.done

    def take_over(self, jobs: Sequence[LaneJob]) -> None:
        """Queue transactions of another lane."""
        self._waiting.jobs += jobs
        if self._drain is None:
            self._drain = asyncio.create_task(self._commit_until_idle())

    async def _commit_until_idle(self) -> None:
        batch: list[LaneJob] = []
        try:
            while self._waiting.jobs:
                batch = self._waiting.take()
                await self._commit(batch)
                if len(batch) >= SIBLINGS:
                    waiting = len(self._waiting.jobs)
                    await self._linger_for(min(len(batch) + waiting, BATCH_LIMIT), waiting)
        except BaseException as error:  # every caller must have an answer
            _fail([*batch, *self._waiting.take_all()], error)
            raise
        finally:
            self._drain = None

    async def _commit(self, batch: list[LaneJob]) -> None:
        """Commit the batch, or the parts of it that can be, in their order."""
        parts = [batch]
        while parts:
            part = parts.pop()
            if self._apart is None:
                error = await self._attempts.attempt(part)
            else:
                error, blocked = await self._attempts.attempt_without_waiting(part)
                self._apart.take_over(blocked)
                part = [job for job in part if job not in blocked] if blocked else part
            if error is None:
                self._settle(part)
                continue
            is_whole = failures.passing_failure(error) is not None and not self._is_locks(error)
            if len(part) > 1 and not is_whole:
                self.runs_again += 1
                half = len(part) // 2
                parts += [part[half:], part[:half]]
                continue
            if failures.is_retried(error):
                error = await self._retried(part, error)
            if error is None:
                self._settle(part)
            else:
                self._refuse(part, error)

    async def _retried(self, part: list[LaneJob], error: Exception) -> Exception | None:
        """Run a job alone again, which may have lost a race; its last error."""
        last: Exception | None = error
        for _ in range(_ATTEMPTS):
            self.runs_again += 1
            await asyncio.sleep(random.uniform(0, _LONGEST_PAUSE_SECONDS))  # noqa: S311 - no secret
            last = await self._attempts.attempt(part)
            if last is None or not failures.is_retried(last):
                break
        return last

    def _settle(self, jobs: list[LaneJob]) -> None:
        self.last_commit_failed = False
        self.transactions += len(jobs)
        events: list[DomainEvent] = []
        for job in jobs:
            if job.error is None:
                events += job.events
                for event in job.events:
                    self._events.publish(event)
            settle(job.done, job.result, job.error)
        if not is_counted(jobs):
            return
        for listener in self._listeners:
            try:
                listener(self._lane, self._attempts.written, events)
            except Exception:
                log.exception("commit_listener_failed")

    def _refuse(self, jobs: list[LaneJob], error: Exception) -> None:
        self._link.note(error)
        if failures.passing_failure(error) is not None or isinstance(error, failures.OutcomeUnknownError):
            self.last_commit_failed = True
        if isinstance(error, UncleanError):
            jobs[0].error = error.cause
            settle(jobs[0].done, None, error.cause)
        else:
            _fail(jobs, error)

    def _is_locks(self, error: Exception) -> bool:
        if failures.sqlstate(error) != failures.OUT_OF_LOCKS:
            return False
        if not self._is_short_of_locks:
            self._is_short_of_locks = True
            log.warning("database_out_of_locks", advice="raise max_locks_per_transaction of the server")
        return True


def _fail(jobs: list[LaneJob], error: BaseException) -> None:
    answer = failures.not_now(error)
    for job in jobs:
        settle(job.done, None, answer)


class Waiting:
    """A queue from which batches are taken."""

    def __init__(self) -> None:
        self.jobs: list[LaneJob] = []

    def take(self) -> list[LaneJob]:
        """The next batch. Transactions that stay keep their place before others with one of their turns."""
        batch: list[LaneJob] = []
        left: list[LaneJob] = []
        counts: dict[Turn, int] = {}
        barred: set[Turn] = set()
        examined = 0
        for job in self.jobs[:_EXAMINED_LIMIT]:
            if len(batch) == BATCH_LIMIT:
                break
            examined += 1
            if job.turns is NO_TURNS:
                batch.append(job)
                continue
            exclusive, shared = job.turns
            is_barred = any(turn in barred for turn in (*exclusive, *shared))
            if is_barred or any(counts.get(turn, 0) >= _SAME_TURN_LIMIT for turn in exclusive):
                barred.update(exclusive, shared)
                left.append(job)
                continue
            for turn in exclusive:
                counts[turn] = counts.get(turn, 0) + 1
            batch.append(job)
        self.jobs[:examined] = left
        return batch

    def take_all(self) -> list[LaneJob]:
        """Remove and return all transactions that wait."""
        jobs, self.jobs = self.jobs, []
        return jobs


class CommitAttempts:
    """Attempts to commit transactions of a lane together in one of the database, and counts its commits."""

    def __init__(self, lane: int, link: KeptConnection) -> None:
        self._lane = lane
        self._link = link
        self._count = LaneCount(0, lane)
        self.commits = 0

    def use(self, process: int) -> None:
        """Count commits in the row of this process."""
        self._count = LaneCount(process, self._lane)

    @property
    def written(self) -> int:
        """The count of commits that other processes may have to hear of."""
        return self._count.written

    async def attempt(self, jobs: list[LaneJob]) -> Exception | None:
        """Run the jobs in one transaction of the database; returns the error if nothing was stored."""

        async def begin(wire: Any) -> list[LaneJob]:
            await wire.execute(beginning([job.turns for job in jobs]))
            return jobs

        return await self._attempt(begin)

    async def attempt_without_waiting(self, jobs: list[LaneJob]) -> tuple[Exception | None, list[LaneJob]]:
        """Run the jobs whose turns can be had at once; returns the error, and the other jobs."""
        blocked: list[LaneJob] = []

        async def begin(wire: Any) -> list[LaneJob]:
            turns = [job.turns for job in jobs]
            status = await wire.execute(trying(turns))
            if status.endswith((" 0", "BEGIN")):
                return jobs
            taken = {key for (key,) in await wire.fetch(_filled(_UNTAKEN, turns))}
            blocked.extend(job for job in jobs if not taken.isdisjoint(_modes([job.turns])))
            return [job for job in jobs if job not in blocked]

        return await self._attempt(begin), blocked

    async def _attempt(self, begin: Callable[[Any], Awaitable[list[LaneJob]]]) -> Exception | None:
        try:
            wire = self._link.wire
        except failures.LostConnectionError as error:
            return error
        statements = self._link.statements
        assert statements is not None
        try:
            await self._link.end_former(wire)
            jobs = await begin(wire)
            await run_rounds(jobs, statements)
        except Exception as error:
            if failures.is_stale(error):
                statements.forget()
            return await self._rolled_back(wire, error)
        return await self._end(wire, jobs)

    async def _end(self, wire: Any, jobs: list[LaneJob]) -> Exception | None:
        if not is_counted(jobs):
            return await self._ended(wire, "COMMIT")
        written = self._count.written + 1
        error = await self._ended(wire, self._count.commit_script(written))
        if error is not None and failures.ends_connection(error):
            error = await self._outcome(written, error)
            self._count.written = written
        elif error is None:
            self._count.written = written
        return error

    async def _ended(self, wire: Any, script: str) -> Exception | None:
        try:
            await wire.execute(script)
        except Exception as error:
            return await self._rolled_back(wire, error)
        self.commits += 1
        return None

    async def _rolled_back(self, wire: Any, error: Exception) -> Exception:
        """The error, after the connection is fit for the next transaction or has been dropped."""
        found = failures.lost_or(error, wire)
        if failures.ends_connection(found):
            self._link.drop()
            return found
        try:
            await wire.execute("ROLLBACK")
        except Exception:
            self._link.drop()
        return found

    async def _outcome(self, written: int, error: Exception) -> Exception | None:
        """None if the commit whose answer was lost has succeeded; otherwise it never will."""
        log.warning("database_commit_cut_off", lane=self._lane, reason=str(error))
        with suppress(TimeoutError):
            async with asyncio.timeout(_OUTCOME_SECONDS):
                while True:
                    with suppress(Exception):
                        wire = self._link.wire
                        await self._link.end_former(wire)
                        return error if await self._count.give_up(wire, written) else None
                    await asyncio.sleep(_OUTCOME_PAUSE_SECONDS)
        return failures.OutcomeUnknownError()


def is_counted(jobs: list[LaneJob]) -> bool:
    """Whether other processes may have to hear of a commit of these jobs."""
    return any(job.has_changed or job.events for job in jobs)


# Transactions in lockstep: each round executes the next statement of every transaction, one exchange a text.
# Two transactions that have a turn in common follow each other, in the order in which they were asked for.


async def run_rounds(jobs: Sequence[LaneJob], statements: Statements) -> None:
    """Run every job to its end. Raises UncleanError, and refusals: then nothing may be committed."""
    for job in jobs:
        if job.steps is not None:
            job.reset()
    _link(jobs)
    active = _advance([(job, None) for job in jobs if not job.awaited])
    while active:
        active = _advance(await _answers(active, statements))


async def _answers(active: list[LaneJob], statements: Statements) -> list[tuple[LaneJob, list[Row] | None]]:
    groups: dict[str, list[LaneJob]] = {}
    answered: list[tuple[LaneJob, list[Row] | None]] = []
    for job in active:
        if isinstance(job.statement, ForEach):
            answered.append((job, await _answer_to_each(job, job.statement, statements)))
            continue
        assert job.statement is not None
        sql = job.statement.sql
        if sql in groups:
            groups[sql].append(job)
        else:
            groups[sql] = [job]
    for sql, members in groups.items():
        parameters = [job.statement.parameters for job in members if isinstance(job.statement, Statement)]
        answers = await statements.run_many(sql, parameters)
        for job, (rows, has_changed) in zip(members, answers, strict=True):
            if has_changed:
                job.has_changed = True
            answered.append((job, rows))
    return answered


async def _answer_to_each(job: LaneJob, step: ForEach, statements: Statements) -> list[Row]:
    changed = sum(rows[0][0] for rows, _ in await statements.run_many(step.sql, step.parameters))
    job.has_changed |= changed > 0
    return [(changed,)]


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


def _next_statement(job: LaneJob, rows: list[Row] | None) -> Statement | ForEach | None:
    steps = job.steps
    try:
        if steps is None:
            steps = job.steps = job.begin()
            step = next(steps)
        else:
            assert rows is not None
            step = steps.send(rows)
        while not isinstance(step, Statement | ForEach):
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


# The turns of a batch of transactions as advisory locks, which end with its commit. All processes take them
# in one ascending order, whatever the mode, so that no two wait for each other.

_LOCKS = (
    "BEGIN; SELECT count(CASE WHEN s THEN pg_advisory_xact_lock_shared(k)::text "
    "ELSE pg_advisory_xact_lock(k)::text END) "
    "FROM unnest(ARRAY[{keys}]::bigint[], ARRAY[{modes}]::boolean[]) AS turn (k, s)"
)
# Those that cannot be had, which nothing waits for.
_UNTAKEN = (
    "SELECT k FROM unnest(ARRAY[{keys}]::bigint[], ARRAY[{modes}]::boolean[]) AS turn (k, s) WHERE NOT "
    "CASE WHEN s THEN pg_try_advisory_xact_lock_shared(k) ELSE pg_try_advisory_xact_lock(k) END"
)


def lock_key(turn: Turn) -> int:
    """The number of the turn's advisory lock."""
    text = f"{turn.kind}\0{turn.id}".encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=8).digest(), signed=True)


def beginning(jobs: Iterable[Turns]) -> str:
    """The script that begins a transaction and takes all turns; a turn in both modes exclusively."""
    return _filled(_LOCKS, jobs) or "BEGIN"


def trying(jobs: Iterable[Turns]) -> str:
    """Begins a transaction and takes the turns that are free; its last statement has a row for each other."""
    return "; ".join(filter(None, ("BEGIN", _filled(_UNTAKEN, jobs))))


def _filled(form: str, jobs: Iterable[Turns]) -> str:
    modes = _modes(jobs)
    keys = sorted(modes)
    if not keys:
        return ""
    texts = ["true" if modes[key] else "false" for key in keys]
    return form.format(keys=",".join(map(str, keys)), modes=",".join(texts))


def _modes(jobs: Iterable[Turns]) -> dict[int, bool]:
    """The keys of all turns, and whether each is only shared."""
    modes: dict[int, bool] = {}
    for turns in jobs:
        for turn in turns.exclusive:
            modes[lock_key(turn)] = False
        for turn in turns.shared:
            modes.setdefault(lock_key(turn), True)
    return modes


# The count of a lane's commits in its row of `processes`, which changes with each commit.
#
# It tells other processes what they have not heard of. And it tells this one how a commit ended whose answer
# was lost: the count never goes back, so that a commit that was given up can never succeed afterwards.

# A count that is not above the one in the row is NULL, which the column refuses: the commit fails.
_COUNT = """
INSERT INTO processes (number, lane, written, seen_at_ms, version)
VALUES ({number}, {lane}, {written}, {now}, '{version}')
ON CONFLICT (number, lane) DO UPDATE
SET written = CASE WHEN processes.written < excluded.written THEN excluded.written END;
COMMIT
"""
_GIVE_UP = f"""
INSERT INTO processes (number, lane, written, seen_at_ms, version) VALUES ($1, $2, $3, {NOW_MS}, $4)
ON CONFLICT (number, lane) DO UPDATE SET written = excluded.written
WHERE processes.written < excluded.written RETURNING written
"""  # noqa: S608 - the time's expression
_REGISTER = f"""
INSERT INTO processes (number, lane, seen_at_ms, version, started_at_ms)
SELECT own.number, lane, {NOW_MS}, $2, {NOW_MS}
FROM (SELECT nextval('process_numbers') AS number) AS own, unnest($1::int[]) AS lane RETURNING number
"""  # noqa: S608 - the time's expression
_STOPPED = f"UPDATE processes SET seen_at_ms = -{NOW_MS} WHERE number = $1"  # noqa: S608 - the time's expression


class LaneCount:
    """The count of one lane of this process."""

    def __init__(self, number: int, lane: int) -> None:
        self._number = number
        self._lane = lane
        self.written = 0

    def commit_script(self, written: int) -> str:
        """The script that counts the commit as this number and ends the transaction."""
        values = {"number": self._number, "lane": self._lane, "written": written, "now": NOW_MS}
        return _COUNT.format(**values, version=VERSION.replace("'", "''"))

    async def give_up(self, wire: Any, written: int) -> bool:
        """Wait for a commit under way, else make it impossible; False when it has succeeded."""
        row = await wire.fetchrow(_GIVE_UP, self._number, self._lane, written, VERSION)
        return row is not None


async def register(wire: Any, lanes: list[int]) -> int:
    """Make the rows of this process; returns its number."""
    number: int = await wire.fetchval(_REGISTER, lanes, VERSION)
    return number


async def unregister(wire: Any, number: int) -> None:
    """Leave the rows, which prove the last commits, to be removed later."""
    await wire.execute(_STOPPED, number)
