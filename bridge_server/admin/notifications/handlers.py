"""Handlers of notifications: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.notifications import wire
from bridge_server.admin.pages import wanted_page
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.history_store import HistoryStore
from bridge_server.projects.models import ProjectId
from bridge_server.web.dry_run import wanted_dry_run
from bridge_server.web.json_body import json_object


class NotificationHandlers:
    """One method per endpoint."""

    def __init__(self, history: HistoryStore, audiences: Audiences) -> None:
        self._history = history
        self._audiences = audiences

    async def notifications(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        before = wire.read_place(after)
        found = await self._history.notifications(_project_id(request), before, limit + 1)
        return fields_answer(wire.notification_page_fields(found, limit))

    async def notification(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        outcome, place = wire.read_outcome(request.query.get("outcome")), wire.read_account_place(after)
        number = int(request.match_info["number"])
        found, page = await self._history.outcomes(_project_id(request), number, outcome, place, limit)
        return fields_answer(wire.outcome_page_fields(found, page))

    async def notify(self, request: web.Request) -> web.Response:
        is_dry_run = wanted_dry_run(request)
        wanted = wire.read_notify(await json_object(request), is_dry_run)
        outcome = await self._audiences.notify(_project_id(request), wanted, is_dry_run)
        return fields_answer(wire.audience_outcome_fields(outcome))


def _project_id(request: web.Request) -> ProjectId:
    return ProjectId(request.match_info["project_id"])
