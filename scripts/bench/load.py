"""Load: as many requests as the connections carry, by wrk when it is installed, else by client.py."""

import json
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from cores import on_last_core
from processes import MeasurementError

CONNECTIONS = 64
PLACEHOLDER = "@" * 12
_GRACE_SECONDS = 30
_FOLDER = Path(__file__).parent


@dataclass(frozen=True, slots=True)
class Load:
    """Which requests: paths, bodies and header fields are a line each, taken in turn.

    Every body differs in the placeholder's place, if it has one.
    """

    method: str
    paths_file: Path
    body_file: Path | None
    expected_status: int
    headers_file: Path | None = None
    connections: int = CONNECTIONS

    def arguments(self, first: int) -> list[str]:
        """What both generators take: the requests from the `first` on."""
        files = [self.paths_file, self.body_file, self.headers_file]
        return [self.method, str(self.expected_status), *(str(file or "-") for file in files), str(first)]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What the generator saw. Every answer had the expected status, or there would be none."""

    requests: int
    seconds: float
    p50_ms: float
    p99_ms: float


class Generator(Protocol):
    """Something that sends a load, from a process of its own."""

    name: str

    def run(self, url: str, load: Load, seconds: int, first: int) -> Outcome:
        """Send requests for that long. Raises MeasurementError when an answer was not the expected one."""
        ...


class Wrk:
    """wrk, one thread, with a script that varies paths and bodies and checks every status."""

    name = "wrk"

    def run(self, url: str, load: Load, seconds: int, first: int) -> Outcome:
        options = ["-t1", f"-c{load.connections}", f"-d{seconds}s", "--timeout", "10s"]
        script = str(_FOLDER / "load.lua")
        return _run(["wrk", *options, "-s", script, url, "--", *load.arguments(first)], seconds)


class BuiltIn:
    """The client of this folder: slower than wrk, but good for the CPU time of what it asks."""

    name = "built-in client"

    def run(self, url: str, load: Load, seconds: int, first: int) -> Outcome:
        options = [sys.executable, str(_FOLDER / "client.py"), url, str(load.connections), str(seconds)]
        return _run([*options, *load.arguments(first)], seconds)


def choose_generator(built_in: bool) -> Generator:
    """wrk, unless it is missing or the other is wanted."""
    return BuiltIn() if built_in or shutil.which("wrk") is None else Wrk()


def _run(command: list[str], seconds: int) -> Outcome:
    finished = subprocess.run(
        on_last_core(command), capture_output=True, text=True, timeout=seconds + _GRACE_SECONDS, check=False
    )
    lines = finished.stdout.splitlines()
    if finished.returncode or not lines or not lines[-1].startswith("{"):
        raise MeasurementError(f"the load generator failed: {finished.stdout[-500:]}{finished.stderr[-500:]}")
    seen: dict[str, Any] = json.loads(lines[-1])
    unexpected, broken = seen.pop("unexpected"), seen.pop("broken")
    if unexpected or broken or not seen["requests"]:
        raise MeasurementError(
            f"of {seen['requests']} answers {unexpected} had another status, and {broken} failed"
        )
    return Outcome(**seen)
