"""Handlers of sessions."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.sessions import wire
from bridge_server.admin.sessions.service import SessionViews


class SessionHandlers:
    """One method per endpoint."""

    def __init__(self, views: SessionViews) -> None:
        self._views = views

    async def sessions(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        page = await self._views.page(wire.read_after(after), limit)
        return fields_answer(wire.page_fields(*page, self._views.handles))

    async def session(self, request: web.Request) -> web.Response:
        story = await self._views.story(request.match_info["handle"])
        return fields_answer(wire.story_fields(story, self._views.traffic, self._views.handles))

    async def end(self, request: web.Request) -> web.Response:
        await self._views.end(request.match_info["handle"])
        return fields_answer(wire.SUCCESS)
