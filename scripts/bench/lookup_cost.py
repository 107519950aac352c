"""Looking up 100 subscribers among a million, beside a handler that reads and answers as much.

A project may ask 100 times at once and 100 times a second, and the million are one project's: so both sides
are asked in bursts of 100, a second apart. Every request asks for other accounts, spelled as they are listed:
few of them have been seen lately, and their checksums are to be checked.
"""

import random
from collections.abc import Iterator
from contextlib import ExitStack
from statistics import median

from bursts import Bursts
from notify_load import lookup_body
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from project_seed import SeededProject, fill_with_million
from raw_http import encode, fetch
from report import Figures, Result, Target, spread
from request_cost import ceiling_options

_ACCOUNTS = 100
_BODIES = 3_000
_BURST = 100
_REFILL_SECONDS = 1.05
_BURSTS_A_ROUND = 3
_CHANCE = random.Random(3)


def measure_lookup(plan: Plan) -> Iterator[Result]:
    """Alternate bursts; the ratio is how much of the ceiling's cost the server's is."""
    with ExitStack() as stack:
        data, bare = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        project = fill_with_million(data, plan)
        bodies = lookup_bodies(project)
        server = stack.enter_context(started_server(data))
        answer = fetch(server.url, "POST", lookup_path(project), bodies[0], project.header)
        if answer.body.count(b"eip155:") != _ACCOUNTS:
            raise MeasurementError(f"not all were found: {answer.body[:200]!r}")
        options = ceiling_options("POST", "/v1/{id}/subscribers", answer, bare)
        ceiling = stack.enter_context(started_ceiling(bare, *options))
        rounds = alternate(plan, lookups(ceiling, project, bodies, 0.0), lookups(server, project, bodies))
    figures: Figures = {
        "ceiling_us": median(ceiling_us for ceiling_us, _ in rounds),
        "server_us": median(server_us for _, server_us in rounds),
        **spread([ceiling_us / server_us for ceiling_us, server_us in rounds]),
    }
    yield Result("lookup-100", figures, Target("ratio", 0.4, at_least=True))


def alternate(plan: Plan, reference: Bursts, other: Bursts) -> list[tuple[float, float]]:
    """What a request costs on either side, round by round; a round is some bursts in turns."""
    for side in (reference, other):
        side.cpu_us()  # to warm up
    rounds = []
    for _ in range(plan.rounds):
        pairs = [(reference.cpu_us(), other.cpu_us()) for _ in range(_BURSTS_A_ROUND)]
        rounds.append((median(one for one, _ in pairs), median(two for _, two in pairs)))
    return rounds


def lookups(
    process: Running, project: SeededProject, bodies: list[bytes], pause_seconds: float = _REFILL_SECONDS
) -> Bursts:
    """Bursts of these look-ups."""
    path = lookup_path(project)
    requests = [encode(process.url, "POST", path, body, project.header) for body in bodies]
    return Bursts(process, requests, _BURST, pause_seconds)


def lookup_path(project: SeededProject) -> str:
    """Where a project's subscribers are looked up."""
    return f"/v1/{project.project_id}/subscribers"


def lookup_bodies(project: SeededProject) -> list[bytes]:
    """Bodies that ask for accounts from anywhere among the subscribers, as far as they go once each."""
    shuffled = _CHANCE.sample(project.accounts, len(project.accounts))
    starts = range(0, min(len(shuffled), _BODIES * _ACCOUNTS), _ACCOUNTS)
    return [lookup_body(shuffled[start : start + _ACCOUNTS]) for start in starts]
