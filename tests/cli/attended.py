"""A server in the process of the tests, which commands find by its data directory as they find any other."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import structlog
from click.testing import Result

from bridge_server.cli.process import server_file_at
from bridge_server.kernel.version import VERSION
from tests.cli.conftest import Invoke
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.clock import ManualClock
from tests.support.server import RunningServer, running_server


@dataclass(frozen=True, slots=True)
class Attended:
    """The server, and the commands of its operator."""

    server: RunningServer
    invoke: Invoke

    @property
    def admin(self) -> AdminClient:
        return AdminClient(self.server)

    async def command(self, *arguments: str | Path) -> Result:
        """Run a command to its end while the server goes on."""
        options = [*arguments, "--data-dir", self.server.settings.data_dir]
        result = await asyncio.to_thread(self.invoke, *options)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    async def lines(self, *arguments: str | Path) -> list[str]:
        """What a command printed that must succeed."""
        result = await self.command(*arguments)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout.splitlines()

    async def json(self, *arguments: str | Path) -> Any:
        """The JSON document of a command that must succeed."""
        [line] = await self.lines(*arguments, "--json")
        return json.loads(line)

    async def refusal(self, *arguments: str | Path) -> str:
        """The one line of a command that must fail."""
        result = await self.command(*arguments)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        [line] = result.stderr.splitlines()
        return line.removeprefix("bridge-server: ")


@asynccontextmanager
async def attended_server(
    data_dir: Path, invoke: Invoke, clock: ManualClock | None = None, **settings: Any
) -> AsyncIterator[Attended]:
    """Run a server with an admin API, unless the settings say otherwise."""
    structlog.configure(logger_factory=structlog.ReturnLoggerFactory())  # a command's output is its own
    chosen = {"admin_token": ADMIN_TOKEN, **settings}
    async with running_server(data_dir, clock, **chosen) as server:
        facts = {"url": server.url, "version": VERSION}
        with server_file_at(server.settings.server_file, facts):
            yield Attended(server, invoke)
