"""How soon a new server answers, and what it holds while nobody asks."""

import time
from statistics import median

from plan import Plan
from processes import MeasurementError, started_server
from raw_http import fetch
from report import Result, Target

_IDLE_SECONDS = 1.0


def measure_start(plan: Plan) -> list[Result]:
    """From the spawn to the first 200, on an empty directory; then the memory of the idle process."""
    seconds, mebibytes = [], []
    for _ in range(max(plan.rounds, 5)):
        with plan.folder() as folder:
            spawned = time.perf_counter()
            with started_server(folder) as server:
                if (status := fetch(server.url, "GET", "/livez").status) != 200:
                    raise MeasurementError(f"/livez answered {status}")
                seconds.append(time.perf_counter() - spawned)
                time.sleep(_IDLE_SECONDS)
                mebibytes.append(server.resident_bytes() / 2**20)
    start = {"median": median(seconds), "least": min(seconds), "greatest": max(seconds)}
    memory = {"median": median(mebibytes), "least": min(mebibytes), "greatest": max(mebibytes)}
    return [
        Result("seconds to the first answer", {**start}, Target("median", 0.4)),
        Result("MiB while idle", {**memory}, Target("median", 60)),
    ]
