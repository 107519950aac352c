"""Commands of an operator: on a data directory, or beside a server in the process of the tests."""

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
class Operating:
    """Runs commands on one data directory, in this process."""

    invoke: Invoke
    data_dir: Path
    command: str = ""
    """The first word of each, if all are of one group."""
    stdin: str | bytes = ""

    def __call__(self, *arguments: str | Path, stdin: str | bytes | None = None) -> Result:
        """Whatever becomes of the command, but for an exception that it does not handle."""
        words = [self.command, *arguments] if self.command else arguments
        given = self.stdin if stdin is None else stdin
        result = self.invoke(*words, "--data-dir", self.data_dir, stdin=given)
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result

    def text(self, *arguments: str | Path, stdin: str | bytes | None = None) -> str:
        """What a command printed that must succeed."""
        result = self(*arguments, stdin=stdin)
        assert (result.exit_code, result.stderr) == (0, ""), result.stderr
        return result.stdout

    def json(self, *arguments: str | Path, stdin: str | bytes | None = None) -> Any:
        """The one JSON document that it printed."""
        (line,) = self.text(*arguments, "--json", stdin=stdin).splitlines()
        return json.loads(line)

    def lines(self, *arguments: str | Path) -> list[Any]:
        """The JSON Lines that it printed."""
        return [json.loads(line) for line in self.text(*arguments).splitlines()]

    def refusal(self, *arguments: str | Path, stdin: str | bytes | None = None) -> str:
        """The one line that a command said that must fail."""
        result = self(*arguments, stdin=stdin)
        assert (result.exit_code, result.stdout) == (2, ""), result.output
        (line,) = result.stderr.splitlines()
        assert line.startswith("bridge-server: ")
        return line.removeprefix("bridge-server: ")


@dataclass(frozen=True, slots=True)
class Attended:
    """A server in this process, which commands find by its data directory, and its operator's commands."""

    server: RunningServer
    operating: Operating

    @property
    def admin(self) -> AdminClient:
        return AdminClient(self.server)

    async def command(self, *arguments: str | Path) -> Result:
        """Run a command to its end while the server goes on."""
        return await asyncio.to_thread(self.operating, *arguments)

    async def lines(self, *arguments: str | Path) -> list[str]:
        """What a command printed that must succeed."""
        return (await asyncio.to_thread(self.operating.text, *arguments)).splitlines()

    async def json(self, *arguments: str | Path) -> Any:
        """The JSON document of a command that must succeed."""
        return await asyncio.to_thread(self.operating.json, *arguments)

    async def refusal(self, *arguments: str | Path) -> str:
        """The one line of a command that must fail."""
        return await asyncio.to_thread(self.operating.refusal, *arguments)


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
            yield Attended(server, Operating(invoke, server.settings.data_dir))


def damaged(file: Path) -> None:
    """Spoil every page of a database but the first."""
    content = bytearray(file.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(content)
