"""All subscribers of a project that has a million, beside a handler that streams the same pieces from memory.

A project may ask for this twice in five minutes: each round has a server of its own, which is asked once for
the figures, and once while /livez is asked a thousand times a second on another connection. A step of the
event loop is no longer than a question waits, nor than the CPU time that the process takes meanwhile, which
excludes what others do on the same cores: the lesser of the two is `step_ms`, the greatest of all.
`waited_ms` is the wait alone; the bare handler's is for comparison.
"""

import json
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median

from cores import keep_on_first_core, on_last_core_meanwhile
from draining import Draining, read_chunks
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from project_seed import MILLION, SeededProject, fill_with_million
from raw_http import address
from report import Figures, Result, Target, percentile, spread
from seed import database_file

_PROBE_SECONDS = 0.001
_USUAL_PROBES = 300
_MEBIBYTE = 2**20


@dataclass(frozen=True, slots=True)
class _Listing:
    """One answer, and what others waited during another one."""

    megabytes_per_second: float
    cpu_ms: float
    added_mib: float
    step_ms: float
    usual_ms: float
    p99_ms: float
    waited_ms: float


def measure_listing(plan: Plan) -> Iterator[Result]:
    """Alternate the bare handler and a new server; the medians of the rounds."""
    with plan.folder() as data, plan.folder() as bare:
        project = fill_with_million(data, plan)
        with started_server(data) as server:
            options = _ceiling_options(server, project, bare)
        with started_ceiling(bare, *options) as ceiling:
            rounds = [
                (_listing(ceiling, project), _listed_by_new_server(data, project)) for _ in range(plan.rounds)
            ]
    ceilings, servers = [one for one, _ in rounds], [other for _, other in rounds]
    yield Result("rate", _rates(ceilings, servers), Target("ratio", 0.5, at_least=True))
    yield Result("added memory", _memory(servers), Target("added_mib", 16))
    yield Result("longest step", _steps(servers), Target("step_ms", 5))
    yield Result("longest step of the bare handler", _steps(ceilings))


def _rates(ceilings: list[_Listing], servers: list[_Listing]) -> Figures:
    return {
        "ceiling_mb_s": median(one.megabytes_per_second for one in ceilings),
        "server_mb_s": median(one.megabytes_per_second for one in servers),
        **spread(
            [
                server.megabytes_per_second / ceiling.megabytes_per_second
                for ceiling, server in zip(ceilings, servers, strict=True)
            ]
        ),
        "ceiling_cpu_ms": median(one.cpu_ms for one in ceilings),
        "server_cpu_ms": median(one.cpu_ms for one in servers),
        "cpu_ratio": median(
            ceiling.cpu_ms / server.cpu_ms for ceiling, server in zip(ceilings, servers, strict=True)
        ),
    }


def _memory(servers: list[_Listing]) -> Figures:
    added = [one.added_mib for one in servers]
    return {"added_mib": median(added), "most_added_mib": max(added)}


def _steps(listings: list[_Listing]) -> Figures:
    return {
        "step_ms": median(one.step_ms for one in listings),
        "greatest_step_ms": max(one.step_ms for one in listings),
        "usual_ms": median(one.usual_ms for one in listings),
        "p99_ms": median(one.p99_ms for one in listings),
        "waited_ms": median(one.waited_ms for one in listings),
        "longest_waited_ms": max(one.waited_ms for one in listings),
    }


def _path(project: SeededProject) -> str:
    return f"/{project.project_id}/subscribers"


def _ceiling_options(server: Running, project: SeededProject, folder: Path) -> list[str]:
    kept, body, lengths = (folder / f"bench-{name}.bin" for name in ("kept", "body", "lengths"))
    Draining(server.url, _path(project), project.header, kept).result()
    chunks = read_chunks(kept)
    body.write_bytes(b"".join(chunks))
    if (listed := len(json.loads(body.read_bytes()))) != MILLION:
        raise MeasurementError(f"{listed} subscribers were listed")
    lengths.write_text(json.dumps([len(chunk) for chunk in chunks]))
    files = ["--body-file", str(body), "--piece-lengths", str(lengths)]
    return ["--route", "/{id}/subscribers", "--content-type", "application/json", *files]


def _listed_by_new_server(folder: Path, project: SeededProject) -> _Listing:
    _forget_limits(folder)
    with started_server(folder) as server:
        return _listing(server, project)


def _forget_limits(folder: Path) -> None:
    connection = sqlite3.connect(database_file(folder), isolation_level=None)
    try:
        connection.execute("DELETE FROM buckets")
    finally:
        connection.close()


def _listing(process: Running, project: SeededProject) -> _Listing:
    keep_on_first_core(process.pid)
    process.forget_peak()
    memory, cpu = process.resident_bytes(), process.cpu_ns()
    drained = Draining(process.url, _path(project), project.header).result()
    cpu_ms, added = (process.cpu_ns() - cpu) / 1e6, process.peak_resident_bytes() - memory
    with on_last_core_meanwhile(), _prober(process) as prober:
        usual = [prober.probe() for _ in range(_USUAL_PROBES)]
        draining, probes = Draining(process.url, _path(project), project.header), []
        while not draining.is_over:
            probes.append(prober.probe())
        draining.result()
    waited = [wait_ms for wait_ms, _ in probes]
    return _Listing(
        megabytes_per_second=drained.bytes / drained.seconds / 1e6,
        cpu_ms=cpu_ms,
        added_mib=added / _MEBIBYTE,
        step_ms=max(step_ms for _, step_ms in probes),
        usual_ms=median(wait_ms for wait_ms, _ in usual),
        p99_ms=percentile(waited, 99),
        waited_ms=max(waited),
    )


class _Prober:
    """Asks /livez a thousand times a second."""

    def __init__(self, process: Running, connection: HTTPConnection) -> None:
        self._process, self._connection = process, connection
        self._next_at = 0.0

    def probe(self) -> tuple[float, float]:
        """Milliseconds until the answer; and what no step of the event loop was longer than meanwhile."""
        time.sleep(max(0.0, self._next_at - time.perf_counter()))
        cpu, started = self._process.cpu_ns(), time.perf_counter()
        self._connection.request("GET", "/livez")
        self._connection.getresponse().read()
        waited_ms = (time.perf_counter() - started) * 1e3
        self._next_at = started + _PROBE_SECONDS
        return waited_ms, min(waited_ms, (self._process.cpu_ns() - cpu) / 1e6)


@contextmanager
def _prober(process: Running) -> Iterator[_Prober]:
    connection = HTTPConnection(*address(process.url), timeout=10)
    try:
        yield _Prober(process, connection)
    finally:
        connection.close()
