"""A poll while an operator looks: the admin API is on, requests are recorded, and their stream is open."""

import threading
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from http.client import HTTPResponse
from pathlib import Path

from load import Requests, Side, in_turns
from plan import Plan
from processes import started_server
from report import Figures, Row, row
from seed import Population, fill

_TOKEN = "the token of the operator of a benchmark"
WATCHED = {"BRIDGE_ADMIN_TOKEN": _TOKEN, "BRIDGE_TRAFFIC": "on"}
_CHUNK_BYTES = 65_536


def measure_watched(plan: Plan) -> Iterator[Row]:
    """A server that nobody looks at, and one whose stream of requests is read."""
    figures = beside_watched(plan, WATCHED, lambda url, _: _opened_stream(url))
    yield row("watched-get-204", figures, "watched-get-204: `GET /session/{id}`")


def beside_watched(
    plan: Plan, settings: Mapping[str, str], opened: Callable[[str, Path], HTTPResponse]
) -> Figures:
    """A poll of a server in turns with a poll of another one, with these settings and an open stream."""
    with ExitStack() as stack:
        folder, watched_folder = stack.enter_context(plan.folder()), stack.enter_context(plan.folder())
        seeded, watched_seeded = (fill(each, Population(1_000)) for each in (folder, watched_folder))
        server = stack.enter_context(started_server(folder))
        watched = stack.enter_context(started_server(watched_folder, settings))
        stack.enter_context(opened(watched.url, watched_folder))
        paths, watched_paths = (
            [f"/session/{each}" for each in ids.sessions] for ids in (seeded, watched_seeded)
        )
        unwatched = Side(server, Requests(server.url, "GET", paths), plan.seconds, 204)
        requests = Requests(watched.url, "GET", watched_paths)
        other = replace(unwatched, process=watched, requests=requests)
        return in_turns(plan.rounds, unwatched=unwatched.measure, watched=other.measure)


def read_beside(stream: HTTPResponse) -> HTTPResponse:
    """Read the stream in a thread until the server ends it; returns the stream."""
    threading.Thread(target=_read, args=(stream,), daemon=True).start()
    return stream


def _opened_stream(url: str) -> HTTPResponse:
    """The stream of requests, which is read beside until the server ends it."""
    headers = {"Authorization": f"Bearer {_TOKEN}"}
    stream: HTTPResponse = urllib.request.urlopen(
        urllib.request.Request(f"{url}/admin/traffic/stream", headers=headers)
    )
    return read_beside(stream)


def _read(stream: HTTPResponse) -> None:
    with suppress(OSError, ValueError, AttributeError):  # it is closed while it is read
        while stream.read1(_CHUNK_BYTES):
            pass
