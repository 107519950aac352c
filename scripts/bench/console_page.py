"""A poll while the console's page of traffic is open: the list's stream of server-sent events is read."""

import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from http.client import HTTPResponse
from http.cookiejar import CookieJar
from pathlib import Path

from plan import Plan
from processes import MeasurementError
from report import Row, row
from watched import beside_watched, read_beside

CONSOLE = {"BRIDGE_CONSOLE": "on"}
_SECONDS = 60


def measure_console(plan: Plan) -> Iterator[Row]:
    """A server without a console, and one whose page of traffic is open."""
    label = "console: `GET /session/{id}` while the page of traffic is open"
    yield row("console", beside_watched(plan, CONSOLE, _opened_page), label)


def _opened_page(url: str, folder: Path) -> HTTPResponse:
    """The stream of the page's rows, which is read beside until the server ends it."""
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    browser.open(url + sign_in_link(folder), timeout=_SECONDS).close()
    stream: HTTPResponse = browser.open(f"{url}/console/traffic/stream", timeout=_SECONDS)
    return read_beside(stream)


def sign_in_link(folder: Path) -> str:
    """The path of a sign-in link, as the operator's command prints it."""
    command = [sys.executable, "-m", "bridge_server", "console", "--data-dir", str(folder)]
    printed = subprocess.run(command, capture_output=True, text=True, timeout=_SECONDS, check=False)
    found = re.search(r"/console/sign-in\?link=[\w-]+", printed.stdout)
    if found is None:
        raise MeasurementError(f"no sign-in link was printed: {printed.stdout}{printed.stderr}")
    return found[0]
