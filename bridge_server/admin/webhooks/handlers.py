"""The handler of a webhook's test: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.webhooks import wire
from bridge_server.admin.webhooks.service import WebhookTests
from bridge_server.web.json_body import json_object


class WebhookTestHandlers:
    """One method per endpoint."""

    def __init__(self, tests: WebhookTests) -> None:
        self._tests = tests

    async def send(self, request: web.Request) -> web.Response:
        tested = await self._tests.send(wire.read_url(await json_object(request)))
        return fields_answer(wire.tested_fields(tested))
