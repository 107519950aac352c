"""The routes of the inbox (docs/protocol.md, A.7)."""

from bridge_server.inbox.handlers import InboxHandlers
from bridge_server.inbox.page import InboxPage
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.web.allowed_origins import AllowedOrigins
from bridge_server.web.routes import Handler, Route

SIGN_INS = per_second("sign-ins", 0.5, 30)

# A path with a malformed id matches no route: 404 without a query of the database.
_SUBSCRIPTION = "/inbox/subscriptions/{project_id:[a-z0-9-]{1,64}}"
_DEVICE = "/inbox/devices/{device_id:[A-Za-z0-9-]{1,64}}"
_NOTIFICATIONS = "/inbox/notifications"


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
