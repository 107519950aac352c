"""The pages at `/docs/` as rows, and the page at the root."""

import asyncio
import re
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib import import_module
from typing import Any

from aiohttp import web

from bridge_server.kernel.fields import is_loopback
from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.values import dataclass
from bridge_server.web import addresses, answers, connection, routes

_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::[0-9]{1,5})?", re.ASCII)
_NO_HOST = "localhost"


@dataclass(frozen=True, slots=True)
class FrontFacts:
    """The settings that decide where the page at the root leads to."""

    public_url: str | None
    has_console: bool
    console_port: int | None
    """The console's own port; None where it is on the server's."""
    project_id: str | None
    """The project of a server for development."""

    def of_visit(self, host: str) -> dict[str, Any]:
        """The addresses for a visitor whose browser names this host, as its Host field spells it."""
        found = _HOST.fullmatch(host)
        name = found[1] if found is not None else _NO_HOST
        bridge = self.public_url or f"http://{host if found is not None else _NO_HOST}"
        return {
            "bridge": bridge,
            "relay": f"ws{bridge.removeprefix('http')}",
            "console": self._console_at(name),
            "may_turn_on": not self.has_console and is_loopback(name),
            "project": self.project_id,
        }

    def _console_at(self, name: str) -> str | None:
        """The console's address; None while it is off, or where the visitor may not reach its own port."""
        if not self.has_console:
            return None
        if self.console_port is None:
            return "/console"
        is_reachable = self.console_port and is_loopback(name)
        return f"http://{name}:{self.console_port}/console" if is_reachable else None


class DocumentationHandlers:
    """Answers the pages. `describe` makes the OpenAPI document of the server."""

    def __init__(self, describe: Callable[[], Mapping[str, Any]], front: FrontFacts) -> None:
        self._describe = describe
        self._front = front
        self._turn = asyncio.Lock()

    async def front(self, request: web.Request) -> web.StreamResponse:
        """The page at the root: where clients connect, and where people read on."""
        facts = self._front.of_visit(addresses.host_of(request))
        return await self._page(lambda: self._site.front(facts))

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The page or the picture of the path; a page with status 404 if there is none."""
        return await self._page(lambda: self._site.page(request.match_info.get("page", "")))

    async def static(self, request: web.Request) -> web.StreamResponse:
        """A stylesheet, or the script of the page with Swagger UI."""
        files: answers.StaticFiles = await self._in_thread(lambda: self._site.static_files)
        return await files.answer(request)

    async def swagger_ui(self, request: web.Request) -> web.StreamResponse:
        """A file of Swagger UI."""
        files: answers.StaticFiles = await self._in_thread(lambda: self._site.tried_files)
        return await files.answer(request)

    async def _page(self, make: Callable[[], Any]) -> web.StreamResponse:
        page = await self._in_thread(make)
        return answers.WholeAnswer(body=page.body, headers=page.headers, status=page.status)

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Make pages one at a time: a page that many ask for is made once, and occupies one thread."""
        async with self._turn:
            return await asyncio.to_thread(work)

    @cached_property
    def _site(self) -> Any:
        library = import_module("bridge_server.description.markdown").open_library()
        site = import_module("bridge_server.description.site")  # late: it reads and parses every page
        return site.Site(library, self._describe)


def documentation_routes(handlers: DocumentationHandlers, every_request: Limit) -> tuple[routes.Route, ...]:
    """Every page, for everyone: they say nothing of what the server stores."""
    row = partial(routes.Route, "GET", limits=(every_request,), who="reader")
    return (
        row(connection.PAGES_PATH, "docs-start", handlers.page),
        row("/docs/static/{name}", "docs-static", handlers.static),
        row("/docs/try/{name}", "docs-swagger-ui", handlers.swagger_ui),
        row(r"/docs/{page:[\s\S]*}", "docs-page", handlers.page),
    )
