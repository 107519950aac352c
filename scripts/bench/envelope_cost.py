"""What the envelope of generation 0.7 costs: the same reads of one server, with it and without, in turns."""

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from statistics import median

from plan import Plan
from processes import started_server
from report import Result, Target, spread
from request_cost import Side
from scenarios import SCENARIOS, Scenario
from seed import fill

_PATH = "/compat/v0.7"
_TARGET = Target("ratio", 1.1)

ENVELOPED = tuple(
    scenario
    for scenario in SCENARIOS
    if scenario.name in ("session-get-200", "calls-1", "calls-10", "status-get-200")
)


def measure_envelope(scenario: Scenario, plan: Plan) -> Iterator[Result]:
    """CPU time of the read under the path of generation 0.7, by that of the plain one."""
    with ExitStack() as stack:
        data = stack.enter_context(plan.folder())
        seeded = fill(data, scenario.population)
        server = stack.enter_context(started_server(data))
        sides = []
        for route in (scenario.route, _PATH + scenario.route):
            load = replace(scenario, route=route).write_load(stack.enter_context(plan.folder()), seeded)
            sides.append(Side(server, load, plan, settles=False))
            sides[-1].warm_up()
        rounds = [(sides[0].measure().cpu_us, sides[1].measure().cpu_us) for _ in range(2 * plan.rounds)]
    figures = {
        "plain_us": median(plain for plain, _ in rounds),
        "enveloped_us": median(enveloped for _, enveloped in rounds),
    }
    ratios = [enveloped / plain for plain, enveloped in rounds]
    yield Result(scenario.name, {**figures, **spread(ratios)}, _TARGET)
