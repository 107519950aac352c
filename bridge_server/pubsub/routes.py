"""The paths at which clients of generations 1.x and 2.x connect."""

from collections.abc import Callable
from html import escape

from aiohttp import WSCloseCode, web

from bridge_server.kernel.token_bucket import Limit
from bridge_server.kernel.version import NAME, VERSION
from bridge_server.pubsub.queues import TooManySocketsError
from bridge_server.pubsub.v1_sockets import PubSub
from bridge_server.pubsub.v2_models import InvalidTokenError, ProjectNotAllowedError
from bridge_server.pubsub.v2_service import Irn
from bridge_server.pubsub.v2_tokens import ClientAdmission, has_token
from bridge_server.web.answers import WholeAnswer, ready_made
from bridge_server.web.connection import HAS_PAGES
from bridge_server.web.routes import ANY_PAGE, HTML, About, DescribedAnswer, Handler, Parameter, Route
from bridge_server.web.sockets import LoopTurn, Socket, wants_socket

_HEADERS = ready_made({"Content-Type": "text/html; charset=utf-8", "Vary": "Upgrade, Accept"})
_PAGE = f"""<!DOCTYPE html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>{escape(NAME)}</title>
<h1>{escape(NAME)} {VERSION}</h1>
<p>A WalletConnect relay for clients of generations 2.x, 1.x and 0.7.</p>
<ul>
<li>Clients of generations 2.x and 1.x connect to this address by WebSocket: it is their relay or bridge.
<li>Clients that speak HTTP find <a href="/info">/info</a> and <a href="/hello">/hello</a>, and open sessions
at <code>/session/new</code>.
<li>The documentation is at <a href="/docs/">/docs/</a>.
</ul>
</html>
"""


# OpenAPI has no words for frames, so the texts of the handlers say what they carry.

_ANSWERS = (
    DescribedAnswer(101, "With `Upgrade: websocket`: the socket is open."),
    DescribedAnswer(200, "Without it: a short page about the server.", str, HTML),
)
_OF_2X = (
    Parameter("auth", "Generation 2.x: a JWT of EdDSA (Ed25519), which may also be sent as a bearer token."),
    Parameter("projectId", "Generation 2.x: the project, where the operator lists those that may connect."),
)

_NOT_ALLOWED = 3000
"""The one code of a close frame after which clients in JavaScript stay away (docs/protocol.md, B.12)."""

_MESSAGES_IN_A_FRAME = 4
"""The limit of generation 2.x: a call may publish several messages; a message too large gets an error."""


class PubSubHandlers:
    """Opens sockets. `address_of` returns the address to which a client is counted. `front` answers browsers
    that open the root of an application with pages.
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
        self._turn = LoopTurn()

    async def root(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket; with `auth` or a bearer token one of generation 2.x, else of 1.x. Without an upgrade
        it is a page: for a browser with addresses and links, else a short one.
        """
        if not wants_socket(request):
            is_browser = "text/html" in request.headers.get("Accept", "")
            return await (self._front if is_browser and request.app[HAS_PAGES] else self.v1)(request)
        return await (self._second if has_token(request) else self.v1)(request)

    async def v1(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket that carries `{"topic", "type", "payload", "silent"}` with the types `pub`, `sub` and
        `ack`. A message waits up to 24 hours for a subscriber's acknowledgement.
        """
        if not wants_socket(request):
            return WholeAnswer(body=_PAGE.encode(), headers=_HEADERS)
        subscriber = self._pubsub.welcome(self._address_of(request))
        return Socket(subscriber, self._message_limit_bytes, turn=self._turn).accept(request)

    async def v2(self, request: web.Request) -> web.StreamResponse:
        """A WebSocket that carries JSON-RPC 2.0 in both directions, with the methods `irn_publish`,
        `irn_subscribe`, `irn_fetchMessages` and their like. A project that may not connect is closed with
        3000.
        """
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
        most_bytes = _MESSAGES_IN_A_FRAME * self._message_limit_bytes
        return Socket(socket, most_bytes, WSCloseCode.GOING_AWAY, self._turn).accept(request)


def pubsub_routes(handlers: PubSubHandlers, every_request: Limit) -> tuple[Route, ...]:
    """The server's root, and a path for each generation. Dapps are web pages of any origin."""

    def row(path: str, name: str, handler: Handler, summary: str, *parameters: Parameter) -> Route:
        return Route(
            method="GET", path=path, name=name, handler=handler,
            access=ANY_PAGE, limits=(every_request,), forgives_slashes=path != "/",
            about=About(
                work=handler, tag="Sockets", summary=summary, answers=_ANSWERS, parameters=parameters,
                problems=(InvalidTokenError, TooManySocketsError) if parameters else (TooManySocketsError,),
                extensions={"x-websocket": True},
            ),
        )  # fmt: skip

    return (
        row("/", "root", handlers.root, "Socket of generation 1.x or 2.x", *_OF_2X),
        row("/compat/v1", "compat-v1", handlers.v1, "Socket of generation 1.x"),
        row("/compat/v2", "compat-v2", handlers.v2, "Socket of generation 2.x", *_OF_2X),
    )
