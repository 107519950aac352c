"""The running server, asked directly."""

from collections.abc import Iterator
from time import perf_counter
from typing import Any

import aiohttp

from bridge_server.cli.amounts import duration_text
from bridge_server.cli.answers import json_of
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn
from bridge_server.cli.options import CommandError
from bridge_server.cli.process import read_server_file
from bridge_server.cli.running_admin import answer_of
from bridge_server.version import VERSION

_SUBJECT = "server"
_PROBLEM_PREFIX = "but "
_OK = 200


async def check_server(seen: Examination, session: aiohttp.ClientSession) -> list[Finding]:
    """Whether the server answers and is ready, how quickly, and its memory."""
    url = seen.url
    if url is None:
        text = f"no server runs on {seen.settings.data_dir}"
        return [fail(_SUBJECT, text, "start it, or name its data directory with --data-dir")]
    started = perf_counter()
    try:
        async with session.get(f"{url}/readyz", allow_redirects=False) as response:
            status, text = response.status, await response.text()
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return [fail(_SUBJECT, f"{url} does not answer", "see its log, and restart it")]
    milliseconds = (perf_counter() - started) * 1_000
    if status != _OK:
        return [fail(_SUBJECT, f"it is not ready: {_reason(status, text)}", "see its log")]
    figures = await _figures(seen, url)
    if isinstance(figures, Finding):
        return [ok(_SUBJECT, f"answers in {milliseconds:.0f} ms"), figures, *_said(seen, text)]
    return [ok(_SUBJECT, f"{figures}answers in {milliseconds:.0f} ms"), *_said(seen, text)]


def _reason(status: int, text: str) -> str:
    """What the server says of its trouble, or else the status."""
    match json_of(text.encode()):
        case {"detail": str(detail)}:
            return f"{status} {detail.rstrip('.')}"
    return f"status {status}"


def _said(seen: Examination, readiness: str) -> Iterator[Finding]:
    for line in readiness.splitlines():
        if line.startswith(_PROBLEM_PREFIX):
            yield warn(_SUBJECT, line.removeprefix(_PROBLEM_PREFIX))
    version = (read_server_file(seen.settings.server_file) or {}).get("version")
    if version not in (None, VERSION):
        yield warn(_SUBJECT, f"it runs version {version}, and this program is {VERSION}", "restart it")


async def _figures(seen: Examination, url: str) -> Finding | str:
    """The server's memory, as text before the rest of the line."""
    if seen.settings.admin_token is None:
        return ok("admin API", "off: without admin_token `stats` and `clients` cannot ask the server")
    try:
        stats = await answer_of(seen.settings, url, "/admin/stats")
    except CommandError as error:
        return warn("admin API", error.message)
    return _text(stats)


def _text(stats: dict[str, Any]) -> str:
    outbox = stats["outbox"]
    return (
        f"up {duration_text(stats['up_seconds'])}, {stats['waiting']:,} waiting, "
        f"{stats['sockets']:,} sockets, "
        f"{outbox['due']:,} messages due, {outbox['dead']:,} dead, "
    )
