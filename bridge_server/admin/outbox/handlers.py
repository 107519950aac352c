"""Handlers of the outbox's endpoints: read the request, call the service once, write the answer."""

from collections.abc import Callable, Mapping

from aiohttp import web

from bridge_server.admin.outbox import wire
from bridge_server.admin.outbox.service import OutboxDesk
from bridge_server.admin.pages import wanted_page
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object


class OutboxHandlers:
    """One method per endpoint. `headers_of` makes the headers with which a webhook would be sent now."""

    def __init__(
        self, desk: OutboxDesk, headers_of: Callable[[OutgoingMessage, int], Mapping[str, str]]
    ) -> None:
        self._desk = desk
        self._headers_of = headers_of

    async def messages(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(wire.read_filter(request.query), wire.read_place(after), limit)
        return json_answer(wire.write(wire.page_fields(found, self._desk.now_ms())))

    async def message(self, request: web.Request) -> web.Response:
        found, now_ms = await self._desk.message(*_id(request)), self._desk.now_ms()
        is_webhook = found.message.channel in ("http", "https")
        headers = self._headers_of(found.message, now_ms) if is_webhook else {}
        return json_answer(wire.write(wire.whole_fields(found, headers, now_ms)))

    async def retry(self, request: web.Request) -> web.Response:
        stored = await self._desk.retry(*_id(request))
        return json_answer(wire.write(wire.message_fields(stored, self._desk.now_ms())))

    async def drop(self, request: web.Request) -> web.Response:
        await self._desk.drop(*_id(request))
        return json_answer(wire.SUCCESS)

    async def retry_dead(self, request: web.Request) -> web.Response:
        destination = wire.read_destination(await json_object(request))
        return json_answer(wire.write(wire.count_fields(await self._desk.retry_dead(destination))))

    async def drop_dead(self, request: web.Request) -> web.Response:
        destination = wire.read_destination(await json_object(request))
        return json_answer(wire.write(wire.count_fields(await self._desk.drop_dead(destination))))


def _id(request: web.Request) -> tuple[int, str]:
    return wire.read_id(request.match_info["id"])
