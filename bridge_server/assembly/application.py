"""The composition root: the parts, the gateway, and one table of all rooms' routes become an application.

`build_app` opens nothing. Resources open when the application starts and close in reverse when it stops.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from urllib.parse import urlsplit

from aiohttp import web

from bridge_server.admin.handlers import AdminHandlers
from bridge_server.admin.routes import admin_routes
from bridge_server.assembly.parts import Parts
from bridge_server.assembly.resources import RESOURCES, Resource
from bridge_server.inbox.handlers import InboxHandlers
from bridge_server.inbox.routes import inbox_routes
from bridge_server.inbox.streams import Streams
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.notify.routes import notify_routes
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.pubsub.irn.admission import Admission
from bridge_server.pubsub.irn.service import Irn
from bridge_server.pubsub.irn.tokens import Tokens
from bridge_server.pubsub.routes import pubsub_routes
from bridge_server.pubsub.service import PubSub
from bridge_server.push.handlers import PushHandlers
from bridge_server.push.routes import push_routes
from bridge_server.relay.dialect import PLAIN, Dialect
from bridge_server.relay.handlers import RelayHandlers
from bridge_server.relay.routes import relay_routes
from bridge_server.relay.v07 import V07
from bridge_server.settings.live import LiveSettings
from bridge_server.settings.settings import Settings
from bridge_server.wallet.rpc.access import Access
from bridge_server.wallet.rpc.handlers import WalletHandlers
from bridge_server.wallet.rpc.routes import wallet_routes
from bridge_server.wallet.rpc.turned_away import TurnedAway
from bridge_server.web.allowed_origins import AllowedOrigins, is_loopback_origin
from bridge_server.web.application import build_application
from bridge_server.web.connections import CONNECTIONS, Connections
from bridge_server.web.gateway import Gateway, Reporting
from bridge_server.web.health import health_routes
from bridge_server.web.metrics import metrics_handler
from bridge_server.web.request_id import RequestIds
from bridge_server.web.routes import Handler, Route


@dataclass(frozen=True, slots=True)
class BuiltApp:
    """The application, and the one that an operator may put on a port of its own: it only tells figures."""

    application: web.Application
    metrics: web.Application
    live: LiveSettings


def build_app(settings: Settings, clock: Clock | None = None, ids: IdMaker | None = None) -> BuiltApp:
    """Put the server together. A test hands in its own clock and ids."""
    parts = Parts(settings, clock or SystemClock(), ids or IdMaker())
    metrics = metrics_handler(parts.figures, parts.gauges)
    reporting = Reporting(settings.slow_request_seconds, settings.max_wait, settings.access_log)
    parts.live.follow(partial(_take_longest_wait, reporting))
    gateway = Gateway(
        RequestIds(os.urandom),
        parts.connections,
        parts.quotas,
        parts.save_quotas,
        parts.figures,
        parts.refusals,
        reporting,
    )
    application = build_application(_routes(parts, metrics), gateway)
    application[CONNECTIONS] = parts.connections
    for resource in RESOURCES:
        application.cleanup_ctx.append(_held_by_application(resource, parts))
    application.on_shutdown.append(_begin_to_end(parts.connections))
    application.on_shutdown.append(_answer_waiting_polls(parts.signals))
    application.on_shutdown.append(_end_streams(parts.inbox.streams))
    application.on_shutdown.append(_close_sockets(parts.pubsub))
    application.on_shutdown.append(_close_sockets(parts.irn))
    application.on_shutdown.append(_let_nothing_begin(parts))
    application.on_shutdown.append(_receive_what_is_on_its_way(parts.connections))
    only_metrics = build_application((_metrics_alone(parts, metrics),), gateway)
    only_metrics[CONNECTIONS] = parts.connections
    return BuiltApp(application, only_metrics, parts.live)


def _routes(parts: Parts, metrics: Handler) -> tuple[Route, ...]:
    settings, live = parts.settings, parts.live
    every_request = live.held(_every_request)
    rows = _relay_rows(parts, PLAIN, every_request) + _relay_rows(parts, V07, every_request)
    admission = Admission(
        Tokens(parts.clock), partial(_relay_audience, settings), frozenset(settings.project_ids)
    )
    pubsub = PubSubHandlers(
        parts.pubsub, parts.irn, admission, parts.addresses.bucket_key, settings.message_limit
    )
    rows += pubsub_routes(pubsub, every_request)
    rows += notify_routes(NotifyHandlers(parts.publishing, parts.projects), settings.notify_body_limit)
    inbox = InboxHandlers(parts.inbox, settings.max_wait, has_public_url=settings.public_url is not None)
    live.follow(partial(_take_longest_wait, inbox))
    rows += inbox_routes(inbox, settings.inbox_body_limit, every_request, settings.inbox_origins)
    push = PushHandlers(
        parts.push_server,
        parts.push_channels.addresses,
        settings.public_url,
        settings.allow_private_webhooks,
        parts.subscription_bytes,
    )
    rows += push_routes(
        push,
        settings.push_body_limit,
        every_request,
        new_clients=live.held(_new_clients),
    )
    rows += _wallet_rows(parts)
    rows += health_routes(parts.check_work, parts.troubles)
    admin_token, metrics_token = live.token("admin_token"), live.token("metrics_token")
    if admin_token is not None:
        admin = AdminHandlers(
            parts.projects, parts.subscriptions, parts.device_states, parts.account_limit, parts.clock
        )
        rows += admin_routes(admin, admin_token, settings.notify_body_limit)
    if metrics_token is not None:
        rows += (Route(method="GET", path="/metrics", name="metrics", handler=metrics, bearer=metrics_token),)
    return rows


def _relay_audience(settings: Settings, request: web.Request) -> str | None:
    """The URL that tokens of generation 2.x have to be for."""
    if not settings.relay_check_audience:
        return None
    return settings.public_url or f"ws://{request.host}"


def _metrics_alone(parts: Parts, metrics: Handler) -> Route:
    """The metrics on a port of their own, which asks for the token where others can reach it."""
    token = parts.live.token("metrics_token") if parts.settings.metrics_are_guarded else None
    return Route(method="GET", path="/metrics", name="metrics", handler=metrics, bearer=token)


def _relay_rows(parts: Parts, dialect: Dialect, every_request: Limit) -> tuple[Route, ...]:
    settings = parts.settings
    handlers = RelayHandlers(
        parts.relay,
        parts.polling,
        dialect,
        settings.max_wait,
        parts.addresses.bucket_key,
        payloads=parts.payload_bytes,
        subscriptions=parts.subscription_bytes,
    )
    parts.live.follow(partial(_take_longest_wait, handlers))
    return relay_routes(
        handlers,
        dialect,
        body_limit_bytes=settings.relay_body_limit,
        every_request=every_request,
        new_sessions=parts.live.held(_new_sessions),
    )


def _take_longest_wait(holder: RelayHandlers | InboxHandlers | Reporting, settings: Settings) -> None:
    holder.longest_wait_seconds = settings.max_wait


def _every_request(settings: Settings) -> Limit:
    return per_second("requests", settings.requests_per_second, settings.requests_burst)


def _new_sessions(settings: Settings) -> Limit:
    return per_second("new-sessions", settings.sessions_per_minute / 60, settings.sessions_burst)


def _new_clients(settings: Settings) -> Limit:
    return per_second("new-clients", settings.clients_per_minute / 60, settings.clients_burst)


def _wallet_rows(parts: Parts) -> tuple[Route, ...]:
    settings = parts.settings
    token, origins = parts.live.token("rpc_token"), _wallet_origins(parts)
    own_host = () if settings.public_url is None else (urlsplit(settings.public_url).hostname or "",)
    access = Access(parts.addresses, (*settings.rpc_hosts, *own_host), origins, has_token=token is not None)
    return wallet_routes(
        WalletHandlers(parts.wallet.calls, parts.addresses),
        settings.rpc_body_limit,
        access.check,
        token,
        origins,
        TurnedAway(parts.addresses, parts.clock).note,
    )


def _wallet_origins(parts: Parts) -> AllowedOrigins:
    """Those of the settings; and any of this machine while nothing can be lost by it."""
    settings, accounts = parts.settings, parts.wallet.accounts
    if not settings.publishes_keys_here_only:
        return AllowedOrigins(settings.rpc_origins)
    return AllowedOrigins(
        settings.rpc_origins,
        admits=lambda origin: is_loopback_origin(origin) and accounts.are_for_development_only(),
    )


def _held_by_application(
    resource: Resource, parts: Parts
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def hold(_: web.Application) -> AsyncIterator[None]:
        async with resource(parts):
            yield

    return hold


def _begin_to_end(connections: Connections) -> Callable[[web.Application], Awaitable[None]]:
    async def begin(_: web.Application) -> None:
        connections.stop()

    return begin


def _receive_what_is_on_its_way(
    connections: Connections,
) -> Callable[[web.Application], Awaitable[None]]:
    """Last, so that nobody else waits for it."""

    async def receive(_: web.Application) -> None:
        await connections.bodies_received()

    return receive


def _answer_waiting_polls(signals: Signals) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        signals.close()

    return close


def _end_streams(streams: Streams) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        streams.close()

    return close


def _close_sockets(pubsub: PubSub | Irn) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        pubsub.close()

    return close


def _let_nothing_begin(parts: Parts) -> Callable[[web.Application], Awaitable[None]]:
    """Requests that wait for other servers get a little time, and the outbox begins no delivery."""

    async def close(_: web.Application) -> None:
        parts.stopping.close()
        parts.dispatcher.begin_nothing()

    return close
