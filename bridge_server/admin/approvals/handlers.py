"""Handlers of the approvals' endpoints: read the request, call the service once, write the answer."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.approvals import wire
from bridge_server.admin.approvals.service import ApprovalDesk
from bridge_server.admin.pages import wanted_page
from bridge_server.wallet.models import ApprovalState


class ApprovalHandlers:
    """One method per endpoint."""

    def __init__(self, desk: ApprovalDesk) -> None:
        self._desk = desk

    async def approvals(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(wire.read_place(after), limit)
        return fields_answer(wire.page_fields(found, self._desk.now_ms()))

    async def approval(self, request: web.Request) -> web.Response:
        found = await self._desk.named(request.match_info["id"])
        return fields_answer(wire.whole_fields(found, self._desk.now_ms()))

    async def approve(self, request: web.Request) -> web.Response:
        return await self._decide(request, ApprovalState.APPROVED)

    async def reject(self, request: web.Request) -> web.Response:
        return await self._decide(request, ApprovalState.REJECTED)

    async def _decide(self, request: web.Request, decision: ApprovalState) -> web.Response:
        decided = await self._desk.decide(request.match_info["id"], decision)
        return fields_answer(wire.whole_fields(decided, self._desk.now_ms()))
