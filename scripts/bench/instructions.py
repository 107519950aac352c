"""Instructions per request, counted by callgrind: steady to 1 to 3 percent, whatever else the machine does.

Counted are those that the whole process executes in user mode, all threads together, while 64 connections
in lock step send 1,024 requests: each sends its next request when all have been answered. Starting the
process and warming it up are not counted.

`bare` is an aiohttp handler with the same answer, `floor` the smallest durable program (floor.py). `real` is
the server to a client like any other, far from its limits; `exempt` to one that has none, as on the server's
own machine.
"""

import re
import shutil
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path
from typing import Self

from clients import Answer, address, fetch
from irn_sockets import PAIRS, EchoPairs, IrnPairs
from load import CONNECTIONS, Requests
from plan import Plan
from processes import MeasurementError, Running, ceiling_command, server_command, started
from report import Figures, Row, row
from requests_cost import CALL_BODY, LIMITED, SIGN_BODY, STATUS_BODY, WALLET, answer_options
from seed import Population, Seeded, database_file, fill
from watched import WATCHED

REQUESTS = 1_024
_WARM_UP = 2 * CONNECTIONS
_FIRST_OF_FIVE = 3
"""Of five reads of the rows that begin with `first`, so many are of a session that was not read before."""
_REPEATED = 128
_START_SECONDS = 300.0  # a process under valgrind is fifty times slower
_ANSWER_SECONDS = 120.0

# Under valgrind every write takes longer than a second: its line in the log would be counted.
_PATIENT = {"BRIDGE_SLOW_REQUEST_SECONDS": "600"}
_REAL = {
    **_PATIENT,
    **LIMITED,
    "BRIDGE_SESSIONS_PER_MINUTE": "1000000",
    "BRIDGE_SESSIONS_BURST": "1000000",
    "BRIDGE_MESSAGES_PER_SECOND": "1000000",
    "BRIDGE_MESSAGES_BURST": "1000000",
}
_POPULATION = Population(8_000, calls_per_session=1)
_PAYLOADS = (
    "UPDATE sessions SET payload = (SELECT payload FROM calls WHERE session = sessions.id) WHERE id > ?"
)
_TOTAL = re.compile(r"^totals: (\d+)", re.MULTILINE)
_END_OF_HEAD = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Counted:
    """One kind of request: its path with {id} where an id goes, and how its ids are chosen."""

    name: str
    method: str
    route: str
    ids: str = "repeated"
    body: bytes | None = None
    status: int = 200
    sides: Sequence[str] = ("bare", "floor", "real", "exempt")

    @property
    def label(self) -> str:
        """The request as the documentation names it."""
        return f"{self.name}: `{self.method} {self.route}`"

    @property
    def is_message(self) -> bool:
        """Whether it is a message over WebSockets."""
        return self.method == "WS"


ROWS = (
    Counted("get-204", "GET", "/session/{id}", "empty", status=204),
    Counted("get-200", "GET", "/session/{id}", "full"),
    Counted("first-get-204", "GET", "/session/{id}", "first empty", status=204),
    Counted("first-get-200", "GET", "/session/{id}", "first full"),
    Counted("session-new", "POST", "/session/new", ""),
    Counted("session-put", "PUT", "/session/{id}", "spare", STATUS_BODY),
    Counted("call-new", "POST", "/session/{id}/call/new", "spare", CALL_BODY),
    Counted("status-post", "POST", "/call-status/{id}/new", "calls", STATUS_BODY),
    Counted("watched-get-204", "GET", "/session/{id}", "empty", status=204, sides=("bare", "watched")),
    Counted("sign-message", "POST", "/rpc", "", SIGN_BODY, sides=("bare", "floor", "wallet")),
    Counted("irn-message", "WS", "/", sides=("bare", "real", "exempt")),
)

_SERVERS: Mapping[str, Mapping[str, str]] = {
    "real": _REAL,
    "exempt": _PATIENT,
    "watched": {**_REAL, **WATCHED},
    "wallet": {**_REAL, **WALLET},
}


@dataclass(slots=True)
class _Ids:
    """Ids of a database that was filled for one process; each part is used for one purpose."""

    seeded: Seeded
    parts: dict[str, Iterator[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        half = len(self.seeded.sessions) // 2
        empty, full = iter(self.seeded.sessions[:half]), iter(self.seeded.sessions[half:])
        self.parts = {
            "": cycle([""]),
            "empty": cycle(list(islice(empty, _REPEATED))),
            "full": cycle(list(islice(full, _REPEATED))),
            "spare": iter(list(islice(empty, 2 * (REQUESTS + _WARM_UP + 1)))),
            "calls": iter(self.seeded.calls),
        }
        for kind, fresh in (("empty", empty), ("full", full)):
            self.parts[f"first {kind}"] = _mixed(fresh, self.parts[kind])

    def take(self, part: str, count: int) -> list[str]:
        """The next ids of a part. Raises MeasurementError if there are too few."""
        taken = list(islice(self.parts[part], count))
        if len(taken) < count:
            raise MeasurementError(f"too few ids: {part}")
        return taken


def _mixed(fresh: Iterator[str], known: Iterator[str]) -> Iterator[str]:
    """Three ids that were not used before, then two that were, until there are no more."""
    for first in fresh:
        yield first
        yield from islice(fresh, _FIRST_OF_FIVE - 1)
        yield from islice(known, 5 - _FIRST_OF_FIVE)


@dataclass(slots=True)
class _Process:
    """A process under valgrind, the ids in its database, and the file that its counts go into."""

    running: Running
    ids: _Ids
    counts: Path

    def count(self, counted: Counted) -> float:
        """Thousands of instructions per request."""
        if counted.is_message:
            return self.count_messages(IrnPairs)
        with _Lockstep(self.running) as clients:
            clients.ask(self._requests(counted, _WARM_UP), _WARM_UP, counted.status)
            requests = self._requests(counted, REQUESTS)
            self._control("--instr=on")
            clients.ask(requests, REQUESTS, counted.status)
            self._control("--instr=off")
        self._control("--dump")
        return self._counted() / REQUESTS / 1_000

    def count_messages(self, kind: type[IrnPairs] | type[EchoPairs]) -> float:
        """Thousands of instructions per message of generation 2.x, or per two echoes.

        Most messages are acknowledged before they would be stored, as between clients that are both there.
        """
        with closing(kind(self.running.url, self.running.stopped)) as pairs:
            for _ in range(_WARM_UP // PAIRS):
                pairs.exchange()
            self._control("--instr=on")
            for _ in range(REQUESTS // PAIRS):
                pairs.exchange()
            self._control("--instr=off")
        self._control("--dump")
        return self._counted() / REQUESTS / 1_000

    def answer(self, counted: Counted) -> Answer:
        """The answer to one request."""
        (each,) = self.ids.take(counted.ids, 1)
        return fetch(self.running.url, counted.method, counted.route.replace("{id}", each), counted.body)

    def _requests(self, counted: Counted, count: int) -> Requests:
        ids = self.ids.take(counted.ids, count)
        paths = [counted.route.replace("{id}", each) for each in ids]
        return Requests(self.running.url, counted.method, paths, [counted.body])

    def _control(self, option: str) -> None:
        command = ["callgrind_control", option, str(self.running.pid)]
        done = subprocess.run(command, capture_output=True, encoding="utf-8", check=False)
        if done.returncode or "OK" not in done.stdout:
            raise MeasurementError(f"callgrind_control {option}: {done.stdout or done.stderr}")

    def _counted(self) -> int:
        """The instructions of the last dump, which is taken away."""
        for file in self.counts.parent.glob(f"{self.counts.name}*"):
            found = _TOTAL.search(file.read_text("utf-8", "replace"))
            file.unlink()
            if found and int(found[1]):
                return int(found[1])
        raise MeasurementError("callgrind has counted nothing")


class _Lockstep:
    """Connections of which each sends its next request when all have been answered."""

    def __init__(self, process: Running) -> None:
        host_and_port = address(process.url)
        self._process = process
        self._sockets = [socket.create_connection(host_and_port, _ANSWER_SECONDS) for _ in range(CONNECTIONS)]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in self._sockets:
            each.close()

    def ask(self, requests: Requests, count: int, status: int) -> None:
        """Send so many requests. Raises MeasurementError for an answer of another status."""
        for _ in range(count // CONNECTIONS):
            with self._process.stopped():
                for each in self._sockets:
                    each.sendall(next(requests))
            for each in self._sockets:
                received = _answer(each)
                if int(received[9:12]) != status:
                    raise MeasurementError(f"an unexpected answer: {received[:500]!r}")


def _answer(connection: socket.socket) -> bytes:
    received, whole = b"", sys.maxsize
    while len(received) < whole:
        more = connection.recv(65_536)
        if not more:
            raise MeasurementError("the process has closed a connection")
        received += more
        end = received.find(_END_OF_HEAD)
        if end >= 0:
            length = _LENGTH.search(received, 0, end)
            whole = end + len(_END_OF_HEAD) + (int(length[1]) if length else 0)
    return received


def measure_instructions(plan: Plan) -> Iterator[Row]:
    """Every row: the server to different clients, the floor, and a bare handler for each row."""
    for program in ("valgrind", "callgrind_control"):
        if shutil.which(program) is None:
            raise MeasurementError(f"there is no {program}: `scripts/system-packages`, as root, installs it")
    rows = [each for each in ROWS if plan.rows is None or each.name in plan.rows]
    figures: dict[str, dict[str, float]] = {each.name: {} for each in rows}
    answers: dict[str, Answer] = {}
    for side in (*_SERVERS, "floor"):
        wanted = [each for each in rows if side in each.sides]
        if not wanted:
            continue
        with _started(plan, side) as process:
            for each in wanted:
                figures[each.name][side] = process.count(each)
                if each.name not in answers and not each.is_message:
                    answers[each.name] = process.answer(each)
    for each in rows:
        if each.is_message:
            with _started_echo(plan) as process:
                figures[each.name]["bare"] = process.count_messages(EchoPairs)
        else:
            with _started_bare(plan, each, answers[each.name]) as process:
                figures[each.name]["bare"] = process.count(each)
        yield row(each.name, _with_ratios(each, figures[each.name]), each.label)


def _with_ratios(counted: Counted, figures: Mapping[str, float]) -> Figures:
    server = next(side for side in counted.sides if side in _SERVERS)
    counts = {f"{side}_thousand": figures[side] for side in counted.sides}
    ratios = {f"of_{side}": figures[side] / figures[server] for side in ("bare", "floor") if side in figures}
    return {**counts, **ratios}


@contextmanager
def _started(plan: Plan, side: str) -> Iterator[_Process]:
    """The server or the floor, on a database of its own."""
    with plan.folder() as folder:
        seeded = fill(folder, _POPULATION)
        with closing(sqlite3.connect(database_file(folder))) as connection, connection:
            connection.execute(_PAYLOADS, (_POPULATION.sessions // 2,))
        floor = [sys.executable, str(Path(__file__).with_name("floor.py")), str(database_file(folder))]
        command = floor if side == "floor" else server_command(folder)
        with _under_valgrind(command, folder, _SERVERS.get(side, {})) as (running, counts):
            yield _Process(running, _Ids(seeded), counts)


@contextmanager
def _started_bare(plan: Plan, counted: Counted, answer: Answer) -> Iterator[_Process]:
    """A handler that gives the server's answer to this row every time."""
    ids = [f"0192f7c8-0000-7000-8000-{number:012x}" for number in range(_POPULATION.sessions)]
    with plan.folder() as folder:
        command = ceiling_command("answer", **answer_options(folder, counted.method, counted.route, answer))
        with _under_valgrind(command, folder, {}) as (running, counts):
            yield _Process(running, _Ids(Seeded(ids, ids)), counts)


@contextmanager
def _started_echo(plan: Plan) -> Iterator[_Process]:
    """A handler that sends back the frames of WebSockets."""
    with (
        plan.folder() as folder,
        _under_valgrind(ceiling_command("echo", route="/"), folder, {}) as (running, counts),
    ):
        yield _Process(running, _Ids(Seeded([], [])), counts)


@contextmanager
def _under_valgrind(
    command: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> Iterator[tuple[Running, Path]]:
    """A process that answers, and the file for its counts, which are switched off."""
    counts = folder / "bench-callgrind.out"
    valgrind = ["valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={counts}"]
    # Sets and dictionaries of texts lie in memory in the same order each time.
    environment = {**environment, "PYTHONHASHSEED": "0"}
    with started([*valgrind, *command], folder, environment, start_seconds=_START_SECONDS) as running:
        yield running, counts
