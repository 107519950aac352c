"""A server in a process of its own, which a test kills and starts again."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from time import monotonic, sleep
from typing import IO, Any

_START_SECONDS = 60.0
_STOP_SECONDS = 60.0
_LOOK_EVERY_SECONDS = 0.01
_LAST_BYTES = 64 * 1024
_OF_SYSTEMD = ("CREDENTIALS_DIRECTORY", "NOTIFY_SOCKET", "STATE_DIRECTORY")


class ServerStartError(Exception):
    """The server ended before it answered, or did not answer in time. The text has the end of its log."""


class ServerProcess:
    """`bridge-server serve` over `data_dir`, at first on a free port.

    `arguments` follow the command's own. The process inherits the environment of this one without the
    settings of a server in it, and with the variables in `environment`.
    """

    def __init__(self, data_dir: Path, *arguments: str, environment: Mapping[str, str] | None = None) -> None:
        self.data_dir = data_dir
        self.facts: dict[str, Any] = {}
        self._arguments: Sequence[str] = arguments
        self.environment = {**environment_without_settings(), **(environment or {})}
        self._ready_file = data_dir.parent / f"{data_dir.name}.ready"
        self._log_file = data_dir.parent / f"{data_dir.name}.log"
        self._process: subprocess.Popen[bytes] | None = None
        self._port = 0

    @property
    def url(self) -> str:
        """The URL of the server."""
        url: str = self.facts["url"]
        return url

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The process that was started last."""
        assert self._process is not None, "start it first"
        return self._process

    @property
    def is_running(self) -> bool:
        """Whether the process has been started and has not ended."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """The last of what every start has written to standard error."""
        return _end_of(self._log_file)

    def start(self) -> None:
        """Start it, and return once it answers. Raises ServerStartError."""
        self._ready_file.unlink(missing_ok=True)
        places = ["--data-dir", str(self.data_dir), "--ready-file", str(self._ready_file)]
        with self._log_file.open("ab") as log:
            self._process = self.launch(["serve", "--port", str(self._port), *places, *self._arguments], log)
        try:
            self.facts = facts_once_ready(self._process, self._ready_file, self._log_file)
        except BaseException:
            self.kill()
            raise
        self._port = int(self.url.rpartition(":")[2])

    def launch(self, arguments: Sequence[str], log: IO[bytes]) -> subprocess.Popen[bytes]:
        """A process that runs `bridge-server` with the arguments and writes its log to `log`."""
        return subprocess.Popen(  # noqa: S603 - the command is this program's own
            [sys.executable, "-m", "bridge_server", *arguments],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=log,
        )

    def kill(self) -> None:
        """End it with SIGKILL, as a crash does."""
        self.process.kill()
        self.process.wait(_STOP_SECONDS)

    def stop(self) -> int:
        """End it with SIGTERM; returns the exit code."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(_STOP_SECONDS)

    def restart(self) -> None:
        """Stop it if it runs, and start it again at the same URL. Raises ServerStartError."""
        if self.is_running:
            self.stop()
        self.start()

    def close(self) -> None:
        """End it if it runs."""
        if self.is_running:
            self.kill()


def facts_once_ready(process: subprocess.Popen[bytes], ready_file: Path, log_file: Path) -> dict[str, Any]:
    """The content of the ready file, once the server has written it. Raises ServerStartError."""
    deadline = monotonic() + _START_SECONDS
    while not ready_file.exists():
        if process.poll() is not None:
            raise ServerStartError(f"it ended with exit code {process.returncode}: {_end_of(log_file)}")
        if monotonic() > deadline:
            raise ServerStartError(f"it was not ready within {_START_SECONDS:.0f} s: {_end_of(log_file)}")
        sleep(_LOOK_EVERY_SECONDS)
    facts: dict[str, Any] = json.loads(ready_file.read_bytes())
    return facts


def _end_of(log_file: Path) -> str:
    with log_file.open("rb") as stream:
        stream.seek(max(0, log_file.stat().st_size - _LAST_BYTES))
        return stream.read().decode(errors="replace")


def environment_without_settings() -> dict[str, str]:
    """The environment of this process without a server's settings, which the machine may have."""
    return {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BRIDGE_") and name not in _OF_SYSTEMD
    }
