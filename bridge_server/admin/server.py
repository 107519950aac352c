"""The server itself: its figures at a glance, its settings, and whether it is ready."""

import resource
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeAlias

from aiohttp import web

from bridge_server.admin.clients import (
    client_fields,
    heaviest_fields,
)
from bridge_server.admin.other_processes import Fields, Neighbours, Question, Reply, of_all, wanted_process
from bridge_server.admin.rows import AdminRows, fields_answer
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.store import Stock, StockOf
from bridge_server.relay.store import SessionList
from bridge_server.web.metrics import Readiness, RequestFigures
from bridge_server.web.recorder import Client, Clients, Lately
from bridge_server.web.routes import Route

SESSION, CALL, NOTIFICATION = "session", "call", "notification"

_STATM = Path("/proc/self/statm")
_HOUR_SECONDS = 3600
_HEAVIEST = 5
_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429

_OF_THE_DATABASE = frozenset({"living", "due", "dead", "disk", "at", "up_seconds"})
"""Members that are not added up: they are the database's, and the process that answers has just read them."""
_ATTEMPTS = ("delivered", "failed")

ShownSettings: TypeAlias = Callable[[], Mapping[str, Mapping[str, Any]]]
"""Returns the settings that hold now by name, as they may be shown."""


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


def stats_fields(stats: Stats) -> dict[str, Any]:
    """The server at a glance."""
    figures = stats.figures
    return {
        "at": rfc3339(stats.now_ms),
        "up_seconds": stats.up_seconds,
        "sessions": {"living": stats.sessions, **_made_fields(stats.made[SESSION])},
        "calls": _made_fields(stats.made[CALL]),
        "notifications": _made_fields(stats.made[NOTIFICATION]),
        "waiting": int(figures.get("waiting_clients", 0)),
        "connections": int(figures.get("connections", 0)),
        "sockets": int(figures.get("sockets", 0)),
        "topics": int(figures.get("socket_topics", 0)),
        "streams": int(figures.get("inbox_streams", 0)),
        "approvals": int(figures.get("wallet_approvals_waiting", 0)),
        "requests": {"answered": stats.requests, "failed": stats.failed, "refused": stats.refused},
        "outbox": {
            "due": stats.stock.due,
            "dead": stats.stock.dead,
            **{name: int(figures.get(f"outbox_{name}", 0)) for name in _ATTEMPTS},
        },
        "pushes": {channel: dict(outcomes) for channel, outcomes in stats.pushes.items()},
        "memory_bytes": stats.memory_bytes,
        "disk": asdict(stats.disk),
        "clients": [client_fields(each) for each in stats.clients],
    }


def _made_fields(made: Made) -> dict[str, int]:
    return {"since_start": made.in_all, "last_minute": made.last_minute}


def merged_fields(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """The server at a glance, all its processes together and each by itself."""
    found = [own, *(each.fields for each in replies if each.fields is not None)]
    entries = [{"number": own_number, "url": None, "fault": None, "figures": own}]
    entries += [{**each.entry(), "figures": each.fields} for each in replies]
    listed = [client for each in found for client in each["clients"]]
    return {
        **_sum(found),
        "up_seconds": max(each["up_seconds"] for each in found),
        "clients": heaviest_fields(listed, "requests", _HEAVIEST),
        "processes": sorted(entries, key=lambda entry: int(entry["number"])),
    }


def _sum(found: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The members of all, added up where they count what each process does."""
    names = dict.fromkeys(name for each in found for name in each)
    return {name: _sum_of(name, [each[name] for each in found if name in each]) for name in names}


def _sum_of(name: str, values: Sequence[Any]) -> Any:
    first = values[0]
    if name in _OF_THE_DATABASE:
        return first
    if isinstance(first, dict):
        return _sum(values)
    return sum(values) if isinstance(first, int) else first


class StatsHandlers:
    """Answers `GET /admin/stats`. Without `neighbours` there is no other process."""

    def __init__(self, reader: StatsReader, neighbours: Neighbours | None = None) -> None:
        self._reader = reader
        self._neighbours = neighbours

    async def stats(self, request: web.Request) -> web.Response:
        wanted = wanted_process(request, self._neighbours)
        question = Question(request.path)
        return fields_answer(await of_all(self._neighbours, wanted, question, self._own, merged_fields))

    async def _own(self) -> Fields:
        return stats_fields(await self._reader.read())


def stats_routes(handlers: StatsHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """The server at a glance."""
    return (rows.read("/admin/stats", "stats", handlers.stats),)


# The settings that hold now, and whether the server is ready.


@dataclass(frozen=True, slots=True)
class Report:
    """The settings; why the server is not ready (None: it is), and the faults that an operator must mend."""

    settings: Mapping[str, Mapping[str, Any]]
    failure: str | None
    troubles: Sequence[str]


class SettingsDesk:
    """Reads settings and readiness. A running server's settings are changed in its file, and by SIGHUP."""

    def __init__(self, shown: ShownSettings, readiness: Readiness) -> None:
        self._shown = shown
        self._readiness = readiness

    async def report(self) -> Report:
        """The settings and the readiness at this moment."""
        failure = await self._failure()
        return Report(self._shown(), failure, self._readiness.troubles())

    async def _failure(self) -> str | None:
        try:
            await self._readiness.check()
        except UnavailableError as error:
            return error.detail
        return None


def report_fields(report: Report) -> dict[str, Any]:
    """Each setting with its value, its origin and whether SIGHUP takes a new one; the parts of /readyz."""
    return {
        "settings": report.settings,
        "ready": {
            "ready": report.failure is None,
            "failure": report.failure,
            "troubles": list(report.troubles),
        },
    }


class SettingsHandlers:
    """Answers `GET /admin/settings`."""

    def __init__(self, desk: SettingsDesk) -> None:
        self._desk = desk

    async def settings(self, _: web.Request) -> web.Response:
        return fields_answer(report_fields(await self._desk.report()))


def settings_routes(handlers: SettingsHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """`GET /admin/settings`."""
    return (rows.read("/admin/settings", "settings", handlers.settings),)
