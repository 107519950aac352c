"""What the figures depend on besides the server."""

import os
import platform
import sqlite3
import time
from importlib.metadata import version
from pathlib import Path
from statistics import median

from cores import describe
from event_loop import LOOP_NAME

_METHOD = """\
Microseconds are CPU time of the whole process per request, by its own clock: firm, while rates and
latencies depend on what else the machine does. A ratio is the ceiling's cost divided by the server's,
in neighbouring rounds; given are the median, the least and the greatest. The ceiling is a bare aiohttp
handler on the same event loop, which reads the body and answers the same bytes with the same content
type. The cost of a write includes its commit and its share of the checkpoint; written_bytes is what the
server sent to the disk for it. Where the server is compared with a bare SQL statement, `times` is its cost
divided by the statement's. Every answer is checked for its status: a wrong one fails the row."""


def header(directory: Path, generator: str) -> str:
    """The machine, the versions, and how it is measured."""
    return f"{machine(directory, generator)}\n\n{_METHOD}"


def machine(directory: Path, generator: str) -> str:
    """The machine and the versions, and what else the machine did."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "aiosqlite", "orjson"))
    return "\n".join(
        [
            f"{platform.system()} {platform.release()}, {os.cpu_count()} x {_processor()}",
            f"Python {platform.python_version()}, {libraries}, event loop {LOOP_NAME}, "
            f"SQLite {sqlite3.sqlite_version}",
            f"{_file_system(directory)} at {directory}: an fsync after 4 KiB takes "
            f"{_fsync_seconds(directory) * 1e6:.0f} us (median of 200)",
            f"load by {generator}; {describe()}; load average before it {os.getloadavg()[0]:.2f}",
        ]
    )


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text("utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.machine()


def _file_system(directory: Path) -> str:
    """The type of the file system that holds the directory: the mount with the longest matching path."""
    mounts = [line.split()[1:3] for line in Path("/proc/self/mounts").read_text("utf-8").splitlines()]
    holding = [(len(path), kind) for path, kind in mounts if directory.resolve().is_relative_to(path)]
    return max(holding)[1]


def _fsync_seconds(directory: Path) -> float:
    file = directory / "bench-fsync.bin"
    took = []
    descriptor = os.open(file, os.O_CREAT | os.O_WRONLY | os.O_APPEND, 0o600)
    try:
        for _ in range(200):
            os.write(descriptor, os.urandom(4096))
            started = time.perf_counter()
            os.fsync(descriptor)
            took.append(time.perf_counter() - started)
    finally:
        os.close(descriptor)
        file.unlink()
    return median(took)
