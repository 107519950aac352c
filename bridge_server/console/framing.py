"""The frame of a page: its navigation, the state of the server, notices and failures."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeAlias

from aiohttp import web

from bridge_server.console.changes import PageChanges
from bridge_server.console.models import (
    ConsolePage,
    ConsoleSession,
    Done,
    NavigationGroup,
    ServerState,
    View,
)
from bridge_server.console.notices import NOTICE
from bridge_server.console.rendering import Rendering
from bridge_server.kernel.errors import BridgeError, InvalidInputError
from bridge_server.web.hosts import host_of
from bridge_server.web.problems import status_of

StateOf: TypeAlias = Callable[[], Awaitable[ServerState]]


class Framing:
    """Puts views into the frame that all pages have."""

    def __init__(
        self, rendering: Rendering, changes: PageChanges, pages: Sequence[ConsolePage], state: StateOf
    ) -> None:
        self._rendering = rendering
        self._changes = changes
        self._pages = pages
        self._state = state

    def begin(self, request: web.Request, session: ConsoleSession, page: ConsolePage) -> dict[str, Any]:
        """The fields of every page that are known before it is read."""
        return {
            "page": page,
            "host": host_of(request),
            "here": str(request.rel_url.without_query_params(NOTICE)),
            "form_token": session.form_token,
            "since": self._changes.number,
        }

    async def finish(
        self,
        frame: dict[str, Any],
        view: View,
        notice: Done | None = None,
        error: BridgeError | None = None,
        sent: Mapping[str, str] | None = None,
    ) -> web.Response:
        """The page: the view in a frame that was begun. `sent` are the fields of a form that stay filled."""
        error = error or view.error
        fields = {
            **frame,
            **view.fields,
            "live": ",".join(view.live),
            "navigation": await self._navigation(),
            "state": await self._state(),
            "notice": notice,
            "error": error,
            "faults": faults_of(error),
            "sent": sent or {},
        }
        return self._rendering.page(view.template, fields, 200 if error is None else status_of(error))

    async def _navigation(self) -> list[tuple[NavigationGroup, list[tuple[ConsolePage, int | None]]]]:
        """The groups that have pages, with the pages' numbers."""
        entries = [(page, None if page.count is None else await page.count()) for page in self._pages]
        groups = [
            (group, [entry for entry in entries if entry[0].group is group]) for group in NavigationGroup
        ]
        return [(group, entries) for group, entries in groups if entries]


def faults_of(error: BridgeError | None) -> list[tuple[str, str]]:
    """The places of an input's faults, as its form names them, with their descriptions."""
    if not isinstance(error, InvalidInputError):
        return []
    return [(fault.pointer.rpartition("/")[2].replace("_", " "), fault.detail) for fault in error.faults]
