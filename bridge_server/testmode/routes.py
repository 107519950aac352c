"""The control routes as rows. An underscore cannot be in a project id: no project's path is among them."""

from collections.abc import Callable
from functools import partial

from aiohttp import web

from bridge_server.kernel.errors import ForbiddenError
from bridge_server.testmode.handlers import TestModeHandlers
from bridge_server.web.hosts import Hosts, host_of
from bridge_server.web.routes import Route

PREFIX = "/_test"
"""The path of every control route begins with this."""

_BODY_LIMIT_BYTES = 64 * 1024


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
    clock, faults, sent = f"{PREFIX}/clock", f"{PREFIX}/faults", f"{PREFIX}/sent"
    traffic = f"{PREFIX}/traffic"
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
