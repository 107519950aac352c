"""The handler of the settings: call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.settings import wire
from bridge_server.admin.settings.service import SettingsDesk


class SettingsHandlers:
    """One method per endpoint."""

    def __init__(self, desk: SettingsDesk) -> None:
        self._desk = desk

    async def settings(self, _: web.Request) -> web.Response:
        return fields_answer(wire.report_fields(await self._desk.report()))
