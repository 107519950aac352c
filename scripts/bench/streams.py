"""Five thousand open inboxes: their memory, and how soon a notification to all 500 accounts is everywhere.

Five thousand sockets take their time with any server: hence a bare handler beside it that writes as
many bytes to as many clients.
"""

import asyncio
import time
from collections.abc import Iterator, Sequence
from functools import partial
from itertools import count
from statistics import median

from clients import PLACEHOLDER, Asker, close_clients, encode, open_askers, open_clients, run
from load import in_turns
from machine import keep_on_first_core, on_core
from plan import Plan
from processes import MeasurementError, Running, started_ceiling, started_server
from report import Figures, Row, row
from seed_projects import fill_projects, sign_in

_ACCOUNTS = 500
_STREAMS_EACH = 10
_WARM_UP_STREAMS = 200
_TO_ALL = 5
_PATIENCE_SECONDS = 10.0
_PATH = "/inbox/stream"
_EVENT = f"id: 1234\ndata: {'x' * 360}\n\n"  # as long as the server's


class _Stream(Asker):
    """An open inbox. `came` has the time of each event, which is short enough to come in one piece."""

    def __init__(self, url: str, token: str) -> None:
        self._request = encode(url, "GET", _PATH, header=f"Authorization: Bearer {token}")
        self.is_open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.came: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if b"retry:" in data and not self.is_open.done():
            self.is_open.set_result(None)
        if b"data:" in data and not self.came.done():
            self.came.set_result(time.perf_counter())


def measure_streams(plan: Plan) -> Iterator[Row]:
    """Alternate a new server and a new bare handler."""
    sides = {"server": partial(_served, plan), "bare": partial(_bare, plan)}
    figures = in_turns(plan.few_rounds, "last_ms", **sides)
    yield row(f"{_ACCOUNTS * _STREAMS_EACH:,} streams", figures)


def _bare(plan: Plan) -> Figures:
    with plan.folder() as folder, started_ceiling(folder, "broadcast", route=_PATH, event=_EVENT) as ceiling:
        posts = iter(lambda: encode(ceiling.url, "POST", _PATH, b"{}"), None)
        return _measured(ceiling, ["any"] * _ACCOUNTS * _STREAMS_EACH, posts)


def _served(plan: Plan) -> Figures:
    with plan.folder() as folder:
        (project,) = fill_projects(folder, [_ACCOUNTS])
        tokens = sign_in(folder, [*project.subscribers] * _STREAMS_EACH)
        with started_server(folder) as server:
            path, body = f"/{project.project_id}/notify", project.notification()
            posts = (
                encode(server.url, "POST", path, body.replace(PLACEHOLDER, b"%012x" % number), project.header)
                for number in count()
            )
            return _measured(server, tokens, posts)


def _measured(process: Running, tokens: Sequence[str], posts: Iterator[bytes]) -> Figures:
    keep_on_first_core(process.pid)
    with on_core(-1):
        return run(_round(process, tokens, posts))


async def _round(process: Running, tokens: Sequence[str], posts: Iterator[bytes]) -> Figures:
    close_clients(await _opened(process.url, tokens[:_WARM_UP_STREAMS]))
    await asyncio.to_thread(process.wait_until_idle)
    before = process.resident_bytes()
    streams = await _opened(process.url, tokens)
    await asyncio.to_thread(process.wait_until_idle)
    kib = (process.resident_bytes() - before) / len(tokens) / 1024
    (backend,) = await open_askers(process.url, 1)
    last_ms, cpu_ms = [], []
    for _ in range(_TO_ALL):
        await asyncio.to_thread(process.wait_until_idle)
        cpu, started = process.cpu_ns(), time.perf_counter()
        status = await backend.ask(next(posts))
        came, lost = await asyncio.wait([each.came for each in streams], timeout=_PATIENCE_SECONDS)
        if status != 200 or lost:
            raise MeasurementError(f"a notification was answered {status}, {len(lost)} streams got nothing")
        cpu_ms.append((process.cpu_ns() - cpu) / 1e6)
        last_ms.append((max(each.result() for each in came) - started) * 1e3)
        for stream in streams:
            stream.came = asyncio.get_running_loop().create_future()
    close_clients([*streams, backend])
    return {"kib": kib, "last_ms": median(last_ms), "cpu_ms": median(cpu_ms)}


async def _opened(url: str, tokens: Sequence[str]) -> list[_Stream]:
    streams = [_Stream(url, token) for token in tokens]
    await open_clients(url, streams)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        await asyncio.gather(*(stream.is_open for stream in streams))
    return streams
