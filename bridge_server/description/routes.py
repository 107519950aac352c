"""The pages at `/docs/` as rows."""

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from importlib import import_module
from typing import Any

from aiohttp import web

from bridge_server.kernel.token_bucket import Limit
from bridge_server.web.answers import WholeAnswer
from bridge_server.web.connection import PAGES_PATH
from bridge_server.web.routes import Handler, Route


class DocumentationHandlers:
    """Answers the pages. `describe` makes the OpenAPI document of the server."""

    def __init__(self, describe: Callable[[], Mapping[str, Any]]) -> None:
        self._describe = describe
        self._turn = asyncio.Lock()

    async def page(self, request: web.Request) -> web.StreamResponse:
        """The page or the picture of the path; a page with status 404 if there is none."""
        page = await self._in_thread(partial(self._page, request.match_info.get("page", "")))
        return WholeAnswer(body=page.body, headers=page.headers, status=page.status)

    async def static(self, request: web.Request) -> web.StreamResponse:
        """A stylesheet, or the script of the page with Swagger UI."""
        site = await self._in_thread(lambda: self._site)
        answer: web.Response = site.static_files.file(request.match_info["name"])
        return answer

    async def swagger_ui(self, request: web.Request) -> web.StreamResponse:
        """A file of Swagger UI."""
        files = await self._in_thread(lambda: self._site.tried_files)
        answer: web.Response = files.file(request.match_info["name"])
        return answer

    async def _in_thread(self, work: Callable[[], Any]) -> Any:
        """Make pages one at a time: a page that many ask for is made once, and occupies one thread."""
        async with self._turn:
            return await asyncio.to_thread(work)

    def _page(self, path: str) -> Any:
        return self._site.page(path)

    @cached_property
    def _site(self) -> Any:
        site = import_module("bridge_server.description.site")  # late: it reads and parses every page
        return site.Site(site.open_library(), self._describe)


def documentation_routes(handlers: DocumentationHandlers, every_request: Limit) -> tuple[Route, ...]:
    """Every page, for everyone: they say nothing of what the server stores."""

    def row(path: str, name: str, handler: Handler) -> Route:
        return Route(
            method="GET", path=path, name=name, handler=handler, limits=(every_request,), who="reader"
        )

    return (
        row(PAGES_PATH, "docs-start", handlers.page),
        row("/docs/static/{name}", "docs-static", handlers.static),
        row("/docs/try/{name}", "docs-swagger-ui", handlers.swagger_ui),
        row(r"/docs/{page:[\s\S]*}", "docs-page", handlers.page),
    )
