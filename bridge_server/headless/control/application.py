"""The control API as an aiohttp application, and the socket that it listens on."""

import asyncio
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from os import urandom
from urllib.parse import urlsplit

from aiohttp import web
from aiohttp.typedefs import Handler, Middleware

from bridge_server.headless.control.handlers import ControlHandlers
from bridge_server.headless.wallet import HeadlessWallet
from bridge_server.kernel.errors import ForbiddenError
from bridge_server.kernel.ip_addresses import is_loopback
from bridge_server.kernel.secrets import OneToken
from bridge_server.web.middleware.bearer import bearer
from bridge_server.web.middleware.body import body
from bridge_server.web.middleware.errors import errors
from bridge_server.web.request_id import HEADER, REQUEST_ID, RequestIds
from bridge_server.web.routes import Route

_BODY_LIMIT_BYTES = 32 * 2**20
"""A screenshot of a large page."""
_SHUTDOWN_SECONDS = 1.0


@dataclass(frozen=True, slots=True)
class ControlFacts:
    """The address of the control API, and the token that it asks for."""

    url: str
    token: str


class ListeningError(OSError):
    """The control API cannot listen there; the text says why."""


@asynccontextmanager
async def control_api(wallet: HeadlessWallet, host: str, port: int) -> AsyncIterator[ControlFacts]:
    """Answer requests that carry the token, until the block is left. Raises ListeningError."""
    if not is_loopback(host):
        raise ListeningError(f"{host} is not an address of this machine alone: listen on 127.0.0.1")
    token, stopping = secrets.token_urlsafe(32), asyncio.Event()
    application = build_control(wallet, token, stopping)
    runner = web.AppRunner(
        application, access_log=None, handler_cancellation=True, shutdown_timeout=_SHUTDOWN_SECONDS
    )
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            reason = error.strerror or str(error)
            raise ListeningError(f"cannot listen on {host} port {port} ({reason}): name another") from error
        shown = f"[{host}]" if ":" in host else host
        yield ControlFacts(f"http://{shown}:{runner.addresses[0][1]}", token)
    finally:
        stopping.set()
        await runner.cleanup()


def build_control(wallet: HeadlessWallet, token: str, stopping: asyncio.Event) -> web.Application:
    """The application, every request of which must carry the token and come to a name of this machine."""
    handlers = ControlHandlers(wallet, stopping)
    entry = Route(
        method="*", path="", name="control", handler=handlers.reset, guard=_guard, bearer=OneToken(token)
    )
    layers = (_named(RequestIds(urandom)), errors("control"), bearer(entry), body(_BODY_LIMIT_BYTES))
    application = web.Application(
        client_max_size=_BODY_LIMIT_BYTES + 1, middlewares=[layer for layer in layers if layer is not None]
    )
    for method, path, handler in _routes(handlers):
        application.router.add_route(method, path, handler)
    return application


def _routes(handlers: ControlHandlers) -> tuple[tuple[str, str, Handler], ...]:
    return (
        ("POST", "/pair", handlers.pair),
        ("GET", "/sessions", handlers.list_sessions),
        ("PATCH", "/sessions/{id}", handlers.change_session),
        ("DELETE", "/sessions/{id}", handlers.end_session),
        ("POST", "/sessions/{id}/approve", handlers.approve_session),
        ("POST", "/sessions/{id}/reject", handlers.reject_session),
        ("GET", "/rules", handlers.list_rules),
        ("PUT", "/rules", handlers.put_rules),
        ("GET", "/calls", handlers.list_calls),
        ("POST", "/calls/{id}/approve", handlers.approve_call),
        ("POST", "/calls/{id}/reject", handlers.reject_call),
        ("POST", "/calls/{id}/answer", handlers.answer_call),
        ("POST", "/request", handlers.call_provider),
        ("GET", "/events", handlers.events),
        ("POST", "/reset", handlers.reset),
    )


def _guard(request: web.Request) -> None:
    """Refuse a page whose host name leads to this machine (DNS rebinding). Raises ForbiddenError."""
    host = request.headers.get("Host", "")
    try:
        name = urlsplit(f"//{host}").hostname or ""
    except ValueError:
        name = ""
    if not is_loopback(name):
        raise ForbiddenError(f"The wallet's control API does not answer to the host {host[:255]!r}.")


def _named(request_ids: RequestIds) -> Middleware:
    """Give every request an id, which its problem has."""

    @web.middleware
    async def named(request: web.Request, handler: Handler) -> web.StreamResponse:
        request[REQUEST_ID] = request_id = request_ids.name(request)
        response = await handler(request)
        if not response.prepared:
            response.headers[HEADER] = request_id
        return response

    return named
