"""A notification to 500 accounts, by the bare statement that inserts their delivery rows; and look-ups.

Both sides of the first work on copies of one database and do as many notifications in a round, so that the
tables grow alike; the bare one follows the server and checkpoints as often per notification as it did. The
server's figure is everything: receiving and checking 27 KB of JSON, the secret, both limits, the commit, the
checkpoints, the answer.

`times` is by one notification a commit. The server lets those that come at once share a commit, which spares
it most of the pages that each of them would write by itself; hence also `grouped`, where the bare statement
has as many a commit as come at once.
"""

import itertools
import random
import shutil
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median

import orjson
from clients import fetch
from load import CONNECTIONS, Requests, Side, in_turns
from machine import on_core
from plan import Plan
from processes import MeasurementError, Running, started_server
from report import Figures, Row, row
from requests_cost import started_answering
from seed import database_file, execute_all
from seed_projects import SeededProject, fill_projects, fill_with_million

_SUBSCRIBERS = 500
_EARLIER_SENDINGS = 10
_PROJECTS = 120  # 60,000 accounts: their spellings are remembered
_CHECKPOINT_SECONDS = 0.25
_NOBODY_IS_REFUSED = {"BRIDGE_ACCOUNT_BURST": "1000000", "BRIDGE_ACCOUNT_RATE_PER_HOUR": "2"}
"""So many notifications to one account are not usual; its bucket is charged and stored all the same."""

_INSERT = "INSERT INTO deliveries (account, sending) SELECT value, ? FROM json_each(?)"
_PRAGMAS = """
PRAGMA synchronous = FULL; PRAGMA foreign_keys = ON; PRAGMA wal_autocheckpoint = 0;
PRAGMA cache_size = -16384; PRAGMA temp_store = MEMORY
"""

_LOOKED_UP = 100
_LOOK_UP_BODIES = 3_000
_LOOK_UP_BURST = 100  # what a project may ask at once, and in a second


class _BareInsertion:
    """Inserts into the server's table, with its indexes and its connection settings; commits are on disk.

    The log is checkpointed from another connection, as the server does it.
    """

    def __init__(self, file: Path, projects: Sequence[SeededProject], a_commit: int) -> None:
        self._writer, self._checkpointer = (sqlite3.connect(file, isolation_level=None) for _ in "wc")
        for connection in (self._writer, self._checkpointer):
            execute_all(connection, _PRAGMAS)
        ((last,),) = self._writer.execute("SELECT coalesce(max(sending), 0) FROM deliveries")
        self._sendings = itertools.count(last + 1)
        numbers = [[each.number for each in project.subscribers] for project in projects]
        self._accounts = itertools.cycle([orjson.dumps(some).decode() for some in numbers])
        self._a_commit = a_commit

    def us_each(self, count: int, checkpoint_every: int) -> float:
        """The CPU time of one notification of so many; a checkpoint comes after every so many, and last."""
        unmoved, started = 0, time.thread_time_ns()
        for start in range(0, count, self._a_commit):
            together = min(self._a_commit, count - start)
            self._writer.execute("BEGIN IMMEDIATE")
            for _ in range(together):
                self._writer.execute(_INSERT, (next(self._sendings), next(self._accounts)))
            self._writer.execute("COMMIT")
            unmoved += together
            if unmoved >= checkpoint_every or start + together == count:
                self._checkpointer.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchall()
                unmoved = 0
        return (time.thread_time_ns() - started) / 1e3 / count

    def close(self) -> None:
        """Close both connections."""
        self._writer.close()
        self._checkpointer.close()


def measure_notify(plan: Plan) -> Iterator[Row]:
    """Alternate the server and the bare statement; `times` is how much more the server costs."""
    with ExitStack() as stack:
        folder = stack.enter_context(plan.folder())
        projects = fill_projects(folder, [_SUBSCRIBERS] * _PROJECTS, _EARLIER_SENDINGS)
        bare = []
        for a_commit in (1, CONNECTIONS):
            copy = database_file(stack.enter_context(plan.folder()))
            shutil.copyfile(database_file(folder), copy)
            bare.append(_BareInsertion(copy, projects, a_commit))
            stack.callback(bare[-1].close)
        server = stack.enter_context(started_server(folder, _NOBODY_IS_REFUSED))
        side = Side(server, _notifications(server, projects), plan.seconds, writes=True)
        rounds = [_round(side, bare) for _ in range(plan.rounds + 1)][1:]  # after one to warm up
    figures = {name: median(one[name] for one in rounds) for name in rounds[0]}
    times = [one["times"] for one in rounds]
    yield row("notify-500", {**figures, "times_min": min(times), "times_max": max(times)})


def _notifications(server: Running, projects: Sequence[SeededProject]) -> Requests:
    """To everybody, project after project: as one may be called only twice a second."""
    return Requests(
        server.url,
        "POST",
        [f"/{project.project_id}/notify" for project in projects],
        [project.notification() for project in projects],
        [project.header for project in projects],
    )


def _round(side: Side, bare: Sequence[_BareInsertion]) -> Figures:
    served = side.measure()
    every = max(1, round(served["rate"] * _CHECKPOINT_SECONDS))
    with on_core(0):
        single_us, grouped_us = [insertion.us_each(side.asked, every) for insertion in bare]
    return {
        "bare_us": single_us,
        "server_us": served["us"],
        "times": served["us"] / single_us,
        "bare_grouped_us": grouped_us,
        "grouped": served["us"] / grouped_us,
        **{name: served[name] for name in ("rate", "p50_ms", "p99_ms", "written_bytes")},
    }


def measure_lookup(plan: Plan) -> Iterator[Row]:
    """Looking up 100 of a million subscribers, beside a handler that reads and answers as much.

    Bursts of 100 requests, a second apart. Each asks for other accounts, spelled as they are listed: few of
    them have been seen recently, and their checksums are to be checked.
    """
    with plan.folder() as data, plan.folder() as bare:
        project = fill_with_million(data, plan)
        route, bodies = f"/v1/{project.project_id}/subscribers", _lookups(project)
        with started_server(data) as server:
            answer = fetch(server.url, "POST", route, bodies[0], project.header)
            if answer.body.count(b"eip155:") != _LOOKED_UP:
                raise MeasurementError(f"not all were found: {answer.body[:200]!r}")
            with started_answering(bare, "POST", route, answer) as ceiling:
                sides = [
                    Side(
                        process,
                        Requests(process.url, "POST", [route], bodies, [project.header]),
                        seconds=30,
                        burst=_LOOK_UP_BURST,
                        pause_seconds=1.05,
                    )
                    for process in (ceiling, server)
                ]
                figures = in_turns(3 * plan.rounds, ceiling=sides[0].measure, server=sides[1].measure)
    yield row("lookup-100", figures)


def _lookups(project: SeededProject) -> list[bytes]:
    """Bodies that ask for accounts from anywhere among the subscribers, once each."""
    accounts = [each.account for each in project.subscribers]
    shuffled = random.Random(3).sample(accounts, _LOOK_UP_BODIES * _LOOKED_UP)
    starts = range(0, len(shuffled), _LOOKED_UP)
    return [orjson.dumps({"accounts": shuffled[start : start + _LOOKED_UP]}) for start in starts]
