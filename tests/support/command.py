"""The command line as its users meet it: in a process of its own, with everything that it wrote."""

import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.testing.server_process import environment_without_settings, facts_once_ready

COMMAND = (sys.executable, "-m", "bridge_server")
_STOP_SECONDS = 10.0


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended."""

    exit_code: int
    out: str
    err: str


def run_command(
    *arguments: str | Path, environment: Mapping[str, str] | None = None, within_seconds: float = 20.0
) -> Finished:
    """Run `python -m bridge_server` with the arguments to its end."""
    completed = subprocess.run(
        [*COMMAND, *map(str, arguments)],
        env={**environment_without_settings(), **(environment or {})},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        encoding="utf-8",
        timeout=within_seconds,
        check=False,
    )
    return Finished(completed.returncode, completed.stdout, completed.stderr)


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
        """Where it answers."""
        url: str = self.facts["url"]
        return url

    def stop(self, number: int) -> int:
        """Send the signal; returns the exit code. Raises TimeoutExpired when it takes too long."""
        self.process.send_signal(number)
        return self.process.wait(_STOP_SECONDS)

    def log(self) -> list[dict[str, Any]]:
        """The lines on standard error, each of which must be a JSON object."""
        return [orjson.loads(line) for line in self.err_file.read_bytes().splitlines()]

    def said(self) -> list[dict[str, Any]]:
        """The lines of the log without those of the start and the stop."""
        usual = ("server_started", "server_stopped")
        return [line for line in self.log() if line["event"] not in usual]


@contextmanager
def watched_server(
    directory: Path,
    *arguments: str,
    environment: Mapping[str, str] | None = None,
    limits: str = "",
    command: Sequence[str] = ("serve",),
    terminal: int | None = None,
    program: Sequence[str | Path] = COMMAND,
) -> Iterator[WatchedServer]:
    """Run a server over `directory/data` on a free port until the end of the block.

    `limits` is shell that runs before it, such as `ulimit -n 100`; `terminal` is the descriptor of one that
    it reads from and writes to. `program` may be another that runs it.
    """
    ready_file, out_file, err_file = directory / "ready.json", directory / "out", directory / "err"
    options = ["--port", "0", "--data-dir", str(directory / "data"), "--ready-file", str(ready_file)]
    shell = ["sh", "-c", f'{limits or ":"}; exec "$@"', "sh"]
    with out_file.open("wb") as out, err_file.open("wb") as err:
        process = subprocess.Popen(
            [*shell, *program, *command, *options, *arguments],
            env={**environment_without_settings(), **(environment or {})},
            stdin=subprocess.DEVNULL if terminal is None else terminal,
            stdout=out if terminal is None else terminal,
            stderr=err,
        )
    try:
        facts = facts_once_ready(process, ready_file, err_file)
        yield WatchedServer(process, ready_file, facts, out_file, err_file)
    finally:
        process.kill()
        process.wait(_STOP_SECONDS)
