"""Figures of this moment, and totals since the start."""

import resource
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.counted_stock import StockOf
from bridge_server.outbox.stock import Stock
from bridge_server.relay.session_list import SessionList
from bridge_server.web.clients import Client, Clients
from bridge_server.web.lately import Lately
from bridge_server.web.request_figures import RequestFigures

SESSION, CALL, NOTIFICATION = "session", "call", "notification"

_STATM = Path("/proc/self/statm")
_HOUR_SECONDS = 3600
_HEAVIEST = 5
_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429


@dataclass(frozen=True, slots=True)
class Made:
    """How many were made since the start, and how many of them in the last minute."""

    in_all: int
    last_minute: int


@dataclass(frozen=True, slots=True)
class Disk:
    """Bytes of the database and of its log, and free bytes of its disk."""

    database_bytes: int
    log_bytes: int
    free_bytes: int


@dataclass(frozen=True, slots=True)
class Stats:
    """The server at this moment."""

    now_ms: int
    up_seconds: int
    sessions: int
    made: Mapping[str, Made]
    figures: Mapping[str, float]
    """The figures of every part, as `/metrics` has them."""
    stock: Stock
    requests: int
    failed: int
    refused: int
    pushes: Mapping[str, Mapping[str, int]]
    memory_bytes: int
    disk: Disk
    clients: Sequence[Client]


class StatsReader:
    """Puts the figures together."""

    def __init__(
        self,
        sessions: SessionList,
        made: Lately,
        clients: Clients,
        requests: RequestFigures,
        figures: Callable[[], Mapping[str, float]],
        stock: StockOf,
        pushes: Callable[[], Mapping[str, Mapping[str, int]]],
        database_file: Path,
        clock: Clock,
    ) -> None:
        self._sessions = sessions
        self._made = made
        self._clients = clients
        self._requests = requests
        self._figures = figures
        self._stock = stock
        self._pushes = pushes
        self._database_file = database_file
        self._clock = clock
        self._began_us = clock.elapsed_us()

    async def read(self) -> Stats:
        """The figures of this moment; the number of sessions may be a minute old."""
        figures = self._figures()
        statuses = [item for route in self._requests.routes.values() for item in route.statuses.items()]
        return Stats(
            now_ms=self._clock.now_ms(),
            up_seconds=(self._clock.elapsed_us() - self._began_us) // 1_000_000,
            sessions=await self._sessions.count(),
            made={name: self._made_of(name) for name in (SESSION, CALL, NOTIFICATION)},
            figures=figures,
            stock=await self._stock(),
            requests=sum(count for _, count in statuses),
            failed=sum(count for status, count in statuses if status >= _SERVER_ERROR),
            refused=sum(count for status, count in statuses if status == _TOO_MANY_REQUESTS),
            pushes=self._pushes(),
            memory_bytes=memory_bytes(),
            disk=_disk(self._database_file, figures),
            clients=self._clients.heaviest("requests", _HEAVIEST, last_seconds=_HOUR_SECONDS),
        )

    def _made_of(self, name: str) -> Made:
        return Made(self._made.total[name], self._made.in_last_minute(name))


def memory_bytes() -> int:
    """The memory of this process; where the system does not say, the most that it ever had."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _disk(database_file: Path, figures: Mapping[str, float]) -> Disk:
    """The disk of the data directory; PostgreSQL says of its database what it takes there."""
    log_file = database_file.with_name(f"{database_file.name}-wal")
    try:
        free_bytes = shutil.disk_usage(database_file.parent).free
    except OSError:
        free_bytes = 0
    size = _size(database_file) or int(figures.get("database_bytes", 0))
    return Disk(size, _size(log_file), free_bytes)


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
