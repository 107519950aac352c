"""The load: as many requests as 64 connections carry; what each costs the server; and the measuring loop."""

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from statistics import median

from clients import PLACEHOLDER, Connection, close_clients, encode_after_path, open_clients, run
from machine import keep_on_first_core, on_core
from processes import MeasurementError, Running
from report import Figures, percentile

CONNECTIONS = 64
_GRACE_SECONDS = 10
# A write is paid in full only once its log is checkpointed, which the server does every second.
_SETTLE_SECONDS = 1.3


class Requests:
    """Requests without an end. Paths, bodies and header fields are each taken in turn.

    Every body differs in the placeholder's place, if it has one.
    """

    def __init__(
        self,
        url: str,
        method: str,
        paths: Sequence[str],
        bodies: Sequence[bytes | None] = (None,),
        headers: Sequence[str | None] = (None,),
    ) -> None:
        self._numbers = count()
        self._starts = [f"{method} {path}".encode("ascii") for path in paths]
        self._rests = []
        for index in range(max(len(bodies), len(headers))):
            body, header = bodies[index % len(bodies)], headers[index % len(headers)]
            self._rests.append(encode_after_path(url, method, body, header).partition(PLACEHOLDER))

    def __next__(self) -> bytes:
        number = next(self._numbers)
        before, marker, after = self._rests[number % len(self._rests)]
        start = self._starts[number % len(self._starts)]
        return b"%b%b%012x%b" % (start, before, number, after) if marker else start + before


class _Tally:
    """Requests that are left to send, and the latencies of those that were answered."""

    def __init__(self, requests: Requests, expected: int, limit: float, seconds: float) -> None:
        self.requests, self.expected = requests, expected
        self.left = limit
        self.started = time.perf_counter()
        self.deadline = self.started + seconds
        self.latencies: list[float] = []
        self.unexpected = 0


class _Loader(Connection):
    """Sends the next request as soon as the last was answered, until there is nothing left to ask."""

    def __init__(self, tally: _Tally) -> None:
        self._tally = tally
        self._sent_at = 0.0
        self.done: asyncio.Future[bool] = asyncio.get_running_loop().create_future()

    def send(self) -> None:
        """Send the next request, if there is one."""
        tally, self._sent_at = self._tally, time.perf_counter()
        if tally.left > 0 and self._sent_at < tally.deadline:
            tally.left -= 1
            self.transport.write(next(tally.requests))
        elif not self.done.done():
            self.done.set_result(True)

    def answered(self, status: int) -> None:
        self._tally.latencies.append(time.perf_counter() - self._sent_at)
        self._tally.unexpected += status != self._tally.expected
        self.send()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.done.set_result(False)


@dataclass(slots=True)
class Side:
    """A process under load. Every round goes on with the requests after the last one's.

    A round lasts some seconds, or is a burst of so many requests and then a pause, for an endpoint with a
    limit. After writes the round is over when the log has been checkpointed.
    """

    process: Running
    requests: Requests
    seconds: float
    status: int = 200
    writes: bool = False
    burst: float = float("inf")
    pause_seconds: float = 0.0
    not_before: float = 0.0
    asked: int = 0

    def measure(self) -> Figures:
        """One round, and what it has written behind itself."""
        keep_on_first_core(self.process.pid)
        time.sleep(max(0.0, self.not_before - time.monotonic()))
        try:
            with on_core(-1):
                return run(self._round())
        finally:
            self.not_before = time.monotonic() + self.pause_seconds

    async def _round(self) -> Figures:
        process, tally = self.process, _Tally(self.requests, self.status, self.burst, self.seconds)
        loaders = [_Loader(tally) for _ in range(CONNECTIONS)]
        await open_clients(process.url, loaders)
        cpu, written = process.cpu_ns(), process.written_bytes()
        tally.started = time.perf_counter()
        tally.deadline = tally.started + self.seconds
        for loader in loaders:
            loader.send()
        ended, waiting = await asyncio.wait(
            [loader.done for loader in loaders], timeout=self.seconds + _GRACE_SECONDS
        )
        elapsed, asked = time.perf_counter() - tally.started, len(tally.latencies)
        broken = len(waiting) + sum(not each.result() for each in ended)
        if tally.unexpected or broken or not asked:
            raise MeasurementError(
                f"of {asked} answers {tally.unexpected} had another status, {broken} failed"
            )
        await asyncio.sleep(_SETTLE_SECONDS if self.writes else 0.02)
        cpu, written = process.cpu_ns() - cpu, process.written_bytes() - written
        close_clients(loaders)
        latencies_ms = [latency * 1e3 for latency in tally.latencies]
        figures = {
            "us": cpu / 1e3 / asked,
            "rate": asked / elapsed,
            "p50_ms": percentile(latencies_ms, 50),
            "p99_ms": percentile(latencies_ms, 99),
        }
        self.asked = asked
        return {**figures, "written_bytes": written / asked} if self.writes else figures


def in_turns(rounds: int, by: str = "us", **sides: Callable[[], Figures]) -> Figures:
    """Measure two sides in turns, after a turn of each that does not count.

    The medians of the rounds' figures, under the names of the sides; and the ratio of the first side's figure
    `by` to the second's in the same round: its median, least and greatest.
    """
    for measure in sides.values():
        measure()
    seen = [{name: measure() for name, measure in sides.items()} for _ in range(rounds)]
    first, second = sides
    ratios = [one[first][by] / one[second][by] for one in seen]
    figures = {
        f"{name}_{figure}": median(one[name][figure] for one in seen)
        for figure in dict.fromkeys([by, *seen[0][second], *seen[0][first]])
        for name in sides
        if figure in seen[0][name]
    }
    return {**figures, "ratio": median(ratios), "ratio_min": min(ratios), "ratio_max": max(ratios)}
