"""The built-in load generator, for machines without wrk; it prints what load.lua prints.

URL CONNECTIONS SECONDS METHOD EXPECTED_STATUS PATHS_FILE BODIES_FILE|- HEADERS_FILE|- FIRST
"""

import asyncio
import gc
import json
import sys
import time
from itertools import count
from pathlib import Path

from event_loop import new_event_loop
from load import PLACEHOLDER
from raw_http import Connection, address, encode


class Requests:
    """The requests in order, encoded beforehand but for the number in the body."""

    def __init__(
        self, url: str, method: str, paths_file: str, bodies_file: str, headers_file: str, first: str
    ) -> None:
        self._numbers = count(int(first))
        lines = [_read_lines(file) for file in (paths_file, bodies_file, headers_file)]
        self._texts = []
        for index in range(max(map(len, lines))):
            path, body, header = (_in_turn(some, index) for some in lines)
            assert path is not None
            whole = encode(url, method, path, body.encode() if body else None, header)
            self._texts.append(whole.partition(PLACEHOLDER.encode()))

    def next(self) -> bytes:
        """The next request."""
        number = next(self._numbers)
        before, marker, after = self._texts[number % len(self._texts)]
        return b"%b%012x%b" % (before, number, after) if marker else before


def _read_lines(file: str) -> list[str]:
    return [] if file == "-" else Path(file).read_text("utf-8").splitlines()


def _in_turn(lines: list[str], index: int) -> str | None:
    return lines[index % len(lines)] if lines else None


class Tally:
    """What was answered, and until when."""

    def __init__(self, expected: int, deadline: float) -> None:
        self.expected = expected
        self.deadline = deadline
        self.latencies: list[float] = []
        self.unexpected = 0
        self.broken = 0


class LoadConnection(Connection):
    """Sends the next request as soon as the last was answered, until the deadline."""

    def __init__(self, requests: Requests, tally: Tally) -> None:
        super().__init__()
        self._requests, self._tally = requests, tally
        self._sent_at = 0.0
        self.done = asyncio.get_running_loop().create_future()

    def start(self) -> None:
        """Send the first request."""
        self._sent_at = time.perf_counter()
        self.transport.write(self._requests.next())

    def answered(self, status: int) -> None:
        now = time.perf_counter()
        self._tally.latencies.append(now - self._sent_at)
        self._tally.unexpected += status != self._tally.expected
        if now < self._tally.deadline:
            self._sent_at = now
            self.transport.write(self._requests.next())
        elif not self.done.done():
            self.done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self._tally.broken += 1
            self.done.set_result(None)


async def run(
    url: str, connections: str, seconds: str, method: str, expected: str, *which: str
) -> dict[str, float]:
    """Send the load; return the figures of load.lua."""
    requests = Requests(url, method, *which)
    loop = asyncio.get_running_loop()
    tally = Tally(int(expected), 0.0)
    opened = [
        (await loop.create_connection(lambda: LoadConnection(requests, tally), *address(url)))[1]
        for _ in range(int(connections))
    ]
    started = time.perf_counter()
    tally.deadline = started + int(seconds)
    for connection in opened:
        connection.start()
    _, unfinished = await asyncio.wait([connection.done for connection in opened], timeout=int(seconds) + 10)
    elapsed = time.perf_counter() - started
    latencies = sorted(tally.latencies) or [0.0]
    return {
        "requests": len(tally.latencies),
        "seconds": elapsed,
        "p50_ms": latencies[len(latencies) // 2] * 1e3,
        "p99_ms": latencies[len(latencies) * 99 // 100] * 1e3,
        "unexpected": tally.unexpected,
        "broken": tally.broken + len(unfinished),
    }


if __name__ == "__main__":
    gc.disable()
    with asyncio.Runner(loop_factory=new_event_loop) as runner:
        print(json.dumps(runner.run(run(*sys.argv[1:]))))
