"""How soon the server answers, the CPU time until then, and its memory when idle.

`--beside DIRECTORY` measures the package of another checkout in turns with this one.
"""

import time
from collections.abc import Iterator
from pathlib import Path
from statistics import median

from clients import fetch
from plan import Plan
from processes import REPOSITORY, MeasurementError, started_server
from report import Figures, Row, row

_IDLE_SECONDS = 1.0


def measure_start(plan: Plan) -> Iterator[Row]:
    """The medians of a checkout; with another one beside it, both, and the ratios of this one's to those."""
    checkouts = [REPOSITORY, *([plan.beside] if plan.beside else [])]
    for each in checkouts:
        _started(plan, each)  # not counted: the first start of a checkout compiles its modules
    rounds = [[_started(plan, each) for each in checkouts] for _ in range(max(plan.rounds, 5))]
    medians = [
        {name: median(each[name] for each in starts) for name in starts[0]}
        for starts in zip(*rounds, strict=True)
    ]
    yield row("this checkout", medians[0])
    if plan.beside:
        yield row(str(plan.beside), medians[1])
        yield row("this by that", {name: value / medians[1][name] for name, value in medians[0].items()})


def _started(plan: Plan, checkout: Path) -> Figures:
    """From the spawn to the first 200, on an empty directory; then the memory of the idle process."""
    with plan.folder() as folder:
        spawned = time.perf_counter()
        with started_server(folder, {"PYTHONPATH": str(checkout)}) as server:
            if (status := fetch(server.url, "GET", "/livez").status) != 200:
                raise MeasurementError(f"/livez answered {status}")
            seconds = time.perf_counter() - spawned
            cpu_seconds = server.cpu_ns() / 1e9 + server.ended_children_cpu_seconds()
            time.sleep(_IDLE_SECONDS)
            mebibytes = server.resident_bytes() / 2**20
    return {"seconds": seconds, "cpu_seconds": cpu_seconds, "idle_mib": mebibytes}
