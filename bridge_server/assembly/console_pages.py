"""The console's pages, and the door to them. A new page is a function here and a line in `_pages`."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from functools import partial
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

from bridge_server.admin.traffic_records import line_fields
from bridge_server.admin.traffic_stream import TrafficStreams
from bridge_server.assembly.admin import ConsoleParts, OperatorViews
from bridge_server.assembly.command_line import console_access
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.console.access import Door, RefusedAttempts, SessionCookies, SessionEnds
from bridge_server.console.analytics import AnalyticsPage
from bridge_server.console.compose import ComposePage, Sendings
from bridge_server.console.faults import FaultsPage
from bridge_server.console.handlers import ConsoleHandlers, console_routes
from bridge_server.console.models import ROOT, ConsolePage, ServerState
from bridge_server.console.notifications import InboxPreview, NotificationsPage
from bridge_server.console.outbox import PushesPage, WebhooksPage
from bridge_server.console.projects import ProjectsPage
from bridge_server.console.rendering import (
    STATIC_FOLDER,
    Framing,
    OneTimeNotices,
    PageChanges,
    ProjectChoice,
    Rendering,
)
from bridge_server.console.server import ClientsPage, SettingsPage
from bridge_server.console.sessions import SessionsPage
from bridge_server.console.traffic import TrafficPage, row_fields
from bridge_server.console.wallet import WalletPage
from bridge_server.inbox.models import MarkedRead
from bridge_server.kernel.background import running
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass
from bridge_server.notify.models import AllMarkedRead, Delivered
from bridge_server.outbox.models import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.projects.models import ProjectChanged
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import ChangedOutside
from bridge_server.wallet.approvals import ApprovalsChanged
from bridge_server.wallet.transactions.states import (
    TransactionsMoved,
    TransactionsOwed,
    TransactionsPostponed,
)
from bridge_server.web.addresses import Hosts
from bridge_server.web.answers import StaticFiles
from bridge_server.web.traffic import Recorded, TrafficLog

# The console's pages of notifications: composing, sent notifications, analytics, inboxes.


def notification_pages(foundation: Foundation, parts: ConsoleParts) -> tuple[ConsolePage, ...]:
    """The pages in the order of the navigation."""
    desks = parts.desks
    projects, limit = desks.projects.projects, desks.projects.account_limit
    choice = ProjectChoice(projects, limit)
    sendings = Sendings(desks.audiences, foundation.clock, os.urandom)
    return (
        ComposePage(choice, sendings, desks.history, os.urandom).page(),
        NotificationsPage(choice, desks.history, desks.accounts, limit).page(),
        AnalyticsPage(choice, projects).page(),
        InboxPreview(desks.inbox, desks.accounts, limit).page(),
    )


# The console's pages of traffic, sessions and clients.

OBSERVED = "observed"
"""The topic of lists that change with almost every request. Open pages look again every few seconds."""

_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ObservedPages:
    """The pages, and their background work. Without a record of requests there are no streams."""

    traffic: ConsolePage
    sessions: ConsolePage
    clients: ConsolePage
    streams: TrafficStreams | None

    def stop(self) -> None:
        """End every stream: the server stops."""
        if self.streams is not None:
            self.streams.close()


def observed_pages(foundation: Foundation, views: OperatorViews) -> ObservedPages:
    """The pages over the operator's views."""
    observation = views.observation
    traffic, handles = observation.traffic, views.handles
    streams = None if traffic is None else TrafficStreams(traffic, partial(_row, traffic))
    settings = foundation.settings
    answers_calls = settings.test and settings.console_port is None
    page = TrafficPage(
        streams,
        views.lives,
        handles,
        views.neighbours,
        _bridge_url(settings),
        answers_calls=answers_calls,
    )
    return ObservedPages(
        page.page(), SessionsPage(views.sessions).page(), ClientsPage(views.clients).page(), streams
    )


def following(
    pages: ObservedPages, changes: PageChanges
) -> Callable[[], AbstractAsyncContextManager[object]]:
    """Keeps open pages up to date until the end of the context."""

    @asynccontextmanager
    async def follow() -> AsyncIterator[None]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(running(_look_forever(changes)))
            if pages.streams is not None:
                await stack.enter_async_context(running(pages.streams.push_forever()))
            yield

    return follow


async def _look_forever(changes: PageChanges) -> None:
    while True:
        await asyncio.sleep(_LOOK_SECONDS)
        if changes.is_watched(OBSERVED):
            changes.note(OBSERVED)


def _row(traffic: TrafficLog, recorded: Recorded) -> dict[str, Any]:
    return row_fields(line_fields(recorded, traffic))


def _bridge_url(settings: Settings) -> str | None:
    """The bridge's address for clients; None where it is the one by which the console was called."""
    if settings.public_url is not None:
        return settings.public_url.rstrip("/")
    return None if settings.console_port is None else f"http://127.0.0.1:{settings.port}"


# The console's pages of outgoing messages: signatures, webhooks, pushes.

OUT_TOPICS: Mapping[str, Sequence[type[DomainEvent]]] = MappingProxyType(
    {"wallet": (ApprovalsChanged, TransactionsMoved, TransactionsOwed, TransactionsPostponed)}
)
"""The topics of these pages. Keys and lines of the audit log announce themselves."""


def note_what_goes_out(foundation: Foundation, parts: ConsoleParts, changes: PageChanges) -> None:
    """Note the changes of these pages that no commit announces."""
    if foundation.observation is not None:
        foundation.observation.attempts.on_attempt(partial(changes.note, "outbox"))
    note_wallet = partial(changes.note, "wallet")
    parts.operated.wallet.accounts.on_unlocked(note_wallet)
    parts.operated.wallet.accounts.on_locked(note_wallet)
    parts.operated.wallet.audit.on_line(note_wallet)


def out_pages(foundation: Foundation, parts: ConsoleParts) -> tuple[ConsolePage, ...]:
    """The pages; the wallet's page can sign with the setting `admin_wallet`."""
    desks = parts.desks
    return (
        WalletPage(desks.approvals, desks.wallet, may_sign=foundation.settings.admin_wallet).page(),
        WebhooksPage(desks.outbox, desks.attempts, desks.webhook_tests).page(),
        PushesPage(desks.outbox, desks.attempts, desks.push_tests).page(),
    )


_PATIENCE_SECONDS = 1.0
_TOPICS: dict[str, Sequence[type[DomainEvent]]] = {
    "faults": (),
    "notifications": (Delivered, MarkedRead, AllMarkedRead),
    OBSERVED: (),
    "outbox": (OutboxGrew, OutboxChanged, OutboxCounted),
    "projects": (ProjectChanged,),
    **OUT_TOPICS,
}
"""The topics of changes that open pages wait for, with the events of each. Rules for faults need none."""


def access_room(foundation: Foundation) -> Room:
    """Deletes expired links and sessions."""
    return Room(name="console-access", sweeps=(console_access(foundation).sweep,))


def pages_room(foundation: Foundation, parts: ConsoleParts) -> Room:
    """The endpoints of every page."""
    settings = foundation.settings
    access, cookies = console_access(foundation), SessionCookies(settings.public_url)
    changes = PageChanges(foundation.machine_clock.now_ms(), list(_TOPICS))
    changes.follow(foundation.events, _TOPICS, ChangedOutside)
    if parts.test_mode is not None:
        parts.test_mode.instruments.faults.on_change(partial(changes.note, "faults"))
    note_what_goes_out(foundation, parts, changes)
    observed = observed_pages(foundation, parts.views)
    static_files, pages = _static_files(), _pages(foundation, parts, observed)
    own_host = urlsplit(settings.public_url or "").hostname or ""
    refused = RefusedAttempts(foundation.addresses, foundation.machine_clock)
    rendering = Rendering({"root": ROOT, "static": static_files.paths})
    handlers = ConsoleHandlers(
        access,
        SessionEnds(access, foundation.events),
        cookies,
        Door(access, cookies, Hosts((own_host,)), refused.note),
        rendering,
        OneTimeNotices(os.urandom),
        changes,
        Framing(rendering, changes, pages, partial(_state, foundation, parts)),
        home=f"{ROOT}{pages[0].paths[0].path}",
    )
    return Room(
        name="console",
        routes=console_routes(handlers, static_files, pages, foundation.every_request),
        has_own_port=settings.console_port is not None,
        running=(following(observed, changes),),
        stop=partial(_stop, changes, observed),
    )


def _stop(changes: PageChanges, observed: ObservedPages) -> None:
    changes.end()
    observed.stop()


def _pages(foundation: Foundation, parts: ConsoleParts, observed: ObservedPages) -> tuple[ConsolePage, ...]:
    """The pages in the order of the navigation."""
    return (
        observed.traffic,
        observed.sessions,
        *out_pages(foundation, parts),
        _projects(parts),
        *notification_pages(foundation, parts),
        observed.clients,
        *_faults(parts),
        SettingsPage(parts.desks.settings).page(),
    )


def _projects(parts: ConsoleParts) -> ConsolePage:
    services = parts.desks.projects
    return ProjectsPage(services.projects, services.subscriptions, services.account_limit).page()


def _faults(parts: ConsoleParts) -> tuple[ConsolePage, ...]:
    mode = parts.test_mode
    if mode is None:
        return ()
    return (FaultsPage(mode.controls, mode.instruments.faults, mode.routes, mode.words).page(),)


async def _state(foundation: Foundation, parts: ConsoleParts) -> ServerState:
    stock = await parts.operated.stock()
    return ServerState(
        is_ready=await _is_ready(parts),
        troubles=parts.operated.readiness.troubles(),
        mode=_mode(foundation),
        due=stock.due,
        dead=stock.dead,
        chain_id=parts.operated.wallet.node.known_chain_id,
        is_test=parts.test_mode is not None,
        ahead_ms=foundation.clock.now_ms() - foundation.machine_clock.now_ms(),
    )


async def _is_ready(parts: ConsoleParts) -> bool:
    try:
        async with asyncio.timeout(_PATIENCE_SECONDS):
            await parts.operated.readiness.check()
    except (TimeoutError, UnavailableError):
        return False
    return True


def _mode(foundation: Foundation) -> str | None:
    if foundation.settings.dev_accounts:
        return "development: everybody knows the keys"
    return "test mode: tests can empty this server" if foundation.settings.test else None


def _static_files() -> StaticFiles:
    return StaticFiles(f"{ROOT}/static", sorted(STATIC_FOLDER.iterdir()))
