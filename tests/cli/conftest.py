"""The command line without whatever settings the machine that runs the tests has."""

import asyncio
import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import structlog
from click.testing import CliRunner, Result

from bridge_server.cli.commands import commands
from bridge_server.cli.process import server_file_at
from bridge_server.kernel.version import VERSION
from bridge_server.settings.sources import LoadedSettings, SettingsError, load_settings
from tests.support.admin_client import ADMIN_TOKEN
from tests.support.clock import ManualClock
from tests.support.engines import engine_environment
from tests.support.server import RunningServer, running_server

Invoke = Callable[..., Result]
SetUp = Callable[..., None]


@pytest.fixture(autouse=True)
def clean_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.upper().startswith("BRIDGE_"):
            monkeypatch.delenv(name)
    for name in ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "STATE_DIRECTORY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "share"))


@pytest.fixture
def invoke() -> Invoke:
    """Runs a command in this process, on the database that servers over its data directory have."""
    runner = CliRunner()

    def run(*arguments: str | Path, stdin: str | bytes = "") -> Result:
        words = list(map(str, arguments))
        folder = words[words.index("--data-dir") + 1] if "--data-dir" in words else None
        database = {} if folder is None else engine_environment(Path(folder))
        return runner.invoke(commands, words, stdin, prog_name="bridge-server", env=database)

    return run


@pytest.fixture
def set_up(monkeypatch: pytest.MonkeyPatch) -> SetUp:
    """Sets settings by variables, to the end of the test."""

    def set_variables(**settings: object) -> None:
        for name, value in settings.items():
            monkeypatch.setenv(f"BRIDGE_{name.upper()}", str(value))

    return set_variables


@dataclass(frozen=True, slots=True)
class Loading:
    """Reads settings as a start does: from a file with this text, variables, and flags."""

    file: Path

    def __call__(
        self, toml: str | None = None, environment: Mapping[str, str] | None = None, /, **flags: Any
    ) -> LoadedSettings:
        if toml is not None:
            self.file.write_text(toml, "utf-8")
        with pytest.MonkeyPatch.context() as patch:
            for name, value in (environment or {}).items():
                patch.setenv(name, value)
            return load_settings(flags, None if toml is None else self.file)

    def fault(
        self, toml: str | None = None, environment: Mapping[str, str] | None = None, /, **flags: Any
    ) -> str:
        """The words about settings that cannot be used."""
        with pytest.raises(SettingsError) as refused:
            self(toml, environment, **flags)
        return str(refused.value)


@pytest.fixture
def load(tmp_path: Path) -> Loading:
    return Loading(tmp_path / "bridge.toml")


# Commands of an operator: on a data directory, or beside a server in the process of the tests.


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
        """The output of a command that must succeed."""
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
    """A server in this process, which goes on while its operator's commands run in a thread."""

    server: RunningServer
    operating: Operating

    async def command(self, *arguments: str | Path) -> Result:
        return await asyncio.to_thread(self.operating, *arguments)

    async def lines(self, *arguments: str | Path) -> list[str]:
        return (await asyncio.to_thread(self.operating.text, *arguments)).splitlines()

    async def json(self, *arguments: str | Path) -> Any:
        return await asyncio.to_thread(self.operating.json, *arguments)

    async def refusal(self, *arguments: str | Path) -> str:
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
