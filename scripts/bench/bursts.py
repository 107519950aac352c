"""Requests in bursts, for an endpoint with a limit: as many at once as it allows, then a pause.

The CPU time is that of the bursts alone, so what the process does in the pauses counts for nothing. The
requests of a burst come on 64 connections, each of which sends its next one when it was answered, from this
process; it is on the core that the load generator has otherwise.
"""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence

from cores import keep_on_first_core, on_last_core_meanwhile
from load import CONNECTIONS
from processes import MeasurementError, Running
from raw_http import Asker
from waiters import close_clients, open_clients, run


class Bursts:
    """A process that is asked in bursts; every burst goes on with the requests after the last one's."""

    def __init__(self, process: Running, requests: Sequence[bytes], size: int, pause_seconds: float) -> None:
        self._process = process
        self._requests = itertools.cycle(requests)
        self._size, self._pause_seconds = size, pause_seconds
        self._not_before = 0.0
        keep_on_first_core(process.pid)

    def cpu_us(self) -> float:
        """CPU time per request of the next burst, once the pause after the last one is over."""
        time.sleep(max(0.0, self._not_before - time.monotonic()))
        with on_last_core_meanwhile():
            cost = run(self._burst())
        self._not_before = time.monotonic() + self._pause_seconds
        return cost

    async def _burst(self) -> float:
        askers = [Asker() for _ in range(min(CONNECTIONS, self._size))]
        await open_clients(self._process.url, askers)
        await asyncio.sleep(0.02)
        requests = iter(list(itertools.islice(self._requests, self._size)))
        cpu = self._process.cpu_ns()
        await asyncio.gather(*(_ask_in_turn(asker, requests) for asker in askers))
        cost = (self._process.cpu_ns() - cpu) / 1e3 / self._size
        close_clients(askers)
        return cost


async def _ask_in_turn(asker: Asker, requests: Iterator[bytes]) -> None:
    for request in requests:
        if (status := await asker.ask(request)) != 200:
            raise MeasurementError(f"a request of a burst was answered {status}")
