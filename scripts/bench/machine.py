"""The surroundings that figures depend on: the machine, its cores, the event loop.

Left alone, the kernel lets the load share the event loop's core in some rounds and not in others, and a
request costs a third less when it does. So event loops, the server's like the ceiling's, are kept on the
first core and the load on the last. All other threads go where they like.
"""

import asyncio
import os
import platform
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from statistics import median

try:
    import uvloop
except ImportError:
    LOOP_NAME = "asyncio"
    new_event_loop = asyncio.new_event_loop
else:
    LOOP_NAME = f"uvloop {version('uvloop')}"
    new_event_loop = uvloop.new_event_loop

_CORES = sorted(os.sched_getaffinity(0))
METHOD = """\
Microseconds are CPU time of the whole process per request, by its own clock: firm, while rates and
latencies depend on what else the machine does. A ratio is the ceiling's cost divided by the server's,
in neighbouring rounds; given are the median, the least and the greatest. The ceiling is a bare aiohttp
handler on the same event loop, which reads the body and answers the same bytes with the same content
type. The cost of a write includes its commit and its share of the checkpoint; written_bytes is what the
server sent to the disk for it. Where the server is compared with a bare SQL statement, `times` is its cost
divided by the statement's. Every answer is checked for its status: a wrong one fails the row."""


def keep_on_first_core(pid: int) -> None:
    """Keep the main thread of a process, which runs its event loop, on the first core; 0 is this one."""
    os.sched_setaffinity(pid, _CORES[:1])


@contextmanager
def on_core(index: int) -> Iterator[None]:
    """Run this thread on a core meanwhile: 0 is the first, -1 the last."""
    os.sched_setaffinity(0, {_CORES[index]})
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CORES)


def describe(directory: Path) -> str:
    """The machine and the versions, and what else the machine did."""
    libraries = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "aiosqlite", "orjson"))
    return "\n".join(
        [
            f"{platform.system()} {platform.release()}, {os.cpu_count()} x {_processor()}",
            f"Python {platform.python_version()}, {libraries}, event loop {LOOP_NAME}, "
            f"SQLite {sqlite3.sqlite_version}",
            f"{_file_system(directory)} at {directory}: an fsync after 4 KiB takes "
            f"{_fsync_seconds(directory) * 1e6:.0f} us (median of 200)",
            f"event loops on core {_CORES[0]}, load from core {_CORES[-1]}; "
            f"load average before it {os.getloadavg()[0]:.2f}",
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
    file, took = directory / "bench-fsync.bin", []
    with file.open("wb", buffering=0) as opened:
        for _ in range(200):
            opened.write(os.urandom(4096))
            started = time.perf_counter()
            os.fsync(opened.fileno())
            took.append(time.perf_counter() - started)
    file.unlink()
    return median(took)
