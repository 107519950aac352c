"""The routes of the inbox (docs/protocol.md, A.7)."""

from typing import Annotated, Any, NamedTuple

import orjson
from aiohttp import web

from bridge_server.inbox import models, wire
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.page import InboxPage
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.store import InboxReads
from bridge_server.inbox.streams import Streams
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.projects import models as projects
from bridge_server.projects.service import SubscriptionShape, read_wanted_types
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.web import routes
from bridge_server.web.addresses import origins_of_socket
from bridge_server.web.answers import EventStream
from bridge_server.web.bodies import json_object
from bridge_server.web.prefer import polled, wanted_wait
from bridge_server.web.routes import Access, DescribedAnswer, Parameter, Route
from bridge_server.web.shapes import Work, answering, returned, text

_READER = web.RequestKey("reader", models.Reader)
_NO_ORIGINS: frozenset[str] = frozenset()

_SIGN_INS = per_second("sign-ins", 0.5, 30)
# Each change is a message to the project's webhook.
_CHANGES = per_second("subscription-changes", 0.5, 60)

# A path with a malformed id matches no route: 404 without a query of the database.
_SUBSCRIPTION = f"subscriptions/{{project_id:{projects.PROJECT_ID_PATTERN}}}"
_DEVICE = "devices/{device_id:[A-Za-z0-9-]{1,64}}"

_SIGNING_IN = frozenset({"inbox-nonce", "inbox-login"})
"""Rows that ask for no token."""
_LIMITS = {
    **dict.fromkeys(_SIGNING_IN, (_SIGN_INS,)),
    **dict.fromkeys(("inbox-subscribe", "inbox-unsubscribe"), (_CHANGES,)),
}
"""The limits of a row per client address, besides the one of all requests."""

_TAG = "Inbox"
_MESSAGE = """\
bridge.example.org wants you to sign in with your Ethereum account:
0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb

Read my notifications.

URI: https://bridge.example.org
Version: 1
Chain ID: 1
Nonce: f105bc23077db1ca46f4e6afc00558b9
Issued At: 2027-01-15T08:00:00Z"""
_EVENT = 'id: 42\nevent: notification\ndata: {"id": "42", "title": "ETH is up"}\n\n'
_STREAM = DescribedAnswer(
    200, "The stream, which does not end by itself.", Annotated[str, text(_EVENT)], routes.EVENTS
)
_PAGE = DescribedAnswer(200, "A page.", wire.InboxPageAnswer)
_LAST_EVENT = (
    Parameter("Last-Event-ID", "The id of the last event that was received.", place="header"),
    Parameter("last_event_id", "As `Last-Event-ID`, for a page that opens its first stream."),
)
_SHOWN_PROJECT = Parameter(
    "project", "The project; without it, all of them.",
    {"type": "string", "pattern": f"^{projects.PROJECT_ID_PATTERN}$"}, example="example-app",
)  # fmt: skip


class InboxServices(NamedTuple):
    """The services that the handlers call."""

    sign_in: SignIn
    subscriptions: Subscriptions
    reading: InboxReads
    streams: Streams
    devices: Devices


class InboxHandlers:
    """One method per endpoint. With `has_public_url` the socket's address is no origin of the server."""

    def __init__(self, services: InboxServices, longest_wait_seconds: int, has_public_url: bool) -> None:
        self._services = services
        self._devices = services.devices
        self.longest_wait_seconds, self._has_public_url = longest_wait_seconds, has_public_url

    async def identify(self, request: web.Request, token: str) -> str | None:
        """Authenticate an account by its token; returns the account's key, None if the token is not valid."""
        reader = await self._services.sign_in.identify(token)
        if reader is None:
            return None
        request[_READER] = reader
        return f"account:{reader.number}"

    async def nonce(self, _: web.Request) -> wire.SignInNonceAnswer:
        """The first step of a sign-in. A nonce is good for one sign-in, and for a few minutes."""
        nonce = await self._services.sign_in.offer_nonce()
        return {"nonce": nonce.text, "expires_at": rfc3339(nonce.expires_at_ms)}

    async def login(self, request: web.Request) -> wire.InboxTokenAnswer:
        """Takes a sign-in message (EIP-4361) that the account has signed with `personal_sign`. Its domain and
        URI must be this server's own or one of `inbox_origins`, and its nonce unused. Clients without a body
        of JSON get a 400.
        """
        attempt = wire.read_sign_in(await json_object(request))
        new = await self._services.sign_in.sign_in(*attempt, self._own_origins(request))
        return {"token": new.token, "account": new.account, "expires_at": rfc3339(new.expires_at_ms)}

    async def logout(self, request: web.Request) -> None:
        """The token ends at once."""
        await self._services.sign_in.store.sign_out(request[_READER].digest)

    async def subscriptions(self, request: web.Request) -> wire.InboxOverviewAnswer:
        """The projects that the account subscribes to, with the number of unread notifications; and those
        that it has left with unread notifications.
        """
        return wire.overview_fields(await self._services.reading.store.overview(request[_READER].number))

    async def subscribe(self, request: web.Request) -> wire.ChangedSubscriptionAnswer:
        """Subscribes the account to a project, or changes the types that it has chosen. Without types it is
        all of them, those made later too.
        """
        project_id = request.match_info["project_id"]
        values = (await json_object(request)).values if await request.read() else {}
        wanted = projects.NewSubscription(request[_READER].account, read_wanted_types(values))
        subscription, _ = await self._services.subscriptions.subscribe(project_id, wanted)
        return wire.subscription_fields(project_id, subscription)

    async def unsubscribe(self, request: web.Request) -> None:
        """Ends the subscription. Notifications that the account has received stay."""
        project_id, key = request.match_info["project_id"], request[_READER].account.key
        await self._services.subscriptions.unsubscribe(project_id, key)

    async def notifications(self, request: web.Request) -> web.StreamResponse:
        """Notifications, newest first. With `latest` as `after` and `Prefer: wait` the answer comes with the
        next notification.
        """
        query = wire.read_query(request.query)
        wait = wanted_wait(request, self.longest_wait_seconds)
        page = await self._services.reading.page(request[_READER].number, query, wait.seconds)
        if wait.seconds:
            await self._services.sign_in.confirm(request[_READER])
        return polled(orjson.dumps(wire.page_fields(page)), wait)

    async def mark_read(self, request: web.Request) -> wire.ReadNotificationsAnswer:
        """Marks at most 500 notifications as read by the user, which counts in the app's read rate. Ids that
        the account does not have are ignored.
        """
        ids = wire.read_ids(await json_object(request))
        return {"read": await self._services.reading.mark_read(request[_READER].number, ids)}

    async def stream(self, request: web.Request) -> web.StreamResponse:
        """Server-sent events `notification`, each with a notification as its data. The stream continues after
        `Last-Event-ID`.
        """
        header, parameter = request.headers.get("Last-Event-ID"), request.query.get("last_event_id")
        last_event = wire.read_last_event(header, parameter)
        return EventStream(await self._services.streams.join(request[_READER], last_event))

    async def devices(self, request: web.Request) -> wire.RegisteredDevicesAnswer:
        """The devices to which notifications are delivered."""
        devices = await self._devices.store.devices(request[_READER].number)
        return {"devices": list(map(wire.device_fields, devices))}

    async def add_device(self, request: web.Request) -> wire.RegisteredDeviceAnswer:
        """`channel` is `fcm`, `apns`, `webpush`, `webhook` or `log`, as far as the operator has configured
        them. `address` is a token, a URL, or the object that a browser's Push API gives; `log` has none.
        """
        device = wire.read_device(await json_object(request), self._devices.channels)
        return wire.device_fields(await self._devices.add(request[_READER], device))

    async def remove_device(self, request: web.Request) -> None:
        """Nothing is delivered to it any more."""
        device_id = models.DeviceId(request.match_info["device_id"])
        await self._devices.store.remove(request[_READER].number, device_id)

    def _own_origins(self, request: web.Request) -> frozenset[str]:
        """The origins of the socket's address. The Host header is not used, because the client chooses it."""
        if self._has_public_url or request.transport is None:
            return _NO_ORIGINS
        return origins_of_socket(request.transport.get_extra_info("sockname"))


def inbox_routes(
    handlers: InboxHandlers, body_limit_bytes: int, every_request: Limit, shared: routes.AllowedOrigins
) -> tuple[Route, ...]:
    """Every endpoint of the inbox. Web pages of the shared origins may call them."""

    open_to_all, identified = Access(origins=shared), Access(identify=handlers.identify, origins=shared)

    def row(method: str, path: str, name: str, work: Work, summary: str, meaning: str, **about: Any) -> Route:
        signs_in, polls = name in _SIGNING_IN, about.get("polls", False)
        about = {"answers": returned(work, meaning), **about}
        return Route(
            method=method, path=f"/inbox/{path}", name=name, handler=answering(work), waits=polls,
            body_limit_bytes=0 if method == "GET" else body_limit_bytes,
            access=open_to_all if signs_in else identified,
            limits=(every_request, *_LIMITS.get(name, ())), who="app",
            about=routes.About(work=work, tag=_TAG, summary=summary, **about),
        )  # fmt: skip

    return (
        row("POST", "nonce", "inbox-nonce", handlers.nonce, "Get a nonce", "The nonce."),
        row("POST", "login", "inbox-login", handlers.login, "Sign in", "The token of the account.",
            problems=(models.SignInRefusedError,),
            body=wire.SignInShape, body_example={"message": _MESSAGE, "signature": "0x" + "1b" * 65}),
        row("POST", "logout", "inbox-logout", handlers.logout, "Sign out", "The token has ended."),
        row("GET", "subscriptions", "inbox-subscriptions", handlers.subscriptions,
            "List subscriptions", "The subscriptions."),
        row("PUT", _SUBSCRIPTION, "inbox-subscribe", handlers.subscribe,
            "Subscribe, or change types", "The subscription.", problems=(projects.ProjectNotFoundError,),
            body=SubscriptionShape, body_example={"notification_types": ["price-alert"]},
            body_is_optional=True),
        row("DELETE", _SUBSCRIPTION, "inbox-unsubscribe", handlers.unsubscribe,
            "Unsubscribe", "The account does not subscribe any more.",
            problems=(projects.ProjectNotFoundError, projects.SubscriptionNotFoundError)),
        row("GET", "notifications", "inbox-notifications", handlers.notifications, "List notifications",
            "A page.", answers=(_PAGE,), parameters=wire.PAGE_QUERY, polls=True),
        row("POST", "notifications/read", "inbox-mark-read", handlers.mark_read,
            "Mark notifications as read", "How many were unread before.",
            body=wire.ReadShape, body_example={"ids": ["42"]}),
        row("GET", "stream", "inbox-stream", handlers.stream, "Receive notifications as they come",
            "The stream.", answers=(_STREAM,), parameters=_LAST_EVENT,
            problems=(models.TooManyStreamsError,), extensions={"x-event-stream": True}),
        row("GET", "devices", "inbox-devices", handlers.devices, "List devices", "The devices."),
        row("POST", "devices", "inbox-add-device", handlers.add_device, "Register a device", "The device.",
            problems=(models.TooManyDevicesError,),
            body=wire.DeviceShape, body_example={"channel": "log"}),
        row("DELETE", _DEVICE, "inbox-remove-device", handlers.remove_device, "Remove a device",
            "It is removed.", problems=(models.DeviceNotFoundError,)),
    )  # fmt: skip


def page_routes(page: InboxPage, every_request: Limit, shared: routes.AllowedOrigins) -> tuple[Route, ...]:
    """The page of the inbox, and the script that web pages of the shared origins may load."""
    return (
        Route(
            method="GET", path="/inbox/", name="inbox-page", handler=page.page, limits=(every_request,),
            who="app",
            about=routes.About(
                work=page.page, tag=_TAG, summary="The inbox as a page",
                answers=(DescribedAnswer(200, "The page.", str, routes.HTML),), parameters=(_SHOWN_PROJECT,),
                problems=(InvalidInputError,), needs_database=False,
            ),
        ),
        Route(
            method="GET", path="/inbox/widget.js", name="inbox-widget", handler=page.script,
            access=Access(origins=shared), limits=(every_request,), who="app",
            about=routes.About(
                work=page.script, tag=_TAG, summary="The web component `<bridge-inbox>`",
                answers=(DescribedAnswer(200, "The script.", str, "text/javascript"), routes.UNCHANGED),
                needs_database=False,
            ),
        ),
    )  # fmt: skip
