"""Five thousand open inboxes: their memory, and how soon a notification to all of them is everywhere.

The time to reach one is from the POST until its event is there, when only one account with a single stream is
sent to, while the others are open; the time to reach the last is from the POST to all 500 accounts, with ten
streams each. The first of those waits for 500 rows and not for one, and 5,000 sockets take their time whoever
writes to them: hence also the first, and a bare handler that writes as many bytes to as many clients.
"""

import gc
import http.client
import socket
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field
from statistics import median

from cores import keep_on_first_core, on_last_core_meanwhile
from load import PLACEHOLDER
from notify_load import notification
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from project_seed import SeededProject, fill_projects, sign_in
from raw_http import address, encode
from report import Result, Target, spread
from seed import database_file
from stream_clients import StreamClients
from waiters import many_descriptors

_ACCOUNTS = 500
_STREAMS_EACH = 10
_STREAMS = _ACCOUNTS * _STREAMS_EACH
_WARM_UP_STREAMS = 200
_SINGLE = 12  # together no more than a project may send at once
_TO_ALL = 5
_PATIENCE_SECONDS = 10.0
_PATH = "/inbox/stream"
_EVENT = f"id: 1234\ndata: {'x' * 360}\n\n"  # as long as the server's


@dataclass(slots=True)
class _Round:
    """What one server has shown; milliseconds since the POST."""

    kib: float = 0.0
    one_ms: list[float] = field(default_factory=list)
    first_ms: list[float] = field(default_factory=list)
    bare_ms: list[float] = field(default_factory=list)
    bare_cpu_ms: list[float] = field(default_factory=list)
    last_ms: list[float] = field(default_factory=list)
    cpu_ms: list[float] = field(default_factory=list)
    missed: int = 0


def measure_streams(plan: Plan) -> list[Result]:
    """A new server each time."""
    rounds = [_round(plan) for _ in range(min(plan.rounds, 3))]
    kib = [one.kib for one in rounds]
    one, first, last, bare = (
        [median(getattr(one_round, name)) for one_round in rounds]
        for name in ("one_ms", "first_ms", "last_ms", "bare_ms")
    )
    return [
        Result(
            f"a stream among {_STREAMS:,}",
            {"kib": median(kib), "least": min(kib), "greatest": max(kib)},
            Target("kib", 40),
        ),
        Result(
            "to reach the last, by one",
            {
                "one_ms": median(one),
                "first_ms": median(first),
                "last_ms": median(last),
                "server_cpu_ms": median(cpu_ms for one_round in rounds for cpu_ms in one_round.cpu_ms),
                **spread([last_ms / one_ms for last_ms, one_ms in zip(last, one, strict=True)]),
            },
            Target("ratio", 5),
        ),
        Result(
            "the last by a bare handler's",
            {
                "bare_last_ms": median(bare),
                "last_ms": median(last),
                "bare_cpu_ms": median(cpu_ms for one_round in rounds for cpu_ms in one_round.bare_cpu_ms),
                **spread([last_ms / bare_ms for last_ms, bare_ms in zip(last, bare, strict=True)]),
            },
        ),
        Result(
            "the last by the first",
            spread([last_ms / first_ms for last_ms, first_ms in zip(last, first, strict=True)]),
        ),
        Result("missed", {"missed": sum(one_round.missed for one_round in rounds)}, Target("missed", 0)),
    ]


def _round(plan: Plan) -> _Round:
    with plan.folder() as folder:
        (project,) = fill_projects(folder, [_ACCOUNTS + 1])
        everybody = list(zip(project.account_numbers, project.accounts, strict=True))
        with closing(sqlite3.connect(database_file(folder), isolation_level=None)) as connection:
            tokens = sign_in(connection, everybody[:_ACCOUNTS] * _STREAMS_EACH)
            (single_token,) = sign_in(connection, everybody[_ACCOUNTS:])
        with started_server(folder) as server:
            keep_on_first_core(server.pid)
            with many_descriptors(), on_last_core_meanwhile():
                measured = _measure(server, project, tokens, single_token)
        with started_ceiling(folder, "--route", _PATH, "--broadcast", _EVENT) as ceiling:
            keep_on_first_core(ceiling.pid)
            with many_descriptors(), on_last_core_meanwhile():
                _measure_bare(ceiling, tokens, measured)
    return measured


def _measure(server: Running, project: SeededProject, tokens: list[str], single_token: str) -> _Round:
    measured = _Round()
    StreamClients(server.url, tokens[:_WARM_UP_STREAMS], _PATIENCE_SECONDS).close()
    server.wait_until_idle()
    before = server.resident_bytes()
    with (
        closing(StreamClients(server.url, tokens, _PATIENCE_SECONDS)) as crowd,
        closing(StreamClients(server.url, [single_token], _PATIENCE_SECONDS)) as single,
    ):
        server.wait_until_idle()
        measured.kib = (server.resident_bytes() - before) / (_STREAMS + 1) / 1024
        gc.freeze()
        backend = _Backend(server, project)
        for _ in range(_SINGLE):
            measured.one_ms += backend.notify(project.accounts[_ACCOUNTS:], single)
        for _ in range(_TO_ALL):
            cpu = server.cpu_ns()
            took = sorted(backend.notify(project.accounts[:_ACCOUNTS], crowd))
            measured.cpu_ms.append((server.cpu_ns() - cpu) / 1e6)
            measured.missed += _STREAMS - len(took)
            measured.first_ms.append(took[0])
            measured.last_ms.append(took[-1])
    return measured


def _measure_bare(ceiling: Running, tokens: list[str], measured: _Round) -> None:
    with closing(StreamClients(ceiling.url, tokens, _PATIENCE_SECONDS)) as crowd:
        for _ in range(_TO_ALL):
            ceiling.wait_until_idle()
            cpu, started = ceiling.cpu_ns(), time.perf_counter()
            with closing(socket.create_connection(address(ceiling.url))) as backend:
                backend.sendall(encode(ceiling.url, "POST", _PATH, b"{}"))
                times = crowd.event_times(_STREAMS)
            measured.bare_ms.append((max(times) - started) * 1e3)
            measured.bare_cpu_ms.append((ceiling.cpu_ns() - cpu) / 1e6)


class _Backend:
    """The app's backend, on a connection that is kept."""

    def __init__(self, server: Running, project: SeededProject) -> None:
        self._connection = http.client.HTTPConnection(*address(server.url), timeout=_PATIENCE_SECONDS)
        self._connection.connect()
        self._path = f"/{project.project_id}/notify"
        name, _, value = project.header.partition(": ")
        self._headers = {name: value, "Content-Type": "application/json"}
        self._server = server
        self._number = 0

    def notify(self, accounts: Sequence[str], clients: StreamClients) -> list[float]:
        """The milliseconds until the event was with each client."""
        self._number += 1
        body = notification(accounts).replace(PLACEHOLDER.encode(), b"%012x" % self._number)
        self._server.wait_until_idle()
        started = time.perf_counter()
        self._connection.request("POST", self._path, body, self._headers)
        times = clients.event_times(len(clients))
        response = self._connection.getresponse()
        answer = response.read()
        if response.status != 200 or b'"failed":[],"not_found":[]' not in answer:
            raise MeasurementError(f"a notification was answered {response.status}: {answer[:200]!r}")
        if not times:
            raise MeasurementError("an event did not come")
        return [(at - started) * 1e3 for at in times]
