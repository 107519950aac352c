"""One line on the terminal for each request that the server answered or sent."""

import asyncio
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime

from bridge_server.cli.screen import Screen
from bridge_server.wallet.explaining.visible_text import visible
from bridge_server.wallet.rpc.access import REFUSED_PAGES
from bridge_server.web.exchange_line import exchange_line
from bridge_server.web.exchanges import Exchange, Recorded, with_short_ids
from bridge_server.web.traffic import TrafficLog

_MOST_WAITING = 2_000
"""Requests whose lines wait for the terminal; of more, the oldest have none."""

_PATH_COLUMNS = 34
_ROOM_FOR_PATHS = 80
"""Columns from which on a terminal has room for paths of one width."""

_FIRST_FAILURE = 400
_COLOURS = {0: "red", 4: "yellow", 5: "red"}
"""The colours by the first digit of a status."""


class TrafficLines:
    """Follows the record of requests. A terminal that stands still delays only its own lines."""

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
        self._news.append(recorded)
        self._some_came.set()

    def _lines(self) -> list[str]:
        gap = [f"... {self._missed} requests are not shown: they came too fast"] if self._missed else []
        lines = gap + [request_line(each, self._screen) for each in self._news]
        self._news.clear()
        self._missed = 0
        self._some_came.clear()
        return lines


def request_line(recorded: Recorded, screen: Screen) -> str:
    """The line of a request. The failure of a request stands in it whole, whatever the width."""
    exchange = recorded.exchange
    moment = datetime.fromtimestamp(recorded.at_ms / 1_000, UTC).astimezone()
    is_wide = screen.columns is None or screen.columns >= _ROOM_FOR_PATHS
    line = exchange_line(
        exchange.who,
        exchange.method,
        visible(with_short_ids(exchange.path)),
        status=exchange.status,
        milliseconds=exchange.milliseconds,
        waited_seconds=exchange.waited_seconds,
        gist=visible(_remedy(exchange) or exchange.gist),
        path_columns=_PATH_COLUMNS if is_wide else 0,
    )
    text = f"{moment:%H:%M:%S}  {line}"
    if exchange.status >= _FIRST_FAILURE or not exchange.status:
        return screen.coloured(text, _COLOURS[exchange.status // 100])
    if screen.columns is not None and len(text) > screen.columns:
        return f"{text[: screen.columns - 1]}…"
    return text


def _remedy(exchange: Exchange) -> str | None:
    """The flag that lets a web page call the wallet, if it may not yet; else None."""
    if exchange.route != "rpc" or not exchange.gist.startswith(REFUSED_PAGES) or exchange.request is None:
        return None
    headers = {name.lower(): value for name, value in exchange.request.headers.items()}
    origin = headers["origin"]
    return f"{origin} may not call the wallet: --rpc-origins {origin}"
