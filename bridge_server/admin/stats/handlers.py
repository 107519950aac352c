"""Handler of the figures."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.neighbours import Fields, Neighbours, Question, of_all, wanted_process
from bridge_server.admin.stats import wire
from bridge_server.admin.stats.service import StatsReader


class StatsHandlers:
    """The one endpoint. Without `neighbours` there is no other process."""

    def __init__(self, reader: StatsReader, neighbours: Neighbours | None = None) -> None:
        self._reader = reader
        self._neighbours = neighbours

    async def stats(self, request: web.Request) -> web.Response:
        wanted = wanted_process(request, self._neighbours)
        question = Question(request.path)
        return fields_answer(await of_all(self._neighbours, wanted, question, self._own, wire.merged_fields))

    async def _own(self) -> Fields:
        return wire.stats_fields(await self._reader.read())
