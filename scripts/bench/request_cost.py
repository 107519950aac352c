"""CPU time per request, the server's beside the ceiling's, in turns."""

import time
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from cores import keep_on_first_core
from load import Load
from plan import Plan
from processes import Running, started_ceiling, started_server
from raw_http import Answer
from report import Figures, Result, Target, spread
from scenarios import Scenario
from seed import Seeded, fill

# A write is paid in full only once its log is checkpointed, which the server does every second.
_SETTLE_SECONDS = 1.3
_WARM_UP_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Sample:
    """What one round cost."""

    cpu_us: float
    rate: float
    p50_ms: float
    p99_ms: float
    written_bytes: float
    requests: int


class Side:
    """A process under load; every round goes on with the requests after the last one's."""

    def __init__(self, process: Running, load: Load, plan: Plan, settles: bool) -> None:
        self._process, self._load, self._plan = process, load, plan
        self._settle_seconds = _SETTLE_SECONDS if settles else 0.1
        self._first = 0
        keep_on_first_core(process.pid)

    def warm_up(self) -> None:
        """Requests that are not measured."""
        self._send(_WARM_UP_SECONDS)

    def measure(self) -> Sample:
        """One round, and what it has written behind itself."""
        return self._send(self._plan.seconds)

    def _send(self, seconds: int) -> Sample:
        cpu, written = self._process.cpu_ns(), self._process.written_bytes()
        outcome = self._plan.generator.run(self._process.url, self._load, seconds, self._first)
        time.sleep(self._settle_seconds)
        self._first += outcome.requests
        return Sample(
            (self._process.cpu_ns() - cpu) / 1e3 / outcome.requests,
            outcome.requests / outcome.seconds,
            outcome.p50_ms,
            outcome.p99_ms,
            (self._process.written_bytes() - written) / outcome.requests,
            outcome.requests,
        )


def measure_scenario(scenario: Scenario, plan: Plan) -> list[Result]:
    """Alternate ceiling and server; the ratio is how much of the ceiling's cost the server's is."""
    with ExitStack() as stack:
        data, bare = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        seeded = fill(data, scenario.population) if scenario.population.sessions else Seeded()
        load = scenario.write_load(bare, seeded)
        server = stack.enter_context(started_server(data, scenario.environment))
        answer = scenario.sample_answer(server.url, load)
        options = ceiling_options(scenario.method, scenario.route, answer, bare)
        ceiling = stack.enter_context(started_ceiling(bare, *options))
        sides = Side(ceiling, load, plan, settles=False), Side(server, load, plan, settles=scenario.writes)
        for side in sides:
            side.warm_up()
        rounds = [(sides[0].measure(), sides[1].measure()) for _ in range(plan.rounds)]
    target = Target("ratio", scenario.target, at_least=True) if scenario.target else None
    return [Result(scenario.name, _figures(rounds, scenario.writes), target, label=scenario.label)]


def ceiling_options(method: str, route: str, answer: Answer, folder: Path) -> list[str]:
    """What ceiling.py is told to answer the same on that route; the body is left in the folder."""
    body_file = folder / "bench-answer.txt"
    body_file.write_bytes(answer.body)
    options = ["--method", method, "--route", route, "--status", str(answer.status)]
    if answer.body:
        options += ["--body-file", str(body_file)]
    if answer.content_type:
        options += ["--content-type", answer.content_type]
    return options


def _figures(rounds: list[tuple[Sample, Sample]], writes: bool) -> Figures:
    bare, served = [pair[0] for pair in rounds], [pair[1] for pair in rounds]
    return {
        "ceiling_us": median(sample.cpu_us for sample in bare),
        "server_us": median(sample.cpu_us for sample in served),
        **spread([ceiling.cpu_us / server.cpu_us for ceiling, server in rounds]),
        "ceiling_rate": median(sample.rate for sample in bare),
        "server_rate": median(sample.rate for sample in served),
        "p50_ms": median(sample.p50_ms for sample in served),
        "p99_ms": median(sample.p99_ms for sample in served),
        "written_bytes": median(sample.written_bytes for sample in served) if writes else None,
    }
