"""The console's pages, and the door to them. A new page is a function here and a line in `_pages`."""

import asyncio
import os
from collections.abc import Sequence
from functools import partial
from urllib.parse import urlsplit

from bridge_server.assembly.console import ConsoleParts
from bridge_server.assembly.console_access import console_access
from bridge_server.assembly.console_notifications import notification_pages
from bridge_server.assembly.console_observed import OBSERVED, ObservedPages, following, observed_pages
from bridge_server.assembly.console_out import OUT_TOPICS, note_what_goes_out, out_pages
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.room import Room
from bridge_server.console.changes import PageChanges
from bridge_server.console.cookies import SessionCookies
from bridge_server.console.door import Door
from bridge_server.console.faults.handlers import FaultsPage
from bridge_server.console.handlers import ConsoleHandlers
from bridge_server.console.models import ROOT, ConsolePage, ServerState
from bridge_server.console.notices import OneTimeNotices
from bridge_server.console.projects.handlers import ProjectsPage
from bridge_server.console.refused_attempts import RefusedAttempts
from bridge_server.console.rendering import Rendering
from bridge_server.console.routes import console_routes
from bridge_server.console.settings.handlers import SettingsPage
from bridge_server.console.static_folder import STATIC_FOLDER
from bridge_server.inbox.events import MarkedRead
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.events import DomainEvent
from bridge_server.notify.events import AllMarkedRead, Delivered
from bridge_server.outbox.events import OutboxChanged, OutboxCounted, OutboxGrew
from bridge_server.projects.events import ProjectChanged
from bridge_server.storage.events import ChangedOutside
from bridge_server.web.hosts import Hosts
from bridge_server.web.static_files import StaticFiles

_PATIENCE_SECONDS = 1.0
_TOPICS: dict[str, Sequence[type[DomainEvent]]] = {
    "faults": (),
    "notifications": (Delivered, MarkedRead, AllMarkedRead),
    OBSERVED: (),
    "outbox": (OutboxGrew, OutboxChanged, OutboxCounted),
    "projects": (ProjectChanged,),
    **OUT_TOPICS,
}
"""What open pages can wait for, with the events that announce it. Rules for faults announce themselves."""


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
    handlers = ConsoleHandlers(
        access,
        cookies,
        Door(access, cookies, Hosts((own_host,)), refused.note),
        Rendering({"root": ROOT, "static": static_files.paths}),
        OneTimeNotices(os.urandom),
        changes,
        pages,
        partial(_state, foundation, parts),
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
    figures = parts.operated.dispatcher.figures()
    return ServerState(
        is_ready=await _is_ready(parts),
        troubles=parts.operated.readiness.troubles(),
        mode=_mode(foundation),
        due=figures["due"],
        dead=figures["dead"],
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
