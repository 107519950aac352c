"""The composition root: the parts, the gateway, and one table of all rooms' routes become an application.

`build_app` opens nothing. Resources open when the application starts and close in reverse when it stops.
"""

import os
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from aiohttp import web

from bridge_server.admin.handlers import AdminHandlers
from bridge_server.admin.routes import admin_routes
from bridge_server.inbox.handlers import InboxHandlers
from bridge_server.inbox.routes import inbox_routes
from bridge_server.inbox.streams import Streams
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.notify.routes import notify_routes
from bridge_server.parts import Parts
from bridge_server.projects.projects import account_limit
from bridge_server.pubsub.handlers import PubSubHandlers
from bridge_server.pubsub.routes import pubsub_routes
from bridge_server.pubsub.service import PubSub
from bridge_server.push.handlers import PushHandlers
from bridge_server.push.routes import push_routes
from bridge_server.relay.dialect import PLAIN, Dialect
from bridge_server.relay.handlers import RelayHandlers
from bridge_server.relay.routes import relay_routes
from bridge_server.relay.v07 import V07
from bridge_server.resources import RESOURCES, Resource
from bridge_server.settings import Settings
from bridge_server.wallet.access import Access
from bridge_server.wallet.handlers import WalletHandlers
from bridge_server.wallet.routes import wallet_routes
from bridge_server.web.application import build_application
from bridge_server.web.bearer import one_token
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


def build_app(settings: Settings, clock: Clock | None = None, ids: IdMaker | None = None) -> BuiltApp:
    """Put the server together. A test hands in its own clock and ids."""
    parts = Parts(settings, clock or SystemClock(), ids or IdMaker())
    metrics = metrics_handler(parts.figures, parts.gauges)
    reporting = Reporting(settings.slow_request_seconds, settings.max_wait, settings.access_log)
    gateway = Gateway(
        RequestIds(os.urandom), parts.addresses, parts.quotas, parts.save_quotas, parts.figures, reporting
    )
    application = build_application(_routes(parts, metrics), gateway)
    for resource in RESOURCES:
        application.cleanup_ctx.append(_held_by_application(resource, parts))
    application.on_shutdown.append(_answer_waiting_polls(parts.signals))
    application.on_shutdown.append(_end_streams(parts.inbox.streams))
    application.on_shutdown.append(_close_sockets(parts.pubsub))
    application.on_shutdown.append(_let_nothing_begin(parts))
    only_metrics = Route(method="GET", path="/metrics", name="metrics", handler=metrics)
    return BuiltApp(application, build_application((only_metrics,), gateway))


def _routes(parts: Parts, metrics: Handler) -> tuple[Route, ...]:
    settings = parts.settings
    every_request = per_second("requests", settings.requests_per_second, settings.requests_burst)
    rows = _relay_rows(parts, PLAIN, every_request) + _relay_rows(parts, V07, every_request)
    pubsub = PubSubHandlers(parts.pubsub, parts.addresses.bucket_key, settings.message_limit)
    rows += pubsub_routes(pubsub, every_request)
    rows += notify_routes(NotifyHandlers(parts.publishing, parts.projects), settings.notify_body_limit)
    inbox = InboxHandlers(parts.inbox, settings.max_wait, has_public_url=settings.public_url is not None)
    rows += inbox_routes(inbox, settings.inbox_body_limit, every_request, settings.inbox_origins)
    push = PushHandlers(
        parts.push_server, parts.push_channels.addresses, settings.public_url, settings.allow_private_webhooks
    )
    rows += push_routes(
        push,
        settings.push_body_limit,
        every_request,
        new_clients=per_second("new-clients", settings.clients_per_minute / 60, settings.clients_burst),
    )
    rows += _wallet_rows(parts)
    rows += health_routes(parts.check_work, parts.troubles)
    if settings.admin_token is not None:
        limit = account_limit(settings.account_rate_per_hour, settings.account_burst)
        admin = AdminHandlers(parts.projects, parts.subscriptions, parts.device_states, limit, parts.clock)
        bearer = one_token(settings.admin_token.get_secret_value())
        rows += admin_routes(admin, bearer, settings.notify_body_limit)
    if settings.metrics_token is not None:
        bearer = one_token(settings.metrics_token.get_secret_value())
        rows += (Route(method="GET", path="/metrics", name="metrics", handler=metrics, bearer=bearer),)
    return rows


def _relay_rows(parts: Parts, dialect: Dialect, every_request: Limit) -> tuple[Route, ...]:
    settings = parts.settings
    return relay_routes(
        RelayHandlers(parts.relay, parts.polling, dialect, settings.max_wait),
        dialect,
        body_limit_bytes=settings.relay_body_limit,
        every_request=every_request,
        new_sessions=per_second("new-sessions", settings.sessions_per_minute / 60, settings.sessions_burst),
    )


def _wallet_rows(parts: Parts) -> tuple[Route, ...]:
    settings = parts.settings
    token, origins = settings.rpc_token, frozenset(settings.rpc_origins)
    own_host = () if settings.public_url is None else (urlsplit(settings.public_url).hostname or "",)
    access = Access(parts.addresses, (*settings.rpc_hosts, *own_host), origins, has_token=token is not None)
    return wallet_routes(
        WalletHandlers(parts.wallet.calls, parts.addresses),
        settings.rpc_body_limit,
        access.check,
        None if token is None else one_token(token.get_secret_value()),
        origins,
    )


def _held_by_application(
    resource: Resource, parts: Parts
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def hold(_: web.Application) -> AsyncIterator[None]:
        async with resource(parts):
            yield

    return hold


def _answer_waiting_polls(signals: Signals) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        signals.close()

    return close


def _end_streams(streams: Streams) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        streams.close()

    return close


def _close_sockets(pubsub: PubSub) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        pubsub.close()

    return close


def _let_nothing_begin(parts: Parts) -> Callable[[web.Application], Awaitable[None]]:
    """Requests that wait for other servers get a little time, and the outbox begins no delivery."""

    async def close(_: web.Application) -> None:
        parts.stopping.close()
        parts.dispatcher.begin_nothing()

    return close
