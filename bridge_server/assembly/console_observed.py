"""The console's pages of what passes through the server: traffic, sessions, clients."""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

from bridge_server.admin.traffic.stream import TrafficStreams
from bridge_server.admin.traffic.wire import line_fields
from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.operator_views import OperatorViews
from bridge_server.console.changes import PageChanges
from bridge_server.console.clients.handlers import ClientsPage
from bridge_server.console.models import ConsolePage
from bridge_server.console.sessions.handlers import SessionsPage
from bridge_server.console.traffic.handlers import TrafficPage
from bridge_server.console.traffic.rows import row_fields
from bridge_server.kernel.background import running
from bridge_server.settings.settings import Settings
from bridge_server.web.traffic import Recorded, TrafficLog

OBSERVED = "observed"
"""The topic of lists that change with almost every request. Open pages look again every few seconds."""

_LOOK_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class ObservedPages:
    """The pages, and what runs beside them. Without a record of requests there are no streams."""

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
    page = TrafficPage(streams, views.lives, handles, _bridge_url(settings), answers_calls=answers_calls)
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
