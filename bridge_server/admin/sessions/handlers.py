"""Handlers of sessions."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.neighbours import wanted_process
from bridge_server.admin.pages import wanted_page
from bridge_server.admin.sessions import wire
from bridge_server.admin.sessions.gathering import SessionsEverywhere


class SessionHandlers:
    """One method per endpoint."""

    def __init__(self, sessions: SessionsEverywhere) -> None:
        self._sessions = sessions

    async def sessions(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        return fields_answer(await self._sessions.page(after, limit, self._wanted_process(request)))

    async def session(self, request: web.Request) -> web.Response:
        handle, process = request.match_info["handle"], self._wanted_process(request)
        return fields_answer(await self._sessions.story(handle, process))

    async def end(self, request: web.Request) -> web.Response:
        await self._sessions.end(request.match_info["handle"])
        return fields_answer(wire.SUCCESS)

    def _wanted_process(self, request: web.Request) -> str | int | None:
        """The process that the request names, where there are several. Raises InvalidInputError."""
        neighbours = self._sessions.neighbours
        return None if neighbours is None else wanted_process(request, neighbours)
