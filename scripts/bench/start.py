"""How soon the server answers, and its memory when idle."""

import time
from collections.abc import Iterator
from statistics import median

from clients import fetch
from plan import Plan
from processes import MeasurementError, started_server
from report import Row, row

_IDLE_SECONDS = 1.0


def measure_start(plan: Plan) -> Iterator[Row]:
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
    yield row("seconds to the first answer", {"seconds": median(seconds)})
    yield row("MiB while idle", {"mib": median(mebibytes)})
