"""A poll while the console's page of traffic is open: the list's stream of server-sent events is read."""

import re
import subprocess
import sys
import threading
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from dataclasses import replace
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from pathlib import Path

from load import Requests, Side, in_turns
from plan import Plan
from processes import MeasurementError, started_server
from report import Row, row
from seed import Population, fill

CONSOLE = {"BRIDGE_CONSOLE": "on"}
_CHUNK_BYTES = 65_536
_SECONDS = 60


def measure_console(plan: Plan) -> Iterator[Row]:
    """A server without a console, and one whose page of traffic is open."""
    with ExitStack() as stack:
        folder, watched_folder = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        seeded, watched_seeded = (fill(each, Population(1_000)) for each in (folder, watched_folder))
        server = stack.enter_context(started_server(folder))
        watched = stack.enter_context(started_server(watched_folder, CONSOLE))
        stack.enter_context(_opened_page(watched.url, watched_folder))
        paths, watched_paths = (
            [f"/session/{each}" for each in ids.sessions] for ids in (seeded, watched_seeded)
        )
        unwatched = Side(server, Requests(server.url, "GET", paths), plan.seconds, 204)
        requests = Requests(watched.url, "GET", watched_paths)
        other = replace(unwatched, process=watched, requests=requests)
        figures = in_turns(plan.rounds, unwatched=unwatched.measure, watched=other.measure)
        yield row("console", figures, "console: `GET /session/{id}` while the page of traffic is open")


def _opened_page(url: str, folder: Path) -> HTTPResponse:
    """The stream of the page's rows, which is read beside until the server ends it."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    browser.open(url + sign_in_link(folder), timeout=_SECONDS).close()
    stream: HTTPResponse = browser.open(f"{url}/console/traffic/stream", timeout=_SECONDS)
    threading.Thread(target=_read, args=(stream,), daemon=True).start()
    return stream


def sign_in_link(folder: Path) -> str:
    """The path of a sign-in link, as the operator's command prints it."""
    command = [sys.executable, "-m", "bridge_server", "console", "--data-dir", str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    found = re.search(r"/console/sign-in\?link=[\w-]+", printed.stdout)
    if found is None:
        raise MeasurementError(f"no sign-in link was printed: {printed.stdout}{printed.stderr}")
    return found[0]


def _read(stream: HTTPResponse) -> None:
    with suppress(OSError, ValueError, AttributeError):  # it is closed while it is read
        while stream.read1(_CHUNK_BYTES):
            pass
