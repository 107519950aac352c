"""The handler of the settings: call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.settings import wire
from bridge_server.admin.settings.service import SettingsDesk
from bridge_server.web.answers import json_answer


class SettingsHandlers:
    """One method per endpoint."""

    def __init__(self, desk: SettingsDesk) -> None:
        self._desk = desk

    async def settings(self, _: web.Request) -> web.Response:
        return json_answer(wire.write(wire.report_fields(await self._desk.report())))
