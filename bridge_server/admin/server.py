"""The server itself: its figures at a glance, its settings, and whether it is ready."""

import resource
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, NotRequired

from aiohttp import web
from pydantic import WithJsonSchema

from bridge_server.admin.clients import ListedClientAnswer, client_fields, heaviest_fields
from bridge_server.admin.other_processes import PROCESS, Cluster, Fields, Pages, ProcessAnswer, added
from bridge_server.admin.rows import AdminRows
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, UnavailableError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.store import StockOf
from bridge_server.relay.store import SessionList
from bridge_server.web.metrics import Readiness, RequestFigures
from bridge_server.web.recorder import Clients, RecentCounts
from bridge_server.web.routes import Route
from bridge_server.web.shapes import Count, Moment, TypedDict, count, text

SESSION, CALL, NOTIFICATION = "session", "call", "notification"

_STATM = Path("/proc/self/statm")
_HOUR_SECONDS = 3600
_HEAVIEST = 5
_SERVER_ERROR = 500
_TOO_MANY_REQUESTS = 429

_OF_THE_DATABASE = frozenset({"living", "due", "dead", "disk", "at", "up_seconds"})
"""Members that are not added up: they are the database's, and the process that answers has just read them."""

Bytes = Annotated[int, count(65_536)]


class MadeThingsAnswer(TypedDict):
    """How many were made since the start, and in the last minute."""

    since_start: Count
    last_minute: Count


class MadeSessionsAnswer(MadeThingsAnswer):
    """How many sessions were opened, and how many live."""

    living: Count


class AnsweredRequestsAnswer(TypedDict):
    """How many requests were answered, how many of them failed (5xx), and how many were refused (429)."""

    answered: Count
    failed: Count
    refused: Count


class OutboxFiguresAnswer(TypedDict):
    """Messages that wait, were given up, were delivered or have failed."""

    due: Count
    dead: Count
    delivered: Count
    failed: Count


class DiskFiguresAnswer(TypedDict):
    """Bytes of the database and its log, and free bytes of the disk."""

    database_bytes: Bytes
    log_bytes: Bytes
    free_bytes: Bytes


class OneServerFiguresAnswer(TypedDict):
    """One process at a glance."""

    at: Moment
    up_seconds: Count
    sessions: MadeSessionsAnswer
    calls: MadeThingsAnswer
    notifications: MadeThingsAnswer
    waiting: Count
    connections: Count
    sockets: Count
    topics: Count
    streams: Count
    approvals: Count
    requests: AnsweredRequestsAnswer
    outbox: OutboxFiguresAnswer
    pushes: dict[str, dict[str, Count]]
    memory_bytes: Bytes
    disk: DiskFiguresAnswer
    clients: list[ListedClientAnswer]


class ProcessFiguresAnswer(ProcessAnswer):
    """The figures of one of several processes; null if it did not answer."""

    figures: OneServerFiguresAnswer | None


class ServerFiguresAnswer(OneServerFiguresAnswer):
    """The server at a glance: all its processes together, and each by itself if several share a database."""

    processes: NotRequired[list[ProcessFiguresAnswer]]


@dataclass(frozen=True, slots=True)
class FigureSources:
    """The services of the rooms that keep figures."""

    sessions: SessionList
    made: RecentCounts
    clients: Clients
    gauges: Callable[[], Mapping[str, float]]  # the figures of every part, as `/metrics` has them
    requests: RequestFigures
    stock: StockOf
    pushes: Callable[[], Mapping[str, Mapping[str, int]]]  # by channel, how many pushes had each outcome
    database_file: Path


class StatsAdmin:
    """Puts the figures of this process together, and of the others on the database."""

    def __init__(self, sources: FigureSources, clock: Clock, processes: Cluster) -> None:
        self._sources, self._clock, self._processes = sources, clock, processes
        self._began_us = clock.elapsed_us()

    async def handle(self, request: web.Request) -> ServerFiguresAnswer:
        """Numbers of sessions, calls, sockets and messages, and the five clients with the most requests of
        the last hour.
        """
        wanted = self._processes.wanted(request)
        question = (request.path, dict[str, str]())
        return await self._processes.of_all(wanted, question, self._own, merged_fields, shown_as="figures")

    async def _own(self) -> ServerFiguresAnswer:
        """The figures of this moment; the number of sessions may be a minute old."""
        sources = self._sources
        gauges, stock = sources.gauges(), await sources.stock()
        statuses = [item for route in sources.requests.routes.values() for item in route.statuses.items()]
        heaviest = sources.clients.heaviest("requests", _HEAVIEST, last_seconds=_HOUR_SECONDS)
        return {
            "at": rfc3339(self._clock.now_ms()),
            "up_seconds": (self._clock.elapsed_us() - self._began_us) // 1_000_000,
            "sessions": {"living": await sources.sessions.count(), **self._made_of(SESSION)},
            "calls": self._made_of(CALL),
            "notifications": self._made_of(NOTIFICATION),
            "waiting": int(gauges.get("waiting_clients", 0)),
            "connections": int(gauges.get("connections", 0)),
            "sockets": int(gauges.get("sockets", 0)),
            "topics": int(gauges.get("socket_topics", 0)),
            "streams": int(gauges.get("inbox_streams", 0)),
            "approvals": int(gauges.get("wallet_approvals_waiting", 0)),
            "requests": {
                "answered": sum(count for _, count in statuses),
                "failed": sum(count for status, count in statuses if status >= _SERVER_ERROR),
                "refused": sum(count for status, count in statuses if status == _TOO_MANY_REQUESTS),
            },
            "outbox": {
                "due": stock.due,
                "dead": stock.dead,
                "delivered": int(gauges.get("outbox_delivered", 0)),
                "failed": int(gauges.get("outbox_failed", 0)),
            },
            "pushes": {channel: dict(outcomes) for channel, outcomes in sources.pushes().items()},
            "memory_bytes": memory_bytes(),
            "disk": _disk(sources.database_file, gauges),
            "clients": [client_fields(each) for each in heaviest],
        }

    def _made_of(self, name: str) -> MadeThingsAnswer:
        made = self._sources.made
        return {"since_start": made.total[name], "last_minute": made.in_last_minute(name)}


def memory_bytes() -> int:
    """The memory of this process; where the system does not say, the most that it ever had."""
    try:
        return int(_STATM.read_text("ascii").split()[1]) * resource.getpagesize()
    except (OSError, ValueError, IndexError):
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return most if sys.platform == "darwin" else most * 1024


def _disk(database_file: Path, gauges: Mapping[str, float]) -> DiskFiguresAnswer:
    """The disk of the data directory; PostgreSQL says of its database what it takes there."""
    try:
        free_bytes = shutil.disk_usage(database_file.parent).free
    except OSError:
        free_bytes = 0
    return {
        "database_bytes": _size(database_file) or int(gauges.get("database_bytes", 0)),
        "log_bytes": _size(database_file.with_name(f"{database_file.name}-wal")),
        "free_bytes": free_bytes,
    }


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0


def merged_fields(pages: Pages) -> Fields:
    """The server at a glance, all its processes together."""
    found = [*pages.values()]
    return {
        **added(found, _OF_THE_DATABASE),
        "up_seconds": max(each["up_seconds"] for each in found),
        "clients": heaviest_fields(pages, "requests", _HEAVIEST),
    }


def stats_routes(stats: StatsAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """The server at a glance."""
    row = rows.under("Observation").read
    return (
        row("/admin/stats", "stats", stats.handle, "The server at a glance", "The figures.",
            parameters=(PROCESS,), problems=(InvalidInputError,)),
    )  # fmt: skip


# The settings that hold now, and whether the server is ready.

SettingValue = Annotated[
    str | float | bool | None,
    WithJsonSchema({"type": ["string", "number", "boolean", "null"], "examples": [8080]}),
]


class ShownSettingAnswer(TypedDict):
    """A setting: its value, its source, and whether the running server takes a new value on SIGHUP."""

    value: SettingValue
    origin: Annotated[str, text("default")]
    live: bool


class ReadinessAnswer(TypedDict):
    """The parts of `/readyz`."""

    ready: bool
    failure: str | None
    troubles: list[str]


class SettingsReportAnswer(TypedDict):
    """Every setting by name, and whether the server can do its work."""

    settings: Mapping[str, ShownSettingAnswer]
    ready: ReadinessAnswer


class SettingsAdmin:
    """Shows readiness, and the settings of `shown`, which are changed in their file, and by SIGHUP."""

    def __init__(self, shown: Callable[[], Mapping[str, Any]], readiness: Readiness) -> None:
        self._shown, self._readiness = shown, readiness

    async def report(self, _: web.Request | None = None) -> SettingsReportAnswer:
        """Every setting with its value and its source. A secret is `(set)` or null. Under `ready` are the
        parts of `/readyz`.
        """
        failure = None
        try:
            await self._readiness.check()
        except UnavailableError as error:
            failure = error.detail
        troubles = list(self._readiness.troubles())
        ready: ReadinessAnswer = {"ready": failure is None, "failure": failure, "troubles": troubles}
        return {"settings": self._shown(), "ready": ready}


def settings_routes(settings: SettingsAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """`GET /admin/settings`."""
    row = rows.under("Observation").read
    return (
        row("/admin/settings", "settings", settings.report, "Show the settings", "The settings.",
            needs_database=False),
    )  # fmt: skip
