"""Handler of the figures."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.stats import wire
from bridge_server.admin.stats.service import StatsReader


class StatsHandlers:
    """The one endpoint."""

    def __init__(self, reader: StatsReader) -> None:
        self._reader = reader

    async def stats(self, _: web.Request) -> web.Response:
        return fields_answer(wire.stats_fields(await self._reader.read()))
