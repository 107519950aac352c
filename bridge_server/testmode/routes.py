"""The control routes: what answers them, and their rows.

An underscore cannot be in a project id: no project's path is among them.
"""

from collections.abc import Callable
from functools import partial

from aiohttp import web

from bridge_server.kernel.errors import ForbiddenError
from bridge_server.testmode import wire
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.service import Controls
from bridge_server.web.addresses import Hosts, host_of
from bridge_server.web.answers import json_answer
from bridge_server.web.bodies import json_object, parse_value, require_json
from bridge_server.web.routes import Route

PREFIX = "/_test"
"""The path of every control route begins with this."""

_BODY_LIMIT_BYTES = 64 * 1024
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
        routes: wire.Routes,
        words: wire.Words,
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
        return json_answer(wire.write_faults(self._instruments.faults.rules))

    async def replace_faults(self, request: web.Request) -> web.Response:
        require_json(request, is_labelled=False)
        document = parse_value(await request.read(), "The body", _MOST_VALUES)
        self._instruments.faults.replace(wire.read_faults(document, self._routes, self._words))
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


def only_this_machine() -> Callable[[web.Request], None]:
    """A guard that raises ForbiddenError for a request which names another host than this machine."""
    hosts = Hosts()

    def guard(request: web.Request) -> None:
        if not hosts.admit(request):
            raise ForbiddenError(
                f"The control routes do not answer to the host {host_of(request)[:255]!r}: "
                "reach them as localhost or 127.0.0.1."
            )

    return guard


def testmode_routes(
    handlers: TestModeHandlers, bearer: Callable[[str], bool], guard: Callable[[web.Request], None]
) -> tuple[Route, ...]:
    """Every control route, for the bearer of the test token and for no web page."""
    row = partial(Route, bearer=bearer, guard=guard, who="test")
    with_body = partial(row, body_limit_bytes=_BODY_LIMIT_BYTES)
    clock, faults, sent, traffic = (f"{PREFIX}/{name}" for name in ("clock", "faults", "sent", "traffic"))
    return (
        row(method="POST", path=f"{PREFIX}/reset", name="test-reset", handler=handlers.reset),
        row(method="GET", path=clock, name="test-clock", handler=handlers.clock),
        with_body(method="PUT", path=clock, name="test-move-clock", handler=handlers.move_clock, waits=True),
        row(method="GET", path=faults, name="test-faults", handler=handlers.faults),
        with_body(method="PUT", path=faults, name="test-replace-faults", handler=handlers.replace_faults),
        row(method="GET", path=sent, name="test-sent", handler=handlers.sent, waits=True),
        row(method="DELETE", path=sent, name="test-forget-sent", handler=handlers.forget_sent),
        row(method="GET", path=traffic, name="test-traffic", handler=handlers.traffic, waits=True),
    )
