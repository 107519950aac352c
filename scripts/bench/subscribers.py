"""All subscribers of a project that has a million, beside a handler that streams the same bytes from memory.

A project may ask for this twice in five minutes: each round has a server of its own.
"""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from http import HTTPStatus
from pathlib import Path

import orjson
from clients import fetch
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, row
from seed import database_file
from seed_projects import MILLION, SeededProject, fill_with_million

_PIECE_BYTES = 65_536


def measure_listing(plan: Plan) -> Iterator[Row]:
    """Alternate a new server and the bare handler."""
    with plan.folder() as data, plan.folder() as bare:
        project = fill_with_million(data, plan)
        body_file = bare / "bench-listing.json"
        with started_server(data) as server:
            body_file.write_bytes(fetch(server.url, "GET", _path(project), header=project.header).body)
        if (listed := len(orjson.loads(body_file.read_bytes()))) != MILLION:
            raise MeasurementError(f"{listed} subscribers were listed")
        options = {"route": _path(project), "body_file": str(body_file), "piece_bytes": _PIECE_BYTES}
        with started_ceiling(bare, "stream", **options) as ceiling:
            figures = in_turns(
                plan.rounds,
                "cpu_ms",
                server=lambda: _listed_by_new_server(data, project),
                ceiling=lambda: _listing(ceiling, project),
            )
    yield row("listing-million", figures)


def _path(project: SeededProject) -> str:
    return f"/{project.project_id}/subscribers"


def _listed_by_new_server(folder: Path, project: SeededProject) -> Figures:
    with closing(sqlite3.connect(database_file(folder), isolation_level=None)) as connection:
        connection.execute("DELETE FROM buckets")
    with started_server(folder) as server:
        return _listing(server, project)


def _listing(process: Running, project: SeededProject) -> Figures:
    keep_on_first_core(process.pid)
    process.forget_peak()
    memory, cpu, started = process.resident_bytes(), process.cpu_ns(), time.perf_counter()
    with on_core(-1):
        listed = fetch(process.url, "GET", _path(project), header=project.header)
    if listed.status != HTTPStatus.OK:
        raise MeasurementError(f"the listing was answered {listed.status}")
    return {
        "mb_s": len(listed.body) / (time.perf_counter() - started) / 1e6,
        "cpu_ms": (process.cpu_ns() - cpu) / 1e6,
        "added_mib": (process.peak_resident_bytes() - memory) / 2**20,
    }
