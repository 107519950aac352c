"""Whether a database of a million calls costs more than one of a thousand.

Both are asked in the same way, some ids in turns, so that what is compared is the size of the database
and not how much of it is remembered; the large one's are drawn from all of it. The scattered rows ask for
as many different ids as there are: a worse case than live traffic, which is about recent calls.
"""

import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

from plan import Plan
from processes import started_server
from report import Figures, Result, Target, spread
from request_cost import Sample, Side
from scenarios import CALL_BODY, STATUS_BODY, Scenario
from seed import Population, Seeded, fill

_CALLS_PER_SESSION = 10
_ANSWERED_PER_SESSION = 5
_NOTHING_REMEMBERED = {"BRIDGE_CACHE_BYTES": "1"}
_CHANCE = random.Random(2)


def _population(sessions: int, silent_sessions: int = 0) -> Population:
    return Population(
        sessions,
        calls_per_session=_CALLS_PER_SESSION,
        answered_per_session=_ANSWERED_PER_SESSION,
        silent_sessions=silent_sessions,
    )


_SMALL = _population(100)
_TARGET = Target("ratio", 0.9, at_least=True)


@dataclass(frozen=True, slots=True)
class _Case:
    """What is asked of both; `some` is how many ids in turns, None for all there are."""

    scenario: Scenario
    some: int | None
    small: Population = _SMALL
    environment: Mapping[str, str] = field(default_factory=dict)
    target: Target | None = _TARGET


_CALL_NEW = Scenario("call-new", "POST", "/session/{id}/call/new", body=CALL_BODY)
_STATUS_POST = Scenario("status-post", "POST", "/call-status/{id}/new", ids="pending", body=STATUS_BODY)
_STATUS_GET = Scenario("status-get-200", "GET", "/call-status/{id}", ids="answered")
_CALLS = Scenario("calls-5", "GET", "/session/{id}/calls")

_CASES = {
    "call-new": _Case(_CALL_NEW, 5_000, small=_population(100, silent_sessions=4_900)),
    "status-post": _Case(_STATUS_POST, 500),
    "status-get-200": _Case(_STATUS_GET, 500),
    "calls-5": _Case(_CALLS, 100),
    "status-post, scattered": _Case(_STATUS_POST, None, small=_population(10_000), target=None),
    "status-get-200, no cache": _Case(_STATUS_GET, 500, environment=_NOTHING_REMEMBERED, target=None),
    "status-get-200, no cache, scattered": _Case(
        _STATUS_GET, None, environment=_NOTHING_REMEMBERED, target=None
    ),
    "calls-5, no cache": _Case(_CALLS, 100, environment=_NOTHING_REMEMBERED, target=None),
}


def measure_growth(plan: Plan) -> Iterator[Result]:
    """The cost of requests to a small database, by the cost of the same requests to a large one."""
    with plan.folder() as folder:
        seeded = fill(folder, _population(plan.large_sessions))
        for name, case in _CASES.items():
            rounds = _alternate(plan, case, folder, seeded)
            yield Result(name, _figures(rounds, case.scenario.writes), case.target)


def _alternate(plan: Plan, case: _Case, large: Path, seeded: Seeded) -> list[tuple[Sample, Sample]]:
    """A small database is new in every round, for what a round writes makes it grow."""
    rounds = []
    with _side(plan, case, large, seeded) as large_side:
        for _ in range(plan.rounds):
            with plan.folder() as small, _side(plan, case, small, fill(small, case.small)) as small_side:
                rounds.append((small_side.measure(), large_side.measure()))
    return rounds


@contextmanager
def _side(plan: Plan, case: _Case, folder: Path, seeded: Seeded) -> Iterator[Side]:
    load = case.scenario.write_load(folder, _drawn(seeded, case.some))
    with started_server(folder, case.environment) as server:
        side = Side(server, load, plan, settles=case.scenario.writes)
        side.warm_up()
        yield side


def _drawn(seeded: Seeded, some: int | None) -> Seeded:
    """So many ids of each kind, from anywhere among them, in no order."""

    def draw(ids: list[str]) -> list[str]:
        return _CHANCE.sample(ids, len(ids) if some is None else min(some, len(ids)))

    return Seeded(draw(seeded.sessions), draw(seeded.pending), draw(seeded.answered))


def _figures(rounds: list[tuple[Sample, Sample]], writes: bool) -> Figures:
    return {
        "small_us": median(small.cpu_us for small, _ in rounds),
        "large_us": median(large.cpu_us for _, large in rounds),
        **spread([small.cpu_us / large.cpu_us for small, large in rounds]),
        "small_rate": median(small.rate for small, _ in rounds),
        "large_rate": median(large.rate for _, large in rounds),
        "rate_ratio": median(large.rate / small.rate for small, large in rounds),
        "small_written_bytes": median(small.written_bytes for small, _ in rounds) if writes else None,
        "large_written_bytes": median(large.written_bytes for _, large in rounds) if writes else None,
    }
