"""HTTP to the wallet and back: read, have the calls answered, write."""

from aiohttp import web

from bridge_server.wallet.models import Caller
from bridge_server.wallet.rpc.calls import Calls
from bridge_server.web.answers import json_answer, no_content
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.json_body import require_json
from bridge_server.web.json_rpc import read_requests
from bridge_server.web.request_id import REQUEST_ID


class WalletHandlers:
    """The one endpoint of the protocol's section D."""

    def __init__(self, calls: Calls, addresses: ClientAddresses) -> None:
        self._calls = calls
        self._addresses = addresses

    async def rpc(self, request: web.Request) -> web.Response:
        """200 with what there is to say, errors included; 204 when all were notifications."""
        require_json(request, is_declared=True)
        requests = read_requests(await request.read())
        caller = Caller(self._addresses.client(request), request.headers.get("Origin"), request[REQUEST_ID])
        if isinstance(requests, list):
            answer = await self._calls.answer_batch(requests, caller)
        else:
            answer = await self._calls.answer(requests, caller)
        return no_content() if answer is None else json_answer(answer)
