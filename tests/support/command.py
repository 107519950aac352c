"""The command line as its users meet it: in a process of its own, with everything that it wrote. Most
processes are forked; a new interpreter runs for what a shell or another program does, and once for each way
to start.
"""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO, Any

import orjson

from bridge_server.kit.testing.server import environment_without_settings, facts_once_ready
from tests.support.programs import fork_server

COMMAND = (sys.executable, "-m", "bridge_server")
_STOP_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Finished:
    exit_code: int
    out: str
    err: str


def run_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> Finished:
    """Run `python -m bridge_server` with the arguments to its end. It reads from the descriptor `stdin`."""
    with running_command(*arguments, environment=environment, stdin=stdin) as command:
        return command.finished()


@dataclass(frozen=True, slots=True)
class RunningCommand:
    """A command in a process of its own, with the files that it writes to."""

    process: subprocess.Popen[bytes]
    out: IO[bytes]
    err: IO[bytes]

    def said(self) -> str:
        return _text(self.err)

    def finished(self) -> Finished:
        return Finished(self.process.wait(60.0), _text(self.out), _text(self.err))


@contextmanager
def running_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, stdin: int | None = None
) -> Iterator[RunningCommand]:
    """Run `python -m bridge_server` with the arguments until the end of the block."""
    variables = {**environment_without_settings(), **(environment or {})}
    with TemporaryFile() as out, TemporaryFile() as err:
        process = fork_server().start([*map(str, arguments)], variables, err, out, stdin)
        try:
            yield RunningCommand(process, out, err)
        finally:
            process.kill()
            process.wait(_STOP_SECONDS)


def run_new_interpreter(*arguments: str | Path, environment: Mapping[str, str] | None = None) -> Finished:
    """Run `python -m bridge_server` with the arguments to its end, from the first import."""
    completed = subprocess.run(
        [*COMMAND, *map(str, arguments)], env={**environment_without_settings(), **(environment or {})},
        stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8", timeout=60.0, check=False,
    )  # fmt: skip
    return Finished(completed.returncode, completed.stdout, completed.stderr)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


@dataclass(frozen=True, slots=True)
class WatchedServer:
    """A server in a process of its own, with what it has written so far."""

    process: subprocess.Popen[bytes]
    ready_file: Path
    facts: dict[str, Any]
    out_file: Path
    err_file: Path

    @property
    def url(self) -> str:
        return str(self.facts["url"])

    def stop(self, number: int) -> int:
        """Send the signal; returns the exit code. Raises TimeoutExpired when it takes too long."""
        self.process.send_signal(number)
        return self.process.wait(_STOP_SECONDS)

    def log(self) -> list[dict[str, Any]]:
        """The lines on standard error, each of which must be a JSON object."""
        return [orjson.loads(line) for line in self.err_file.read_bytes().splitlines()]

    def said(self) -> list[dict[str, Any]]:
        """The lines of the log without those of the start and the stop."""
        return [line for line in self.log() if line["event"] not in ("server_started", "server_stopped")]


@contextmanager
def watched_server(
    directory: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    terminal: int | None = None,
    open_files: tuple[int, int] | None = None,
    program: str | None = None,
) -> Iterator[WatchedServer]:
    """Run a server, perhaps as that of a `program`, at a `terminal` and with a limit of `open_files`."""
    variables = {**environment_without_settings(), **(environment or {})}
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
        written_to = out if terminal is None else terminal
        process = fork_server().start(
            ["serve", *_options(directory), *arguments], variables, err, written_to, terminal,
            open_files=open_files, program=program,
        )  # fmt: skip
    with _watched(process, directory) as server:
        yield server


@contextmanager
def server_from_shell(
    directory: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    terminal: int | None = None,
    program: Sequence[str | Path] = COMMAND,
) -> Iterator[WatchedServer]:
    """Run a server (or `program`) from a shell, perhaps at a `terminal`, until the end of the block."""
    shell = ["sh", "-c", ':; exec "$@"', "sh"]
    with (directory / "out").open("wb") as out, (directory / "err").open("wb") as err:
        process = subprocess.Popen(
            [*shell, *program, "serve", *_options(directory), *arguments],
            env={**environment_without_settings(), **(environment or {})},
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=out if terminal is None else terminal, stderr=err,
        )  # fmt: skip
    with _watched(process, directory) as server:
        yield server


def _options(directory: Path) -> list[str]:
    """The flags of `serve` that name the places of a server in its directory, and a free port."""
    return ["--port", "0", "--data-dir", f"{directory}/data", "--ready-file", f"{directory}/ready.json"]


@contextmanager
def _watched(process: subprocess.Popen[bytes], directory: Path) -> Iterator[WatchedServer]:
    ready, err = directory / "ready.json", directory / "err"
    try:
        yield WatchedServer(process, ready, facts_once_ready(process, ready, err), directory / "out", err)
    finally:
        process.kill()
        process.wait(_STOP_SECONDS)
