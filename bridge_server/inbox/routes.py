"""The routes of the inbox (docs/protocol.md, A.7)."""

from typing import NamedTuple

from aiohttp import web

from bridge_server.inbox import wire
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.models import DeviceId, Reader
from bridge_server.inbox.page import InboxPage
from bridge_server.inbox.reading import InboxReads, InboxSubscriptions
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.streams import Streams
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.projects.models import PROJECT_ID_PATTERN
from bridge_server.projects.service import read_wanted_types
from bridge_server.web.addresses import origins_of_socket
from bridge_server.web.answers import EventStream, json_answer
from bridge_server.web.bodies import json_object
from bridge_server.web.prefer import polled, wanted_wait
from bridge_server.web.routes import AllowedOrigins, Handler, Route

_READER = web.RequestKey("reader", Reader)
_NO_ORIGINS: frozenset[str] = frozenset()

SIGN_INS = per_second("sign-ins", 0.5, 30)

# A path with a malformed id matches no route: 404 without a query of the database.
_SUBSCRIPTION = f"/inbox/subscriptions/{{project_id:{PROJECT_ID_PATTERN}}}"
_DEVICE = "/inbox/devices/{device_id:[A-Za-z0-9-]{1,64}}"
_NOTIFICATIONS = "/inbox/notifications"


class InboxServices(NamedTuple):
    """The services that the handlers call."""

    sign_in: SignIn
    subscribing: InboxSubscriptions
    reading: InboxReads
    streams: Streams
    devices: Devices


class InboxHandlers:
    """One method per endpoint (docs/protocol.md, A.7).

    With `has_public_url` the address of the socket is not an origin of the server.
    """

    def __init__(self, services: InboxServices, longest_wait_seconds: int, has_public_url: bool) -> None:
        self._services = services
        self.longest_wait_seconds = longest_wait_seconds
        self._has_public_url = has_public_url

    async def identify(self, request: web.Request, token: str) -> str | None:
        """Authenticate an account by its token; returns the account's key, None if the token is not valid."""
        reader = await self._services.sign_in.identify(token)
        if reader is None:
            return None
        request[_READER] = reader
        return f"account:{reader.number}"

    async def nonce(self, _: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_nonce(await self._services.sign_in.offer_nonce()))

    async def login(self, request: web.Request) -> web.StreamResponse:
        attempt = wire.read_sign_in(await json_object(request))
        token = await self._services.sign_in.sign_in(attempt, self._own_origins(request))
        return json_answer(wire.write_token(token))

    async def logout(self, request: web.Request) -> web.StreamResponse:
        await self._services.sign_in.sign_out(request[_READER])
        return json_answer(wire.SUCCESS)

    async def subscriptions(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_overview(await self._services.subscribing.overview(request[_READER])))

    async def subscribe(self, request: web.Request) -> web.StreamResponse:
        project_id = request.match_info["project_id"]
        values = (await json_object(request)).values if await request.read() else {}
        types = read_wanted_types(values)
        subscription = await self._services.subscribing.subscribe(request[_READER], project_id, types)
        return json_answer(wire.write_subscription(project_id, subscription))

    async def unsubscribe(self, request: web.Request) -> web.StreamResponse:
        await self._services.subscribing.unsubscribe(request[_READER], request.match_info["project_id"])
        return json_answer(wire.SUCCESS)

    async def notifications(self, request: web.Request) -> web.StreamResponse:
        query = wire.read_query(request.query)
        wait = wanted_wait(request, self.longest_wait_seconds)
        page = await self._services.reading.page(request[_READER].number, query, wait.seconds)
        if wait.seconds:
            await self._services.sign_in.confirm(request[_READER])
        return polled(wire.write_page(page), wait)

    async def mark_read(self, request: web.Request) -> web.StreamResponse:
        ids = wire.read_ids(await json_object(request))
        marked = await self._services.reading.mark_read(request[_READER].number, ids)
        return json_answer(wire.write_marked(marked))

    async def stream(self, request: web.Request) -> web.StreamResponse:
        last_event = wire.read_last_event(
            request.headers.get("Last-Event-ID"), request.query.get("last_event_id")
        )
        return EventStream(await self._services.streams.join(request[_READER], last_event))

    async def devices(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_devices(await self._services.devices.of_reader(request[_READER])))

    async def add_device(self, request: web.Request) -> web.StreamResponse:
        devices = self._services.devices
        device = wire.read_device(await json_object(request), devices.channels)
        return json_answer(wire.write_device(await devices.add(request[_READER], device)))

    async def remove_device(self, request: web.Request) -> web.StreamResponse:
        device_id = DeviceId(request.match_info["device_id"])
        await self._services.devices.remove(request[_READER], device_id)
        return json_answer(wire.SUCCESS)

    def _own_origins(self, request: web.Request) -> frozenset[str]:
        """The origins of the socket's address. The Host header is not used, because the client chooses it."""
        if self._has_public_url or request.transport is None:
            return _NO_ORIGINS
        return origins_of_socket(request.transport.get_extra_info("sockname"))


def inbox_routes(
    handlers: InboxHandlers, body_limit_bytes: int, every_request: Limit, shared: AllowedOrigins
) -> tuple[Route, ...]:
    """Every endpoint of the inbox. Web pages of the shared origins may call them."""

    def route(method: str, path: str, name: str, handler: Handler, waits: bool = False) -> Route:
        return Route(
            method=method, path=path, name=name, handler=handler, identify=handlers.identify, waits=waits,
            body_limit_bytes=0 if method == "GET" else body_limit_bytes,
            limits=(every_request,), origins=shared, who="app",
        )  # fmt: skip

    def open_route(path: str, name: str, handler: Handler) -> Route:
        return Route(
            method="POST", path=path, name=name, handler=handler,
            body_limit_bytes=body_limit_bytes, limits=(every_request, SIGN_INS), origins=shared, who="app",
        )  # fmt: skip

    return (
        open_route("/inbox/nonce", "inbox-nonce", handlers.nonce),
        open_route("/inbox/login", "inbox-login", handlers.login),
        route("POST", "/inbox/logout", "inbox-logout", handlers.logout),
        route("GET", "/inbox/subscriptions", "inbox-subscriptions", handlers.subscriptions),
        route("PUT", _SUBSCRIPTION, "inbox-subscribe", handlers.subscribe),
        route("DELETE", _SUBSCRIPTION, "inbox-unsubscribe", handlers.unsubscribe),
        route("GET", _NOTIFICATIONS, "inbox-notifications", handlers.notifications, waits=True),
        route("POST", f"{_NOTIFICATIONS}/read", "inbox-mark-read", handlers.mark_read),
        route("GET", "/inbox/stream", "inbox-stream", handlers.stream),
        route("GET", "/inbox/devices", "inbox-devices", handlers.devices),
        route("POST", "/inbox/devices", "inbox-add-device", handlers.add_device),
        route("DELETE", _DEVICE, "inbox-remove-device", handlers.remove_device),
    )


def page_routes(page: InboxPage, every_request: Limit, shared: AllowedOrigins) -> tuple[Route, ...]:
    """The page of the inbox, and the script that web pages of the shared origins may load."""
    return (
        Route(
            method="GET", path="/inbox/", name="inbox-page", handler=page.page,
            limits=(every_request,), who="app",
        ),
        Route(
            method="GET", path="/inbox/widget.js", name="inbox-widget", handler=page.script,
            limits=(every_request,), origins=shared, who="app",
        ),
    )  # fmt: skip
