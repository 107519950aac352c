"""A server to talk to: in this process with a clock to move, or in one of its own that can be killed."""

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from time import time_ns
from typing import IO, Any

import aiohttp

from bridge_server.kit.fixtures.run import serving
from bridge_server.kit.testing.server import ServerProcess
from bridge_server.settings.settings import Settings
from tests.support.clock import ManualClock
from tests.support.command import WatchedServer
from tests.support.engines import (
    Rows,
    database_kept,
    database_of,
    engine_environment,
    engine_settings,
    settings_over,
)
from tests.support.programs import ForkedProcess, fork_server, free_ports


@dataclass(frozen=True, slots=True)
class RunningServer:
    """A real server on a real port with a real database file, in this process."""

    url: str
    settings: Settings
    clock: ManualClock
    client: aiohttp.ClientSession
    test_token: str | None = None

    def rows(self, sql: str, *parameters: Any) -> Rows:
        """Rows of the server's database, as another program reads them."""
        with database_of(self.settings) as database:
            return database.execute(sql, parameters)

    def change(self, sql: str, *parameters: Any) -> int:
        """Change the server's database as another program; returns how many rows it was."""
        with database_of(self.settings) as database:
            return database.changed(sql, parameters)

    async def reset(self) -> None:
        """Set the clock of a server in test mode to the moment of its start, and empty it."""
        self.clock.restart()
        headers = {"Authorization": f"Bearer {self.test_token}"}
        async with self.client.post(f"{self.url}/_test/reset", headers=headers) as response:
            assert response.status == 200, await response.text()

    async def open_session(self) -> str:
        async with self.client.post(f"{self.url}/session/new") as response:
            return str((await response.json())["sessionId"])

    async def request_call(self, session_id: str, payload: Any = "call", dapp_name: str = "Dapp") -> str:
        body = {"encryptionPayload": payload, "dappName": dapp_name}
        async with self.client.post(f"{self.url}/session/{session_id}/call/new", json=body) as response:
            assert response.status == 200, await response.text()
            return str((await response.json())["callId"])


def _client() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))


@asynccontextmanager
async def running_server(
    data_dir: Path, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[RunningServer]:
    """Start a server over `data_dir`; settings by name. Stops it as a SIGTERM would."""
    chosen = Settings(**{"port": 0, "data_dir": data_dir, **engine_settings(data_dir), **settings})
    clock = clock or ManualClock()
    with database_kept(data_dir):
        async with serving(chosen, clock) as served, _client() as client:
            yield RunningServer(served.url, chosen, clock, client, served.built.test_token)
    await asyncio.sleep(0)


class ForkedServerProcess(ServerProcess):
    """A server process that starts with the program's modules loaded, on a port that it can come back to."""

    def __init__(self, data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        super().__init__(data_dir, *arguments, environment=environment)
        (self._port,) = free_ports(1)

    def launch(self, arguments: Sequence[str], log: IO[bytes]) -> ForkedProcess:
        return fork_server().start(arguments, self.environment, log)


@contextmanager
def server_process(
    data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None
) -> Iterator[ServerProcess]:
    """Run `python -m bridge_server serve` over `data_dir` on a free port until the end of the block."""
    variables = {**engine_environment(data_dir), **(environment or {})}
    server = ForkedServerProcess(data_dir, *arguments, environment=variables)
    with database_kept(data_dir):
        server.start()
        try:
            yield server
        finally:
            server.close()


@asynccontextmanager
async def reached(process: ServerProcess | WatchedServer) -> AsyncIterator[RunningServer]:
    """A server in a process of its own, with a clock that stands at the machine's time of this call."""
    if isinstance(process, ServerProcess):
        settings = settings_over(process.data_dir)
    else:
        settings = Settings(data_dir=Path(process.facts["database"]).parent)
    clock = ManualClock(time_ns() // 1_000_000)
    async with _client() as client:
        yield RunningServer(process.url, settings, clock, client)
