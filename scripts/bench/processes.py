"""The processes under measurement: started on loopback, read from outside, ended by their own pid."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
_START_SECONDS = 20.0
_STOP_SECONDS = 15.0
_IDLE_SHARE = 0.05


class MeasurementError(Exception):
    """Something did not behave so that a figure could be believed."""


@dataclass(frozen=True, slots=True)
class Running:
    """A process that answers, and what the kernel says about it."""

    url: str
    pid: int

    def cpu_ns(self) -> int:
        """CPU time of all its threads, ended ones too.

        The process's own CPU clock, in nanoseconds; /proc/PID/stat has the same in ticks of 10 ms. The
        clock's number is what clock_getcpuclockid(3) would give.
        """
        return time.clock_gettime_ns(~self.pid << 3 | 2)

    def ended_children_cpu_seconds(self) -> float:
        """CPU time, user and system, of the processes that it started and waited for."""
        fields = Path(f"/proc/{self.pid}/stat").read_text("ascii").rpartition(")")[2].split()
        return (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Have it stand still: then it finds all at once that was sent meanwhile, on a busy machine, too."""
        os.kill(self.pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(self.pid, signal.SIGCONT)

    def resident_bytes(self) -> int:
        """Memory that is in RAM (VmRSS)."""
        return _field(f"/proc/{self.pid}/status", "VmRSS:") * 1024

    def forget_peak(self) -> None:
        """Let the peak of its memory count from now on."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5", "ascii")

    def peak_resident_bytes(self) -> int:
        """The most memory that was in RAM (VmHWM)."""
        return _field(f"/proc/{self.pid}/status", "VmHWM:") * 1024

    def written_bytes(self) -> int:
        """Bytes that it caused to be sent to the disk."""
        return _field(f"/proc/{self.pid}/io", "write_bytes:")

    def wait_until_idle(self, limit_seconds: float = 20.0) -> None:
        """Return once it hardly uses the CPU, so that what was begun is over."""
        deadline = time.monotonic() + limit_seconds
        busy = True
        while busy and time.monotonic() < deadline:
            cpu, clock = self.cpu_ns(), time.monotonic_ns()
            time.sleep(0.1)
            busy = self.cpu_ns() - cpu > _IDLE_SHARE * (time.monotonic_ns() - clock)


def _field(file: str, name: str) -> int:
    for line in Path(file).read_text("ascii").splitlines():
        if line.startswith(name):
            return int(line.split()[1])
    raise MeasurementError(f"{file} has no {name}")


def started_server(
    folder: Path, environment: Mapping[str, str] | None = None
) -> AbstractContextManager[Running]:
    """The server with its default settings on the database in `folder`; `environment` for the exceptions."""
    return started(server_command(folder), folder, environment)


def server_command(folder: Path) -> list[str]:
    """The command of that server."""
    return [sys.executable, "-m", "bridge_server", "serve", "--port", "0", "--data-dir", str(folder)]


def started_ceiling(folder: Path, kind: str, **options: object) -> AbstractContextManager[Running]:
    """A bare aiohttp application: a function of bare.py by name, and its arguments."""
    return started(ceiling_command(kind, **options), folder)


def ceiling_command(kind: str, **options: object) -> list[str]:
    """The command of that application."""
    return [sys.executable, str(Path(__file__).with_name("bare.py")), kind, json.dumps(options)]


@contextmanager
def started(
    command: Sequence[str],
    folder: Path,
    environment: Mapping[str, str] | None = None,
    start_seconds: float = _START_SECONDS,
) -> Iterator[Running]:
    """Run `command` with a ready file in `folder` until it answers; end it on leaving."""
    ready, log = folder / "bench-ready.json", folder / "bench-output.txt"
    ready.unlink(missing_ok=True)
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "--ready-file", str(ready)],
            stdout=output,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env=_child_environment(environment or {}),
            cwd=folder,
        )
    try:
        yield _when_ready(process, ready, log, start_seconds)
    finally:
        _end(process)


def _child_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The caller's environment without settings of the server: its defaults are measured.

    Bytecode is kept, as in an installation: else each start would compile the package.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("BRIDGE_") and name != "PYTHONDONTWRITEBYTECODE"
    }
    return {**inherited, "PYTHONPATH": str(REPOSITORY), **extra}


def _when_ready(process: "subprocess.Popen[bytes]", ready: Path, log: Path, start_seconds: float) -> Running:
    deadline = time.monotonic() + start_seconds
    while time.monotonic() < deadline and process.poll() is None:
        try:
            answer = json.loads(ready.read_bytes())
        except (FileNotFoundError, json.JSONDecodeError):
            time.sleep(0.002)
            continue
        return Running(answer["url"].rstrip("/"), process.pid)
    raise MeasurementError(f"it did not start: {log.read_text('utf-8', 'replace')[-2000:]}")


def _end(process: "subprocess.Popen[bytes]") -> None:
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(_STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
