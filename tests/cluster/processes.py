"""Two `serve` processes on one PostgreSQL database, each with a data directory of its own.

`processes_over` starts them; the fixture `pair` keeps two for a module. Each is a `RunningServer` for
the clients of `tests/support`.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack, asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

import aiohttp

from bridge_server.kernel.clock import SystemClock
from bridge_server.kit.testing.server import ServerProcess
from bridge_server.settings.settings import Settings
from tests.support.admin_client import AdminClient
from tests.support.asking import Answer
from tests.support.clock import ManualClock
from tests.support.console_client import ConsoleClient
from tests.support.postgres import connected
from tests.support.server import ForkedServerProcess, RunningServer
from tests.support.socket_client import Identity, IrnClient, irn_connected
from tests.support.waiting import eventually

END_LISTENERS = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity
WHERE datname = current_database() AND application_name LIKE 'bridge-server/% listener'
"""
"""Ends the connections that listen for other processes' events, and returns how many these were."""

UNBOUNDED: dict[str, Any] = {
    "requests_burst": 1_000_000,
    "requests_per_second": 1_000_000,
    "sessions_burst": 1_000_000,
}
"""Settings of servers that a load test may ask for as much as it can."""

T = TypeVar("T")


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


async def until_found(
    wire: Any, expected: Any, sql: str, *parameters: Any, within_seconds: float = 60.0
) -> None:
    """Return once the query finds this value."""

    async def is_found() -> bool:
        return bool(await wire.fetchval(sql, *parameters) == expected)

    await eventually(is_found, within_seconds)


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
                environment = {f"BRIDGE_{name.upper()}": str(value) for name, value in chosen.items()}
                process = ForkedServerProcess(data_dir, environment=environment)
                stack.callback(process.close)
                await asyncio.to_thread(process.start)
                client = await clients.enter_async_context(
                    aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))
                )
                settings_of = Settings(**{**chosen, "data_dir": data_dir})
                clock = ManualClock(SystemClock().now_ms())
                made.append(ClusterProcess(process, RunningServer(process.url, settings_of, clock, client)))
            yield made
            running = [each.process for each in made if each.process.is_running]
            await asyncio.gather(*(asyncio.to_thread(each.stop) for each in running))


async def once(holds: Callable[[T], bool], find: Callable[[], Awaitable[T]]) -> T:
    """The first value of `find` for which `holds` is true, however long a busy process takes."""
    found: list[T] = []

    async def is_found() -> bool:
        found[:] = [await find()]
        return holds(found[0])

    await eventually(is_found)
    return found[0]


async def answer_of_all(process: ClusterProcess, path: str) -> dict[str, Any]:
    """The answer of the admin API to which every process has contributed."""
    answer = await once(
        lambda answer: all(each["fault"] is None for each in answer.json["processes"]),
        lambda: AdminClient(process.server).get(path),
    )
    whole: dict[str, Any] = answer.json
    return whole


async def answer_of(process: ClusterProcess, path: str) -> Answer:
    """The answer of the admin API about one process, which may be another."""
    return await once(
        lambda answer: answer.status != HTTPStatus.SERVICE_UNAVAILABLE,
        lambda: AdminClient(process.server).get(path),
    )


async def page_of_all(console: ConsoleClient, path: str) -> str:
    """The page of the console to which every process has contributed."""
    return await once(lambda page: "knows is missing" not in page, lambda: console.page(path))


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


def irn_socket(
    process: ClusterProcess, identity: Identity | None = None
) -> AbstractAsyncContextManager[IrnClient]:
    """A socket of generation 2.x of a new client, or of one that is known. The clock is the machine's."""
    who = identity or Identity()
    token = who.token(iat=process.server.clock.now_ms() // 1_000, exp=None)
    return irn_connected(process.server.client, process.url, who, token=token)
