"""HTTP to test mode and back: read, one service call, write."""

from aiohttp import web

from bridge_server.testmode import fault_wire, wire
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.service import Controls
from bridge_server.web.answers import json_answer
from bridge_server.web.json_body import json_object, parse_value, require_json

_MOST_VALUES = 4_096


class TestModeHandlers:
    """One method per endpoint.

    Bodies need no Content-Type: no web page may call these routes, and curl names a wrong one. `routes` are
    the names that a rule may have, and `words` the answers that it may give, by place.
    """

    __test__ = False

    def __init__(
        self,
        controls: Controls,
        instruments: Instruments,
        routes: frozenset[str],
        words: fault_wire.Words,
    ) -> None:
        self._controls = controls
        self._instruments = instruments
        self._routes = routes
        self._words = words

    async def reset(self, _: web.Request) -> web.Response:
        return json_answer(wire.write_reset(await self._controls.reset()))

    async def clock(self, _: web.Request) -> web.Response:
        return json_answer(wire.write_clock(self._controls.reading()))

    async def move_clock(self, request: web.Request) -> web.Response:
        move = wire.read_clock((await json_object(request, is_labelled=False)).values)
        return json_answer(wire.write_clock(await self._controls.move(move)))

    async def faults(self, _: web.Request) -> web.Response:
        return json_answer(fault_wire.write_faults(self._instruments.faults.rules))

    async def replace_faults(self, request: web.Request) -> web.Response:
        require_json(request, is_labelled=False)
        document = parse_value(await request.read(), "The body", _MOST_VALUES)
        self._instruments.faults.replace(fault_wire.read_faults(document, self._routes, self._words))
        return await self.faults(request)

    async def sent(self, request: web.Request) -> web.Response:
        wanted, wait_seconds = wire.read_wanted(request.query), wire.read_wait(request.query)
        return json_answer(wire.write_sent(await self._instruments.sent.matching(wanted, wait_seconds)))

    async def forget_sent(self, _: web.Request) -> web.Response:
        return json_answer(wire.write_deleted(self._instruments.sent.clear()))

    async def traffic(self, request: web.Request) -> web.Response:
        after, traffic = wire.read_after(request.query), self._instruments.traffic
        requests = await traffic.after(after, wire.read_wait(request.query))
        return json_answer(wire.write_traffic(requests, traffic.last_number))
