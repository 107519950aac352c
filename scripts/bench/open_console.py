"""A console that is left open: memory and frames of Chromium at 500 requests a second."""

import asyncio
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from clients import Connection, close_clients, open_clients, run
from console_page import CONSOLE, sign_in_link
from load import Requests
from machine import keep_on_first_core
from plan import Plan
from processes import MeasurementError, Running, started_server
from report import Figures, Row, row
from seed import Population, fill

_CHROMIUM = Path("/usr/bin/chromium-headless-shell")
_SCRIPT = Path(__file__).with_name("open_console.mjs")
_RATE = 500
_CONNECTIONS = 10
_GRACE_SECONDS = 60


class _Poller(Connection):
    """A connection that counts its answers, and those with another status than an empty poll's."""

    asked = 0
    unexpected = 0

    def answered(self, status: int) -> None:
        self.asked += 1
        self.unexpected += status != 204


def measure_open_console(plan: Plan) -> Iterator[Row]:
    """Ten minutes of traffic, 20 seconds when quick, or as long as `--console-seconds` says."""
    if not _CHROMIUM.exists():
        print("console-browser: skipped, for Chromium is missing", file=sys.stderr)
        return
    with ExitStack() as stack:
        folder = stack.enter_context(plan.folder())
        paths = [f"/session/{each}" for each in fill(folder, Population(1_000)).sessions]
        server = stack.enter_context(started_server(folder, CONSOLE))
        keep_on_first_core(server.pid)
        seconds = plan.console_seconds or plan.sized(20, 600)
        figures = run(_left_open(server, folder, Requests(server.url, "GET", paths), seconds))
        yield row("console-browser", figures, "console-browser: the page of traffic is left open")


async def _left_open(server: Running, folder: Path, requests: Requests, seconds: int) -> Figures:
    pollers = [_Poller() for _ in range(_CONNECTIONS)]
    await open_clients(server.url, pollers)
    loop = asyncio.get_running_loop()
    link, page = server.url + sign_in_link(folder), f"{server.url}/console/traffic"
    command = ["node", str(_SCRIPT), link, page, str(seconds)]
    browser = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    printed = asyncio.create_task(browser.communicate())
    started = loop.time()
    try:
        async with asyncio.timeout(seconds + _GRACE_SECONDS):
            await _load(pollers, requests, printed)
    finally:
        if browser.returncode is None:
            browser.terminate()
            await browser.wait()
    elapsed, asked = loop.time() - started, sum(each.asked for each in pollers)
    close_clients(pollers)
    if browser.returncode or any(each.unexpected for each in pollers):
        raise MeasurementError("the browser failed, or an answer had another status")
    return {"seconds": seconds, "rate": asked / elapsed, **json.loads(printed.result()[0])}


async def _load(
    pollers: list[_Poller], requests: Requests, ended: "asyncio.Task[tuple[bytes, bytes]]"
) -> None:
    """One request on each connection in turn, at the rate, until the browser has ended."""
    loop = asyncio.get_running_loop()
    due = loop.time()
    while not ended.done():
        for poller in pollers:
            poller.transport.write(next(requests))
        due = max(due + _CONNECTIONS / _RATE, loop.time() - 1)
        await asyncio.sleep(max(0.0, due - loop.time()))
