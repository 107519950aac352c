"""The paths at which clients of generations 1.x and 2.x connect."""

from collections.abc import Callable
from html import escape

from aiohttp import WSCloseCode, web

from bridge_server.kernel.token_bucket import Limit
from bridge_server.pubsub.v1_sockets import PubSub
from bridge_server.pubsub.v2_models import ProjectNotAllowedError
from bridge_server.pubsub.v2_service import Irn
from bridge_server.pubsub.v2_tokens import ClientAdmission, has_token
from bridge_server.version import NAME, REPOSITORY, VERSION
from bridge_server.web.answers import WholeAnswer, ready_made
from bridge_server.web.connection import HAS_PAGES
from bridge_server.web.routes import Handler, Route
from bridge_server.web.sockets import Socket, wants_socket

_HEADERS = ready_made({"Content-Type": "text/html; charset=utf-8", "Vary": "Upgrade, Accept"})
_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(NAME)}</title>
<h1>{escape(NAME)} {VERSION}</h1>
<p>This is where wallets and dapps meet. It is up, and there is nothing else to see here.</p>
<ul>
<li>Clients of generations 2.x and 1.x connect to this very address by WebSocket: give them it as
their relay, or as their bridge.
<li>Clients that speak HTTP find <a href="/info">/info</a> and <a href="/hello">/hello</a>, and open sessions
at <code>/session/new</code>.
<li>How everything works is at <a href="{escape(REPOSITORY)}">{escape(REPOSITORY)}</a>.
</ul>
</html>
"""


_NOT_ALLOWED = 3000
"""The one code of a close frame after which clients in JavaScript stay away (docs/protocol.md, B.12)."""

_MESSAGES_IN_A_FRAME = 4
"""The limit of generation 2.x: a call may publish several messages; a message too large gets an error."""


class PubSubHandlers:
    """Opens sockets. `address_of` returns the address to which a client is counted.

    `front` answers browsers that open the root of an application with pages.
    """

    def __init__(
        self,
        pubsub: PubSub,
        irn: Irn,
        admission: ClientAdmission,
        address_of: Callable[[web.Request], str | None],
        message_limit_bytes: int,
        front: Handler,
    ) -> None:
        self._pubsub = pubsub
        self._irn = irn
        self._admission = admission
        self._address_of = address_of
        self._message_limit_bytes = message_limit_bytes
        self._front = front

    async def root(self, request: web.Request) -> web.StreamResponse:
        """Either generation, or a page: for browsers one that leads to everything else."""
        if not wants_socket(request):
            is_browser = "text/html" in request.headers.get("Accept", "")
            return await (self._front if is_browser and request.app[HAS_PAGES] else self.v1)(request)
        return await (self._second if has_token(request) else self.v1)(request)

    async def v1(self, request: web.Request) -> web.StreamResponse:
        """A socket of generation 1.x, or a page."""
        if not wants_socket(request):
            return WholeAnswer(body=_PAGE.encode(), headers=_HEADERS)
        subscriber = self._pubsub.welcome(self._address_of(request))
        return Socket(subscriber, self._message_limit_bytes).accept(request)

    async def v2(self, request: web.Request) -> web.StreamResponse:
        """A socket of generation 2.x, or a page."""
        if not wants_socket(request):
            return WholeAnswer(body=_PAGE.encode(), headers=_HEADERS)
        return await self._second(request)

    async def _second(self, request: web.Request) -> web.StreamResponse:
        client = await self._admission.client(request)
        socket = self._irn.welcome(client, self._address_of(request))
        try:
            self._admission.require_project(request)
        except ProjectNotAllowedError as error:
            socket.end(_NOT_ALLOWED, error.detail)
        return Socket(
            socket, _MESSAGES_IN_A_FRAME * self._message_limit_bytes, come_back=WSCloseCode.GOING_AWAY
        ).accept(request)


def pubsub_routes(handlers: PubSubHandlers, every_request: Limit) -> tuple[Route, ...]:
    """The server's root, and a path for each generation. Dapps are web pages of any origin."""
    return tuple(
        Route(
            method="GET", path=path, name=name, handler=handler,
            limits=(every_request,), any_origin=True, forgives_slashes=path != "/", lan_handler=handler,
        )
        for path, name, handler in (
            ("/", "root", handlers.root),
            ("/compat/v1", "compat-v1", handlers.v1),
            ("/compat/v2", "compat-v2", handlers.v2),
        )
    )  # fmt: skip
