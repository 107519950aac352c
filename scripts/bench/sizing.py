"""What a number of clients takes: memory of the server's process, CPU time, and disk.

The figures of docs/operate.md: how large a machine has to be. Two idle cores take less than two minutes.
"""

import asyncio
import re
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from http import HTTPStatus
from pathlib import Path

from clients import Asker, close_clients, encode, fetch, open_askers, run, wait_for_status
from plan import Plan
from processes import MeasurementError, Running, started_server
from report import Figures, Row, row
from seed import Population, database_file, fill
from seed_projects import fill_projects

PAGE = Path(__file__).resolve().parents[2] / "docs" / "operate.md"
HEADING = "### Measured sizes"
_MIB = 2**20
_ASKERS = 32
_BUSY_SECONDS = 5.0
_PARKED_SECONDS = 3.0
_CALL = b'{"encryptionPayload":"' + b"a" * 1024 + b'","dappName":"Example Dapp"}'


def measure_sizing(plan: Plan) -> Iterator[Row]:
    """One server for each row, on a database of its own."""
    yield row("idle, empty", _idle(plan, Population(1)))
    for sessions in (10_000, plan.sized(20_000, 100_000)):
        name = f"{sessions:,} sessions with a call"
        yield row(name, _idle(plan, Population(sessions, session_payload=True, calls_per_session=1)))
    for waiting in (1_000, plan.sized(2_000, 10_000)):
        yield row(f"{waiting:,} waiting polls", _waiting(plan, waiting))
    subscribers = plan.sized(10_000, 100_000)
    yield row(f"{subscribers:,} subscribers, listed", _listed(plan, subscribers))
    for rate in (100, 500):
        yield row(f"{rate:,} polls a second", _asked(plan, rate, _poll))
        yield row(f"{rate:,} new calls a second", _asked(plan, rate, _new_call))


def write_page(measured_on: str, table: str) -> None:
    """Put the table on the page, below its heading."""
    page = PAGE.read_text("utf-8")
    end = re.compile(r"^##+ |\Z", re.MULTILINE)
    start = page.index(f"{HEADING}\n") + len(HEADING) + 1
    match = end.search(page, start)
    assert match is not None
    rest = page[match.start() :]
    measured_on = re.sub(r" at /\S+:", ":", measured_on)  # the folder of the measurement is gone
    text = f"{page[:start]}\n```\n{measured_on}\n```\n\n{table}\n"
    PAGE.write_text(f"{text}\n{rest}" if rest else text, "utf-8")


def _figures(folder: Path, server: Running, cpu_percent: float) -> Figures:
    file = database_file(folder)
    on_disk = sum(each.stat().st_size for each in file.parent.glob(f"{file.name}*"))
    return {
        "memory_mib": server.resident_bytes() / _MIB,
        "cpu_percent": cpu_percent,
        "disk_mib": on_disk / _MIB,
    }


def _idle(plan: Plan, population: Population) -> Figures:
    """A server that has answered once, on a database with these rows."""
    with plan.folder() as folder:
        fill(folder, population)
        with started_server(folder) as server:
            if fetch(server.url, "GET", "/readyz").status != HTTPStatus.OK:
                raise MeasurementError("the server is not ready")
            return _figures(folder, server, _busy_percent(server, lambda: time.sleep(1)))


def _busy_percent(server: Running, meanwhile: Callable[[], object]) -> float:
    """The share of one core that the server takes."""
    cpu, clock = server.cpu_ns(), time.monotonic_ns()
    meanwhile()
    return 100 * (server.cpu_ns() - cpu) / (time.monotonic_ns() - clock)


def _waiting(plan: Plan, count: int) -> Figures:
    """So many dapps that wait for a call's status."""
    with plan.folder() as folder:
        calls = fill(folder, Population(1_000, calls_per_session=count // 1_000)).calls
        with started_server(folder) as server:
            return run(_parked(folder, server, calls))


async def _parked(folder: Path, server: Running, calls: Sequence[str]) -> Figures:
    dapps = await open_askers(server.url, len(calls))
    waits = [
        asyncio.create_task(wait_for_status(dapp, server.url, call))
        for dapp, call in zip(dapps, calls, strict=True)
    ]
    await asyncio.to_thread(server.wait_until_idle)
    cpu = await asyncio.to_thread(_busy_percent, server, partial(time.sleep, _PARKED_SECONDS))
    figures = _figures(folder, server, cpu)
    lost = sum(each.done() for each in waits)
    close_clients(dapps)
    await asyncio.gather(*waits, return_exceptions=True)
    if lost:
        raise MeasurementError(f"{lost} polls did not wait")
    return figures


def _listed(plan: Plan, count: int) -> Figures:
    """A project with so many subscribers, whose list was asked for once."""
    with plan.folder() as folder:
        (project,) = fill_projects(folder, [count])
        with started_server(folder) as server:
            path = f"/{project.project_id}/subscribers"
            cpu = _busy_percent(server, partial(fetch, server.url, "GET", path, None, project.header))
            return _figures(folder, server, cpu)


Ask = Callable[[str, str], bytes]


def _poll(url: str, session: str) -> bytes:
    return encode(url, "GET", f"/session/{session}")


def _new_call(url: str, session: str) -> bytes:
    return encode(url, "POST", f"/session/{session}/call/new", _CALL)


def _asked(plan: Plan, rate: int, ask: Ask) -> Figures:
    """Requests at a steady rate, by clients that take turns."""
    with plan.folder() as folder:
        sessions = fill(folder, Population(1_000)).sessions
        with started_server(folder) as server:
            return run(_steadily(folder, server, [ask(server.url, each) for each in sessions], rate))


async def _steadily(folder: Path, server: Running, requests: Sequence[bytes], rate: int) -> Figures:
    askers = await open_askers(server.url, _ASKERS)
    cpu, started = server.cpu_ns(), time.monotonic_ns()
    sent = await asyncio.gather(
        *(_one_client(asker, requests[number::_ASKERS], rate) for number, asker in enumerate(askers))
    )
    seconds = (time.monotonic_ns() - started) / 1e9
    percent = (server.cpu_ns() - cpu) / 1e7 / seconds
    close_clients(askers)
    if sum(sent) < 0.8 * rate * seconds:
        raise MeasurementError(f"only {sum(sent) / seconds:.0f} requests a second were answered")
    return {**_figures(folder, server, percent), "requests_per_second": sum(sent) / seconds}


async def _one_client(asker: Asker, requests: Sequence[bytes], rate: int) -> int:
    """Ask every so often until the time is over; how many answers came."""
    pause, sent = _ASKERS / rate, 0
    started = time.monotonic()
    while (now := time.monotonic() - started) < _BUSY_SECONDS:
        status = await asker.ask(requests[sent % len(requests)])
        if status not in (HTTPStatus.OK, HTTPStatus.NO_CONTENT):
            raise MeasurementError(f"a request was answered {status}")
        sent += 1
        await asyncio.sleep(max(0.0, sent * pause - now))
    return sent
