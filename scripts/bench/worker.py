"""Work that is measured without a server: a script of this folder that is told, line by line, how much to do.

It answers with a line of JSON: what that cost by its own clock. Some have a line to say before that.
"""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from processes import MeasurementError, child_environment

_FOLDER = Path(__file__).parent
_STOP_SECONDS = 10.0


class Worker:
    """The script, from outside."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process

    def cpu_us_each(self, count: int, checkpoint_every: int) -> float:
        """Let it do `count` pieces of work; returns the CPU time of one in microseconds."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{count} {checkpoint_every}\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self.read_line())
        return float(answer["cpu_us"])

    def read_line(self) -> str:
        """The next line that the script writes."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise MeasurementError("the worker ended")
        return line.rstrip("\n")


@contextmanager
def started_worker(script: str, *arguments: str, interpreter: str = sys.executable) -> Iterator[Worker]:
    """Run a script of this folder; end it on leaving."""
    process = subprocess.Popen(
        [interpreter, str(_FOLDER / script), *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=child_environment(),
    )
    try:
        yield Worker(process)
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def serve(work: Callable[[int, int], None]) -> None:
    """The script's side: do what the lines ask for, and say what one piece of it cost."""
    for line in sys.stdin:
        count, checkpoint_every = (int(word) for word in line.split())
        started = time.process_time_ns()
        work(count, checkpoint_every)
        print(json.dumps({"cpu_us": (time.process_time_ns() - started) / 1e3 / count}), flush=True)
