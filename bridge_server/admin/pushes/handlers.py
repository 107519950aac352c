"""Handlers of the pushes' endpoints: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.pushes import wire
from bridge_server.admin.pushes.service import PushDesk
from bridge_server.web.json_body import json_object


class PushDeskHandlers:
    """One method per endpoint."""

    def __init__(self, desk: PushDesk) -> None:
        self._desk = desk

    async def test(self, request: web.Request) -> web.Response:
        return fields_answer(
            wire.tested_fields(await self._desk.test(wire.read_topic(await json_object(request))))
        )

    async def preview(self, request: web.Request) -> web.Response:
        return fields_answer(wire.preview_fields(self._desk.preview(*wire.read_preview(request.query))))
