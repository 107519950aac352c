"""Handlers of clients."""

from aiohttp import web

from bridge_server.admin.answers import fields_answer
from bridge_server.admin.clients import wire
from bridge_server.admin.clients.gathering import ClientsEverywhere
from bridge_server.admin.neighbours import wanted_process
from bridge_server.admin.pages import wanted_page
from bridge_server.web.client_address import ClientAddresses


class ClientHandlers:
    """One method per endpoint."""

    def __init__(self, clients: ClientsEverywhere, addresses: ClientAddresses) -> None:
        self._clients = clients
        self._addresses = addresses

    async def clients(self, request: web.Request) -> web.Response:
        _, limit = wanted_page(request)
        by, last = wire.read_by(request.query), wire.read_last(request.query)
        return fields_answer(
            await self._clients.heaviest(by, last, limit, wanted_process(request, self._clients.neighbours))
        )

    async def me(self, request: web.Request) -> web.Response:
        addresses = self._addresses
        peer, address = request.remote or "", addresses.client(request)
        forwarded = ", ".join(request.headers.getall("X-Forwarded-For", ())) or None
        is_exempt = addresses.key_of(address) is None
        return fields_answer(wire.arrival_fields(peer, forwarded, addresses.trusts(peer), address, is_exempt))

    async def client(self, request: web.Request) -> web.Response:
        address = request.match_info["address"]
        return fields_answer(
            await self._clients.details(address, wanted_process(request, self._clients.neighbours))
        )
