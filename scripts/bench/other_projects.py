"""Whether a project costs more beside many others on the same server.

Both databases hold the projects that are asked. The larger one holds others with 500 subscribers each, to
whom something was sent in the past hour: their accounts, subscriptions, deliveries and buckets lie between
those of the projects that are asked.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from statistics import median

from load import CONNECTIONS
from lookup_cost import alternate, lookup_bodies, lookups
from notify_cost import REMEMBERED_PROJECTS, SUBSCRIBERS
from notify_load import NOBODY_IS_REFUSED, notify_load
from plan import Plan
from processes import Running, started_server
from project_seed import SeededProject, fill_projects
from report import Figures, Result, Target, spread
from request_cost import Side

_SENDINGS_EACH = 2
_LOOKED_UP_SUBSCRIBERS = 10_000
_TARGET = Target("ratio", 0.8, at_least=True)

Rounds = list[tuple[float, float]]


def measure_notify_beside_others(at_once: int, plan: Plan) -> Iterator[Result]:
    """A notification to 500 accounts: its cost alone by its cost beside others."""
    sizes = [SUBSCRIBERS] * REMEMBERED_PROJECTS
    with ExitStack() as stack:
        sides = []
        for others in (0, plan.other_projects):
            server, projects = stack.enter_context(_server(plan, sizes, others))
            folder = stack.enter_context(plan.folder())
            sides.append(Side(server, notify_load(folder, projects, at_once), plan, settles=True))
            sides[-1].warm_up()
        rounds = [(sides[0].measure(), sides[1].measure()) for _ in range(plan.rounds)]
    written: Figures = {
        "alone_written_bytes": median(alone.written_bytes for alone, _ in rounds),
        "beside_written_bytes": median(beside.written_bytes for _, beside in rounds),
    }
    costs = [(alone.cpu_us, beside.cpu_us) for alone, beside in rounds]
    yield _result(f"notify-500, {at_once} at once", plan, costs, written)


def measure_lookup_beside_others(plan: Plan) -> Iterator[Result]:
    """Looking up 100 of 10,000 subscribers: its cost alone by its cost beside others."""
    with ExitStack() as stack:
        sides = []
        for others in (0, plan.other_projects):
            server, (project,) = stack.enter_context(_server(plan, [_LOOKED_UP_SUBSCRIBERS], others))
            sides.append(lookups(server, project, lookup_bodies(project)))
        rounds = alternate(plan, *sides)
    yield _result("lookup-100", plan, rounds, {})


OTHER_PROJECTS: dict[str, Callable[[Plan], Iterator[Result]]] = {
    "notify-500-others": partial(measure_notify_beside_others, CONNECTIONS),
    "notify-500-singly-others": partial(measure_notify_beside_others, 1),
    "lookup-100-others": measure_lookup_beside_others,
}


@contextmanager
def _server(
    plan: Plan, sizes: Sequence[int], others: int
) -> Iterator[tuple[Running, Sequence[SeededProject]]]:
    with plan.folder() as folder:
        projects = fill_projects(folder, [*sizes, *[SUBSCRIBERS] * others], _SENDINGS_EACH)[: len(sizes)]
        with started_server(folder, NOBODY_IS_REFUSED) as server:
            yield server, projects


def _result(name: str, plan: Plan, rounds: Rounds, more: Figures) -> Result:
    figures: Figures = {
        "alone_us": median(alone for alone, _ in rounds),
        "beside_us": median(beside for _, beside in rounds),
        **spread([alone / beside for alone, beside in rounds]),
        **more,
    }
    return Result(f"{name}, {plan.other_projects:,} others", figures, _TARGET)
