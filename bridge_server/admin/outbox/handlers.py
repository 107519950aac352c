"""Handlers of the outbox's endpoints: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.outbox import wire
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.pages import wanted_page
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object


class OutboxHandlers:
    """One method per endpoint."""

    def __init__(self, desk: OutboxDesk) -> None:
        self._desk = desk

    async def messages(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(wire.read_filter(request.query), wire.read_place(after), limit)
        return fields_answer(wire.page_fields(found, self._desk.now_ms()))

    async def message(self, request: web.Request) -> web.Response:
        found = await self._desk.message(*_id(request))
        headers, attempts = self._desk.headers(found), self._desk.attempts_of(found.message.message_id)
        return fields_answer(wire.attempted_fields(found, headers, attempts, self._desk.now_ms()))

    async def attempts(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        wanted, before = wire.read_attempt_filter(request.query), wire.read_attempt_place(after)
        found = self._desk.attempts(wanted, before, limit)
        return fields_answer(wire.attempt_page_fields(found, self._desk.outcomes()))

    async def attempt(self, request: web.Request) -> web.Response:
        found = self._desk.attempt(wire.read_attempt(request.match_info["number"]))
        return fields_answer(wire.whole_attempt_fields(found))

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


def _id(request: web.Request) -> tuple[int, str]:
    return wire.read_id(request.match_info["id"])
