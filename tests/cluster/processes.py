"""Two `serve` processes on one PostgreSQL database, each with a data directory of its own.

`processes_over` starts them; the fixture `pair` keeps two for a module. Each is a `RunningServer` for
the clients of `tests/support`.
"""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias

import aiohttp

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.testing.server import ServerProcess
from bridge_server.settings.settings import Settings
from tests.support.admin_client import AdminClient
from tests.support.asking import Answer
from tests.support.clock import ManualClock
from tests.support.console_client import ConsoleClient
from tests.support.engines import make_rooms
from tests.support.postgres import PostgresServer, connected
from tests.support.server import ForkedServerProcess, RunningServer
from tests.support.socket_client import Identity, IrnClient, irn_connected
from tests.support.waiting import eventually

# Two `serve` processes on one PostgreSQL database, each with a data directory of its own.

UNBOUNDED: dict[str, Any] = {
    "requests_burst": 1_000_000,
    "requests_per_second": 1_000_000,
    "sessions_burst": 1_000_000,
}
"""Settings of servers that a load test may ask for as much as it can."""


@dataclass(frozen=True, slots=True)
class ClusterProcess:
    """One `serve` process, and a client of it."""

    process: ServerProcess
    server: RunningServer

    @property
    def url(self) -> str:
        """Where it answers: the same after a restart."""
        return self.server.url

    @property
    def pid(self) -> int:
        """The process id of its last start."""
        return self.process.process.pid


Pair: TypeAlias = tuple[ClusterProcess, ClusterProcess]


@asynccontextmanager
async def database_of(process: ClusterProcess) -> AsyncIterator[Any]:
    """A connection to the database of the process."""
    assert process.server.settings.database is not None
    async with connected(process.server.settings.database.get_secret_value()) as wire:
        yield wire


async def cluster_url(postgres: PostgresServer, name: str = "cluster") -> str:
    """The URL of the worker's database for processes, empty."""
    return await postgres.database(name, make_rooms)


@asynccontextmanager
async def processes_over(
    url: str,
    folder: Path,
    count: int = 2,
    *,
    own: Sequence[Mapping[str, Any]] = (),
    **settings: Any,
) -> AsyncIterator[list[ClusterProcess]]:
    """So many processes on the database of the URL; `own` has settings by name for each, in order.

    They start one after the other and are stopped at the end, if they run.
    """
    async with AsyncExitStack() as clients:
        with ExitStack() as stack:
            made = []
            for number in range(count):
                chosen = {"database": url, **settings, **(own[number] if number < len(own) else {})}
                data_dir = folder / f"process-{number + 1}"
                process = ForkedServerProcess(data_dir, environment=_environment(chosen))
                stack.callback(process.close)
                await asyncio.to_thread(process.start)
                client = await clients.enter_async_context(
                    aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
                )
                settings_of = Settings(**{**chosen, "data_dir": data_dir})
                clock = ManualClock(SystemClock().now_ms())
                made.append(ClusterProcess(process, RunningServer(process.url, settings_of, clock, client)))
            yield made
            await asyncio.gather(*(asyncio.to_thread(_stopped, each.process) for each in made))


async def answer_of_all(process: ClusterProcess, path: str) -> dict[str, Any]:
    """The answer of the admin API to which every process has contributed, however long a busy one takes."""
    found: dict[str, Any] = {}

    async def is_whole() -> bool:
        found.clear()
        found.update((await AdminClient(process.server).get(path)).json)
        return all(each["fault"] is None for each in found["processes"])

    await eventually(is_whole)
    return found


async def answer_of(process: ClusterProcess, path: str) -> Answer:
    """The answer of the admin API about one process, which may be another, however long a busy one takes."""
    found: list[Answer] = []

    async def is_given() -> bool:
        found[:] = [await AdminClient(process.server).get(path)]
        return found[0].status != HTTPStatus.SERVICE_UNAVAILABLE

    await eventually(is_given)
    return found[0]


async def known_to_each_other(processes: Sequence[ClusterProcess]) -> list[int]:
    """The number of each of the processes, once each of them lists all.

    A process that was slow may have registered anew, so that the first one has not always the lowest number.
    """
    numbers: list[int] = []

    async def know() -> bool:
        answers = [(await AdminClient(each.server).get("/admin/stats")).json for each in processes]
        lists = [[each for each in answer["processes"] if not each["fault"]] for answer in answers]
        numbers[:] = [each["number"] for found in lists for each in found if each["url"] is None]
        return all({each["number"] for each in found} == set(numbers) for found in lists)

    await eventually(know)
    return numbers


async def page_of_all(console: ConsoleClient, path: str) -> str:
    """The page of the console to which every process has contributed."""
    found: list[str] = []

    async def is_whole() -> bool:
        found[:] = [await console.page(path)]
        return "knows is missing" not in found[0]

    await eventually(is_whole)
    return found[0]


def _stopped(process: ServerProcess) -> None:
    if process.is_running:
        process.stop()


def _environment(settings: Mapping[str, Any]) -> dict[str, str]:
    return {f"BRIDGE_{name.upper()}": str(value) for name, value in settings.items()}


# Sockets of generation 2.x to processes, whose clocks are the machine's.


def irn_socket(
    process: ClusterProcess, identity: Identity | None = None
) -> AbstractAsyncContextManager[IrnClient]:
    """A socket of a new client, or of one that is known."""
    who = identity or Identity()
    token = who.token(iat=process.server.clock.now_ms() // 1_000, exp=None)
    return irn_connected(process.server.client, process.url, who, token=token)
