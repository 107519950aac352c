"""A notification to 500 accounts, by the statement that does nothing but insert their delivery rows.

Both work on copies of one database and do the same number of notifications in a round, so that the tables
grow alike; the bare one follows the server and checkpoints as often per notification as it did. The server's
figure is everything: receiving and checking 27 KB of JSON, the secret, both limits, the commit, the
checkpoints, the answer. What is measured without HTTP is the store's `send`, from the parsed request on.

`times` is by one notification a commit. The server lets those that come at once share a commit, which spares
it most of the pages that each of them would write by itself; hence also `grouped`, where the bare statement
has as many a commit as come at once.
"""

import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from load import CONNECTIONS
from notify_load import NOBODY_IS_REFUSED, notify_load, write_account_numbers, write_accounts
from plan import Plan
from processes import started_server
from project_seed import SeededProject, fill_projects
from report import Figures, Result, Target
from request_cost import Side
from seed import database_file
from worker import Worker, started_worker

SUBSCRIBERS = 500
EARLIER_SENDINGS = 10
REMEMBERED_PROJECTS = 120  # 60,000 accounts: as many as the server remembers the checked spelling of
_FORGOTTEN_PROJECTS = 300
_CHECKPOINT_SECONDS = 0.25
_STORED_PER_SECOND = 400  # about what the server takes


@dataclass(frozen=True, slots=True)
class NotifyCase:
    """How the notifications are sent: so many at once, to the subscribers of so many projects in turn."""

    name: str
    at_once: int = CONNECTIONS
    projects: int = REMEMBERED_PROJECTS
    keyed: bool = False
    over_http: bool = True
    target: float | None = 3.0


NOTIFY_CASES = (
    NotifyCase("notify-500"),
    NotifyCase("notify-500-singly", at_once=1),
    NotifyCase("notify-500-unseen", projects=_FORGOTTEN_PROJECTS),
    NotifyCase("notify-500-keyed", keyed=True, target=None),
    NotifyCase("notify-500-store", over_http=False, target=None),
    NotifyCase("notify-500-store-singly", at_once=1, over_http=False, target=None),
)

Turn = Callable[[], tuple[Figures, int, float]]
"""The server's turn: its figures, how many notifications it took, and how many in a second."""


def measure_notify(case: NotifyCase, plan: Plan) -> list[Result]:
    """Alternate the server and the bare statement; `times` is how much more the server costs."""
    with ExitStack() as stack:
        folder = stack.enter_context(plan.folder())
        projects = fill_projects(folder, [SUBSCRIBERS] * case.projects, EARLIER_SENDINGS)
        bare = [
            stack.enter_context(_bare(plan, folder, projects, size)) for size in sorted({1, case.at_once})
        ]
        start = _server if case.over_http else _store
        take_turn = stack.enter_context(start(case, plan, folder, projects))
        _round(take_turn, bare)  # to warm up
        rounds = [_round(take_turn, bare) for _ in range(plan.rounds)]
    target = None if case.target is None else Target("times", case.target)
    return [Result(case.name, _summary(rounds), target)]


@contextmanager
def _bare(plan: Plan, seeded: Path, projects: list[SeededProject], a_commit: int) -> Iterator[Worker]:
    with plan.folder() as folder:
        shutil.copyfile(database_file(seeded), database_file(folder))
        numbers = write_account_numbers(folder / "bench-numbers.txt", projects)
        arguments = str(database_file(folder)), str(numbers), str(a_commit)
        with started_worker("bare_notify.py", *arguments) as insertion:
            yield insertion


@contextmanager
def _server(case: NotifyCase, plan: Plan, folder: Path, projects: list[SeededProject]) -> Iterator[Turn]:
    load = notify_load(folder, projects, case.at_once, case.keyed)
    with started_server(folder, NOBODY_IS_REFUSED) as server:
        side = Side(server, load, plan, settles=True)

        def take_turn() -> tuple[Figures, int, float]:
            sample = side.measure()
            figures: Figures = {
                "server_us": sample.cpu_us,
                "server_rate": sample.rate,
                "p50_ms": sample.p50_ms,
                "p99_ms": sample.p99_ms,
                "written_bytes": sample.written_bytes,
            }
            return figures, sample.requests, sample.rate

        yield take_turn


@contextmanager
def _store(case: NotifyCase, plan: Plan, folder: Path, projects: list[SeededProject]) -> Iterator[Turn]:
    accounts = write_accounts(folder / "bench-accounts.txt", projects)
    arguments = str(database_file(folder)), str(accounts), str(case.at_once)
    with started_worker("store_notify.py", *arguments) as store:

        def take_turn() -> tuple[Figures, int, float]:
            count = _STORED_PER_SECOND * plan.seconds
            return {"server_us": store.cpu_us_each(count, 0)}, count, _STORED_PER_SECOND

        yield take_turn


def _round(take_turn: Turn, bare: list[Worker]) -> Figures:
    figures, count, per_second = take_turn()
    served_us = figures["server_us"]
    assert served_us is not None
    every = max(1, round(per_second * _CHECKPOINT_SECONDS))
    costs = [insertion.cpu_us_each(count, every) for insertion in bare]
    round_figures: Figures = {"bare_us": costs[0], **figures, "times": served_us / costs[0]}
    if len(costs) > 1:
        round_figures |= {"bare_grouped_us": costs[1], "grouped": served_us / costs[1]}
    return round_figures


def _summary(rounds: list[Figures]) -> Figures:
    """The medians of all figures, and between what `times` lay."""

    def values(name: str) -> list[float]:
        return [value for figures in rounds if (value := figures[name]) is not None]

    summary: Figures = {name: median(values(name)) for name in rounds[0]}
    return {**summary, "times_min": min(values("times")), "times_max": max(values("times"))}
