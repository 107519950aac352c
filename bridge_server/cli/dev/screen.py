"""What `bridge-server dev` prints: the banner with its QR code, and a line for each request."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from io import StringIO
from textwrap import wrap
from typing import Any

import segno

from bridge_server.cli.output import Screen
from bridge_server.kernel.version import NAME, VERSION
from bridge_server.wallet.rpc.routes import REFUSED_PAGES
from bridge_server.wallet.visible_text import visible
from bridge_server.web.traffic import (
    Exchange,
    Recorded,
    TrafficLog,
    exchange_line,
    has_missed,
    with_short_ids,
)

# One line on the terminal for each request that the server answered or sent.

_MOST_WAITING = 2_000
"""Requests whose lines wait for the terminal; of more, the oldest have none."""

_WIDE_SCREEN = 100
_PATH_COLUMNS = {_WIDE_SCREEN: 34, 80: 24}
"""The width of paths by the columns from which on a terminal has room for it."""

_INDENT = 18
_ID_CHARACTERS = 8
_FIRST_FAILURE = 400
_COLOURS = {0: "red", 4: "yellow", 5: "red"}
"""The colours by the first digit of a status."""


class TrafficLines:
    """Follows the record of requests. A terminal that is stopped delays only its own lines."""

    def __init__(self, traffic: TrafficLog, write: Callable[[str], None], screen: Screen) -> None:
        self._traffic = traffic
        self._write = write
        self._screen = screen
        self._news: deque[Recorded] = deque(maxlen=_MOST_WAITING)
        self._missed = 0
        self._some_came = asyncio.Event()

    async def run_forever(self) -> None:
        """Write the lines of all requests from now on."""
        with self._traffic.watched_by(self._note):
            while True:
                await self._some_came.wait()
                await asyncio.to_thread(self._write, "\n".join(self._lines()))

    def _note(self, recorded: Recorded) -> None:
        self._missed += len(self._news) == _MOST_WAITING
        self._news.append(replace(recorded) if recorded.is_waiting else recorded)  # it will change
        self._some_came.set()

    def _lines(self) -> list[str]:
        gap = [f"... {self._missed} requests are not shown: they came too fast"] if self._missed else []
        lines = gap + [request_line(each, self._screen) for each in self._news]
        self._news.clear()
        self._missed = 0
        self._some_came.clear()
        return lines


def request_line(recorded: Recorded, screen: Screen) -> str:
    """The line of a request. What the terminal has no room for stands below, further to the right."""
    exchange = recorded.exchange
    columns = _WIDE_SCREEN if screen.columns is None else screen.columns
    path_columns = next((width for least, width in _PATH_COLUMNS.items() if columns >= least), 0)
    moment = datetime.fromtimestamp(recorded.at_ms / 1_000, UTC).astimezone()
    line = exchange_line(
        exchange.who,
        exchange.method,
        visible(with_short_ids(exchange.path)),
        status=exchange.status,
        milliseconds=exchange.milliseconds,
        waited_seconds=exchange.waited_seconds,
        summary=visible(_remedy(exchange, is_waiting=recorded.is_waiting) or exchange.summary),
        path_columns=path_columns,
        is_waiting=recorded.is_waiting,
    )
    text = f"{moment:%H:%M:%S}  {line}"
    if screen.columns is not None and len(text) > screen.columns:
        indented = " " * min(_INDENT, screen.columns // 4)
        lines = wrap(text, screen.columns, subsequent_indent=indented, break_on_hyphens=False)
        text = "\n".join(lines)
    if recorded.is_waiting:
        return screen.coloured(text, "yellow")
    if exchange.status >= _FIRST_FAILURE or not exchange.status:
        return screen.coloured(text, _COLOURS[exchange.status // 100])
    return screen.coloured(text, "yellow") if has_missed(exchange.route, exchange.summary) else text


def _remedy(exchange: Exchange, *, is_waiting: bool) -> str | None:
    """The command that approves a waiting request, or the flag that lets a refused page call the wallet."""
    if is_waiting:
        return f"{exchange.summary} (approvals approve {exchange.path[:_ID_CHARACTERS]})"
    if exchange.route != "rpc" or not exchange.summary.startswith(REFUSED_PAGES) or exchange.request is None:
        return None
    origin = next(value for name, value in exchange.request.headers.items() if name.lower() == "origin")
    return f"{origin} may not call the wallet: --rpc-origins {origin}"


# A QR code of block characters, two squares in each.

_WHITE_ON_BLACK, _AS_BEFORE = "\x1b[97;40m", "\x1b[0m"
_BORDER = 2


def qr_code(text: str, *, has_colours: bool) -> list[str]:
    """The lines of the code. With colours it is dark on light on every terminal, as cameras expect it."""
    drawn = StringIO()
    segno.make(text, micro=False, error="l").terminal(drawn, border=_BORDER, compact=True)
    lines = drawn.getvalue().splitlines()
    return [f"{_WHITE_ON_BLACK}{line}{_AS_BEFORE}" for line in lines] if has_colours else lines


# The text that `dev` prints when the server is ready: addresses, project, accounts with their keys.

_COLUMNS_OF_QR_CODE = 37
_COLUMNS_OF_VALUES = 27


def dev_banner(
    facts: Mapping[str, Any], screen: Screen, command: str = "bridge-server", console_link: str | None = None
) -> str:
    """The lines to print; `facts` stand in the ready file, `command` starts this program in the shell."""
    lines = list(_head(facts, command, console_link))
    for number, account in enumerate(facts["accounts"]):
        lines.append(f"  ({number}) {account['address']}  {account.get('private_key', '')}".rstrip())
    lines.append(screen.coloured("Never send these accounts anything of value.", "yellow"))
    has_room = screen.columns is None or screen.columns >= _COLUMNS_OF_QR_CODE
    if (lan_url := facts.get("lan_url")) is not None and screen.has_blocks and has_room:
        lines += qr_code(lan_url, has_colours=screen.has_colours)
    return "\n".join(lines)


def _head(facts: Mapping[str, Any], command: str, console_link: str | None) -> Iterator[str]:
    url, lan_url, project = facts["url"], facts.get("lan_url"), facts["project"]
    others = f"--data-dir {facts['data_dir']}"  # with it other commands find the server
    chain = "the node's chain" if facts["chain_id"] is None else f"chain {facts['chain_id']}"
    waiting = f"waits for: {command} approvals {others}"
    policy = "approves by itself" if facts["policy"] == "approve" else waiting
    kept = f"kept in {facts['data_dir']}" if facts["kept"] else "nothing is kept"
    yield f"{NAME} {VERSION}, for development: {kept}, everybody knows the keys"
    if console_link is not None:
        yield f"  console   {console_link}"
    yield f"  docs      {url}/docs/"
    yield f"  inbox     {url}/inbox/?project={project['id']}"
    yield _line("relay", f"ws{url.removeprefix('http')}", "relayUrl of 2.x clients")
    yield _line("bridge", url, "bridge of 1.x clients")
    yield f"  0.7       {facts['v07_url']}"
    if lan_url is not None:
        yield _line("phone", lan_url, "the bridge alone, for this network")
    yield _line("wallet", facts["rpc_url"], f"{chain}, {policy}{'' if facts['has_node'] else '; no node'}")
    yield _line("project", project["id"], f"types {', '.join(project['types'])}")
    yield f"  secret    {project['secret']}"
    yield f"  admin     {facts['admin_token']}"
    yield f"  commands  {command} COMMAND {others}"
    yield "  stop      Ctrl-C"


def _line(name: str, value: str, more: str) -> str:
    return f"  {name:<9} {value:<{_COLUMNS_OF_VALUES}} {more}"
