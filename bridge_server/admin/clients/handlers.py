"""Handlers of clients."""

from collections.abc import Sequence

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.clients import wire
from bridge_server.admin.clients.service import ClientViews
from bridge_server.admin.neighbours import Fields, Neighbours, Reply, of_all
from bridge_server.admin.pages import wanted_page
from bridge_server.web.client_address import ClientAddresses


class ClientHandlers:
    """One method per endpoint."""

    def __init__(
        self, views: ClientViews, addresses: ClientAddresses, neighbours: Neighbours | None = None
    ) -> None:
        """Without `neighbours` there is no other process."""
        self._views = views
        self._addresses = addresses
        self._neighbours = neighbours

    async def clients(self, request: web.Request) -> web.Response:
        _, limit = wanted_page(request)
        by, last_seconds = wire.read_by(request.query), wire.read_last_seconds(request.query)

        async def own() -> Fields:
            return wire.list_fields(self._views.heaviest(by, limit, last_seconds))

        def merged(number: int, mine: Fields, replies: Sequence[Reply]) -> Fields:
            return wire.merged_list(number, mine, replies, by, limit)

        return fields_answer(await of_all(self._neighbours, request, own, merged))

    async def me(self, request: web.Request) -> web.Response:
        addresses = self._addresses
        peer, address = request.remote or "", addresses.client(request)
        forwarded = ", ".join(request.headers.getall("X-Forwarded-For", ())) or None
        is_exempt = addresses.key_of(address) is None
        return fields_answer(wire.arrival_fields(peer, forwarded, addresses.trusts(peer), address, is_exempt))

    async def client(self, request: web.Request) -> web.Response:
        async def own() -> Fields:
            return wire.details_fields(self._views.details(request.match_info["address"]))

        return fields_answer(await of_all(self._neighbours, request, own, wire.merged_details))
