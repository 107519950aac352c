"""The parts that concern all rooms: their services, health, metrics, the description, the documentation."""

import platform
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from aiohttp import web

from bridge_server.assembly.bridge import PubSubServices
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.push import PushServices
from bridge_server.assembly.room import Room
from bridge_server.assembly.wallet import AssembledWallet
from bridge_server.description.routes import DocumentationHandlers, FrontFacts, documentation_routes
from bridge_server.inbox.store import InboxReads
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.secrets import ChangingToken
from bridge_server.kernel.version import VERSION
from bridge_server.notify.service import Notifications
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.store import StockOf
from bridge_server.projects.service import ProjectServices
from bridge_server.storage.connection import SQLITE_VERSION
from bridge_server.web.answers import DocumentPage
from bridge_server.web.limits import SavedBucket, save
from bridge_server.web.metrics import SERVICE_TAG, Family, Readiness, exposition
from bridge_server.web.routes import ANY_PAGE, TEXT, UNCHANGED, About, Access, DescribedAnswer, Route

_PROBE = "SELECT 1"
_RETRY_AFTER_SECONDS = 2


class Services(NamedTuple):
    """The services of the rooms that an operator reads and changes."""

    projects: ProjectServices
    notifications: Notifications
    inbox: InboxReads
    wallet: AssembledWallet
    push: PushServices
    sockets: PubSubServices
    dispatcher: Dispatcher
    stock: StockOf
    readiness: Readiness


def readiness_of(foundation: Foundation, rooms: Sequence[Room]) -> Readiness:
    """Whether the server can do its work, and what troubles these rooms."""
    database, file, clock = foundation.database, foundation.database_file, foundation.clock

    async def check_work() -> None:
        """Raise UnavailableError when the server stops soon, or cannot read or write the database."""
        if foundation.stopping.is_announced:
            raise UnavailableError("The server stops: send requests to another.", _RETRY_AFTER_SECONDS)
        if file is not None:
            file.require_presence()
        if database.missing:
            said = "; ".join(database.missing)
            raise UnavailableError(f"{said[0].upper()}{said[1:]}.", _RETRY_AFTER_SECONDS)
        await database.read(_PROBE)
        if database.last_commit_failed:
            await database.transaction(partial(save, [SavedBucket("probe", "", clock.now_us(), None)]))

    def troubles() -> list[str]:
        return [trouble for room in rooms for trouble in room.troubles()]

    return Readiness(check_work, troubles)


_CREDENTIALS = "Lanes whose push service refuses this server's credentials: pushes there wait."

MEANINGS = {
    "connections": "Open connections of clients.",
    "connections_refused": "Connections refused because their address had max_address_connections open.",
    "connections_silent": "Connections closed because no request came within head_timeout.",
    "connections_cut": "Connections cut because the client did not read its answers.",
    "unread_connections": "Connections whose client has answers left to read.",
    "unread_bytes": "Bytes of answers in memory until clients read them.",
    "waiting_clients": "Long polls that wait at this moment.",
    "database_bytes": "Size of the database, without its write-ahead log.",
    "database_commits": "Commits since the start; each may hold several transactions.",
    "database_transactions": "Transactions since the start.",
    "database_runs_again": "Transactions run again since the start, because others were in their way.",
    "database_log_bytes": "Size of the write-ahead log. It grows while a program holds an old state open.",
    "database_used_bytes": "Bytes of the database in use, with the log: what database_limit limits.",
    "database_limit_bytes": "The setting database_limit.",
    "outbox_due": "Messages for webhooks and devices that wait, also messages that wait for a retry.",
    "outbox_dead": "Dead letters: messages that were given up (`bridge-server outbox list --dead`).",
    "outbox_delivered": "Messages delivered since the start.",
    "outbox_failed": "Attempts to deliver that failed since the start.",
    "sockets": "Open WebSockets of generations 1.x and 2.x.",
    "socket_topics": "Topics that open WebSockets are subscribed to.",
    "inbox_streams": "Open streams of server-sent events of inboxes.",
    "wallet_approvals_waiting": "Signing requests that wait for the operator's decision.",
    "push_fcm_blocked": _CREDENTIALS,
    "push_apns_blocked": _CREDENTIALS,
    "push_webpush_blocked": _CREDENTIALS,
}
"""The meanings by the names of figures, without the prefix `bridge_`."""


_BUILD = "The version of the server, of Python and of SQLite; the value is always 1."


def metrics_room(foundation: Foundation, rooms: Sequence[Room]) -> Room:
    """The figures of these rooms, for the bearer of `metrics_token`; there is no endpoint without it."""
    token = foundation.live.token("metrics_token")
    if token is None:
        return Room(name="metrics")
    return Room(name="metrics", routes=(_route(foundation, rooms, token),))


def metrics_alone(foundation: Foundation, rooms: Sequence[Room]) -> Route:
    """The figures on a port of their own, which asks for the token where other machines can reach it."""
    is_guarded = foundation.settings.metrics_are_guarded
    return _route(foundation, rooms, foundation.live.token("metrics_token") if is_guarded else None)


def _route(foundation: Foundation, rooms: Sequence[Room], bearer: ChangingToken | None) -> Route:
    versions = (VERSION, platform.python_version(), SQLITE_VERSION)

    async def families() -> Sequence[Family]:
        found = [Family("build_info", _BUILD, {versions: 1}, ("version", "python", "sqlite"))]
        for room in rooms:
            for name, value in room.gauges().items():
                found.append(Family(name, MEANINGS[name], {(): value}, is_total=name in room.totals))
        for room in rooms:
            if room.families is not None:
                with suppress(UnavailableError):  # the other figures tell of a database that does not answer
                    found.extend(await room.families())
        return found

    async def metrics(_: web.Request) -> web.StreamResponse:
        """All figures in the Prometheus text format. The route exists if `metrics_token` is set."""
        body, content_type = exposition(foundation.figures, await families())
        return web.Response(body=body, headers={"Content-Type": content_type})

    return Route(
        method="GET", path="/metrics", name="metrics", handler=metrics, access=Access(bearer=bearer),
        about=About(
            work=metrics, tag=SERVICE_TAG, summary="Figures for Prometheus", needs_database=False,
            answers=(DescribedAnswer(200, "The figures.", str, TEXT),),
        ),
    )  # fmt: skip


class Documentation:
    """The server's description of itself. It is there before the rooms that it describes are."""

    def __init__(self, foundation: Foundation) -> None:
        self._foundation = foundation
        self._rows: list[Route] = []
        describe = partial(described, self._rows)
        self._document = DocumentPage(describe)
        settings, demo = foundation.settings, foundation.demo
        facts = FrontFacts(
            public_url=settings.public_url,
            has_console=settings.console,
            console_port=settings.console_port,
            project_id=None if demo is None else demo.project_id,
        )
        self._pages = DocumentationHandlers(describe, facts)
        self.front = self._pages.front
        """Answers a browser at the root."""

    def rooms(self, others: Sequence[Room]) -> tuple[Room, Room]:
        """The document of the others and of itself, which any web page may read; and the pages."""
        every_request = self._foundation.every_request
        route = Route(
            method="GET", path="/openapi.json", name="openapi", handler=self._document.answer,
            access=ANY_PAGE, limits=(every_request,),
            about=About(
                work=described, tag=SERVICE_TAG, summary="This description", needs_database=False,
                answers=(DescribedAnswer(200, "The document.", dict[str, Any]), UNCHANGED),
            ),
        )  # fmt: skip
        self._rows += (row for room in others if not room.has_own_port for row in room.routes)
        self._rows.append(route)
        pages = documentation_routes(self._pages, every_request)
        return Room(name="description", routes=(route,)), Room(name="documentation", routes=pages)


def described(rows: Sequence[Route]) -> Mapping[str, Any]:
    """The routes of this server in OpenAPI 3.1, as its settings have them. `bridge-server openapi` prints
    those of a server that has everything turned on.
    """
    # Its modules are loaded when somebody asks: most servers are never asked.
    document: Mapping[str, Any] = import_module("bridge_server.description.document").openapi_document(rows)
    return document
