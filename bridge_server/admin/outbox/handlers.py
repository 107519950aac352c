"""Handlers of the outbox's endpoints: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.neighbours import wanted_process
from bridge_server.admin.outbox import wire
from bridge_server.admin.outbox.gathering import AttemptsEverywhere
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.pages import wanted_page
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object


class OutboxHandlers:
    """One method per endpoint."""

    def __init__(self, desk: OutboxDesk, attempts: AttemptsEverywhere) -> None:
        self._desk = desk
        self._attempts = attempts

    async def messages(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(wire.read_filter(request.query), wire.read_place(after), limit)
        return fields_answer(wire.page_fields(found, self._desk.now_ms()))

    async def message(self, request: web.Request) -> web.Response:
        found = await self._attempts.message(*_id(request), self._wanted_process(request))
        return fields_answer(found)

    async def attempts(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        query = {name: request.query[name] for name in ("kind", "destination") if name in request.query}
        found = await self._attempts.page(query, after, limit, self._wanted_process(request))
        return fields_answer(found)

    async def attempt(self, request: web.Request) -> web.Response:
        number, process = request.match_info["number"], self._wanted_process(request)
        return fields_answer(await self._attempts.one(number, process))

    async def retry(self, request: web.Request) -> web.Response:
        stored = await self._desk.retry(*_id(request))
        return fields_answer(wire.message_fields(stored, self._desk.now_ms()))

    async def drop(self, request: web.Request) -> web.Response:
        await self._desk.drop(*_id(request))
        return json_answer(wire.SUCCESS)

    async def retry_dead(self, request: web.Request) -> web.Response:
        destination = wire.read_destination(await json_object(request))
        return fields_answer(wire.count_fields(await self._desk.retry_dead(destination)))

    async def drop_dead(self, request: web.Request) -> web.Response:
        destination = wire.read_destination(await json_object(request))
        return fields_answer(wire.count_fields(await self._desk.drop_dead(destination)))

    def _wanted_process(self, request: web.Request) -> str | int | None:
        """The process that the request names, where there are several. Raises InvalidInputError."""
        neighbours = self._attempts.neighbours
        return None if neighbours is None else wanted_process(request, neighbours)


def _id(request: web.Request) -> tuple[int, str]:
    return wire.read_id(request.match_info["id"])
