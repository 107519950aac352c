"""The console's pages, and the door to them. A new page is a line in `_pages`."""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from functools import partial
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from bridge_server.admin.traffic_records import line_fields
from bridge_server.admin.traffic_stream import TrafficStreams
from bridge_server.assembly.admin import Operator
from bridge_server.assembly.command_line import console_access
from bridge_server.assembly.room import Room
from bridge_server.console import compose, notifications, outbox, projects, rendering, sessions
from bridge_server.console.access import Door, RefusedAttempts, SessionCookies, SessionEnds
from bridge_server.console.handlers import ConsoleHandlers, console_routes
from bridge_server.console.models import ROOT, ConsolePage, ServerState
from bridge_server.console.server import ClientsPage, SettingsPage
from bridge_server.console.traffic import TrafficPage, row_fields
from bridge_server.console.wallet import WalletPage, WalletSource
from bridge_server.inbox.models import MarkedRead
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent
from bridge_server.notify.models import AllMarkedRead, Delivered
from bridge_server.outbox.models import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.projects.models import ProjectChanged
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import ChangedOutside
from bridge_server.wallet.approvals import ApprovalsChanged
from bridge_server.wallet.transactions.states import TransactionsDue, TransactionsMoved, TransactionsPostponed
from bridge_server.web.addresses import Hosts
from bridge_server.web.answers import STYLESHEET, StaticFiles

if TYPE_CHECKING:
    from bridge_server.assembly.testmode import TestMode

OBSERVED = "observed"
"""The topic of lists that change with almost every request. Open pages load again every few seconds."""

_AGAIN_SECONDS = 5.0
_PATIENCE_SECONDS = 1.0
_TOPICS: Mapping[str, Sequence[type[DomainEvent]]] = MappingProxyType(
    {
        "faults": (),
        "notifications": (Delivered, MarkedRead, AllMarkedRead),
        OBSERVED: (),
        "outbox": (OutboxGrew, OutboxChanged, OutboxCounted),
        "projects": (ProjectChanged,),
        "wallet": (ApprovalsChanged, TransactionsMoved, TransactionsDue, TransactionsPostponed),
    }
)
"""The topics of changes that open pages wait for, with the events of each, if it needs any."""


def pages_room(operator: Operator, mode: "TestMode | None") -> Room:
    """The endpoints of every page. `mode` is test mode, if it is on."""
    foundation = operator.foundation
    settings = foundation.settings
    access, cookies = console_access(foundation), SessionCookies(settings.public_url)
    changes, traffic = _page_changes(operator, mode), operator.observation.traffic
    streams = None
    if traffic is not None:  # the list of requests gets the rows of their record
        streams = TrafficStreams(traffic, lambda each: row_fields(line_fields(each, traffic)))
    static_files = StaticFiles(f"{ROOT}/static", [STYLESHEET, *sorted(rendering.STATIC_FOLDER.iterdir())])
    pages = _pages(operator, mode, streams)
    own_host = urlsplit(settings.public_url or "").hostname or ""
    refused = RefusedAttempts(foundation.addresses, foundation.machine_clock)
    docs = f"{_bridge_url(settings) or ''}/docs"
    unfit = "keys are public" if settings.dev_accounts else "test mode" if settings.test else None
    known = {"root": ROOT, "static": static_files.paths, "docs": docs, "mode": unfit}
    ends = SessionEnds(access, foundation.events)
    handlers = ConsoleHandlers(
        Door(access, cookies, ends, Hosts((own_host,)), refused.note),
        rendering.Framing(rendering.Rendering(known), changes, pages, partial(_state, operator, mode)),
        rendering.OneTimeNotices(os.urandom),
        home=f"{ROOT}{pages[0].paths[0].path}",
    )

    @asynccontextmanager
    async def following() -> AsyncIterator[None]:
        pushing = nullcontext() if streams is None else running(streams.push_forever())
        async with running(observe_forever()), pushing:
            yield

    async def observe_forever() -> None:
        while True:
            await asyncio.sleep(_AGAIN_SECONDS)
            if changes.is_watched(OBSERVED):
                changes.note(OBSERVED)

    def stop() -> None:
        changes.end()
        if streams is not None:
            streams.close()

    return Room(
        name="console",
        routes=console_routes(handlers, static_files, pages, foundation.every_request),
        has_own_port=settings.console_port is not None,
        running=(following,),
        stop=stop,
    )


def _pages(
    operator: Operator, mode: "TestMode | None", streams: TrafficStreams | None
) -> tuple[ConsolePage, ...]:
    """The pages in the order of the navigation."""
    settings, services = operator.foundation.settings, operator.services.projects
    choice = rendering.ProjectChoice(services)
    sendings = compose.Sendings(operator.audiences, operator.foundation.clock, os.urandom)
    answers_calls = settings.test and settings.console_port is None
    faults = []
    if mode is not None:
        page = import_module("bridge_server.console.faults").FaultsPage
        faults.append(page(mode.controls, mode.instruments.faults, mode.routes, mode.words))
    approvals, source, may_sign = operator.approvals, _wallet_source(operator), settings.admin_wallet
    pages = (
        TrafficPage(
            streams,
            operator.lives,
            approvals if may_sign else None,
            _bridge_url(settings),
            answers_calls=answers_calls,
        ),
        sessions.SessionsPage(operator.sessions, operator.topics),
        WalletPage(approvals, operator.wallet, source, may_sign=may_sign),
        outbox.WebhooksPage(operator.outbox, operator.webhook_tests),
        outbox.PushesPage(operator.outbox, operator.push_tests),
        projects.ProjectsPage(services),
        compose.ComposePage(choice, sendings, operator.history),
        notifications.NotificationsPage(choice, operator.history, operator.accounts),
        notifications.AnalyticsPage(choice, services.projects),
        notifications.InboxPreview(operator.services.inbox, operator.accounts),
        ClientsPage(operator.clients),
        *faults,
        SettingsPage(operator.settings, operator.neighbours),
    )
    return tuple(page.page for page in pages)


def _wallet_source(operator: Operator) -> WalletSource | None:
    """Tells which process's wallet a page shows, where several share the database."""
    neighbours, role = operator.neighbours, operator.services.wallet.role
    if neighbours is None or role is None:
        return None

    async def source() -> tuple[int, str | None]:
        return neighbours.own_number, None if role.is_served else await role.holder_url()

    return source


def _page_changes(operator: Operator, mode: "TestMode | None") -> rendering.PageChanges:
    foundation, wallet = operator.foundation, operator.services.wallet
    changes = rendering.PageChanges(foundation.machine_clock.now_ms(), list(_TOPICS))
    changes.follow(foundation.events, _TOPICS, ChangedOutside)
    if mode is not None:
        mode.instruments.faults.on_change.append(partial(changes.note, "faults"))
    operator.observation.attempts.on_attempt.append(partial(changes.note, "outbox"))
    for announcing in (wallet.accounts.on_unlocked, wallet.accounts.on_locked, wallet.audit.on_line):
        announcing(partial(changes.note, "wallet"))
    return changes


def _bridge_url(settings: Settings) -> str | None:
    """The bridge's address for clients; None where it is the one by which the console was called."""
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    return None if settings.console_port is None else f"http://127.0.0.1:{settings.port}"


async def _state(operator: Operator, mode: "TestMode | None") -> ServerState:
    foundation, services = operator.foundation, operator.services
    stock = await services.stock()
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await services.readiness.check()
        is_ready = True
    except (TimeoutError, UnavailableError):
        is_ready = False
    return ServerState(
        is_ready=is_ready, troubles=services.readiness.troubles(), due=stock.due, dead=stock.dead,
        chain_id=services.wallet.node.known_chain_id, is_test=mode is not None,
        ahead_ms=foundation.clock.now_ms() - foundation.machine_clock.now_ms(),
    )  # fmt: skip
