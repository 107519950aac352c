"""The composition root: settings become stores, services, the gateway, and one table of all rooms' routes.

`build_app` opens nothing. Resources open when the application starts and close in reverse when it stops.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from time import perf_counter

import structlog
from aiohttp import web

from bridge_server.admin.handlers import AdminHandlers
from bridge_server.admin.routes import admin_routes
from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.handlers import InboxHandlers, InboxServices
from bridge_server.inbox.origins import origin_of_url
from bridge_server.inbox.reading import Reading
from bridge_server.inbox.routes import inbox_routes
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.streams import Streams
from bridge_server.inbox.subscribing import Subscribing
from bridge_server.kernel.background import running
from bridge_server.kernel.cache import ReadCache
from bridge_server.kernel.clock import Clock, SystemClock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Key, Signals
from bridge_server.kernel.sweeper import Sweeper
from bridge_server.kernel.token_bucket import per_second
from bridge_server.notify.handlers import NotifyHandlers
from bridge_server.notify.routes import notify_routes
from bridge_server.notify.service import Publishing
from bridge_server.outbox.channels import Channels, LogSender
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.models import LOG_DESTINATION
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from bridge_server.projects.projects import Projects, account_limit
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.relay.handlers import RelayHandlers
from bridge_server.relay.models import Caps, Lifetimes
from bridge_server.relay.polling import Polling
from bridge_server.relay.routes import relay_routes
from bridge_server.relay.service import Relay
from bridge_server.settings import Settings
from bridge_server.storage.bucket_store import BUCKETS_SAVED, SqlBucketStore, saving
from bridge_server.storage.data_directory import held
from bridge_server.storage.database import Transaction
from bridge_server.storage.device_store import SqlDeviceStore
from bridge_server.storage.inbox_store import SqlInboxStore
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.notify_store import DELIVERIES, SqlNotifyStore
from bridge_server.storage.outbox_store import SqlOutboxStore
from bridge_server.storage.project_store import SqlProjectStore
from bridge_server.storage.relay_store import SqlRelayStore
from bridge_server.storage.sign_in_store import SqlSignInStore
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.storage.subscription_store import SqlSubscriptionStore
from bridge_server.version import NAME, VERSION
from bridge_server.web.application import build_application
from bridge_server.web.bearer import one_token
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.gateway import Gateway, Reporting
from bridge_server.web.health import health_routes
from bridge_server.web.metrics import metrics_handler
from bridge_server.web.quotas import Quotas
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.request_id import RequestIds
from bridge_server.web.routes import Handler, Route

_QUOTA_SAVE_SECONDS = 1.0
_WATCH_SECONDS = 1.0
_WATCH_REST = 20

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class BuiltApp:
    """The application, and what else an operator may put on a port of its own."""

    application: web.Application
    metrics: Handler


class _Parts:
    """Everything that is put together, by the name of its job."""

    def __init__(self, settings: Settings, clock: Clock, ids: IdMaker) -> None:
        self.settings = settings
        self.clock = clock
        self.signals = Signals()
        self.cache = ReadCache(settings.cache_bytes)
        self.signals.listen(self.cache.forget)
        self.database = SqliteDatabase(settings.database_file, self.signals)
        self.buckets = SqlBucketStore(self.database)
        self.addresses = ClientAddresses(settings.trusted_proxies, settings.quota_exempt)
        self.quotas = Quotas(clock)
        self.figures = RequestFigures()
        store = SqlRelayStore(self.database)
        self.relay = Relay(store, clock, ids, _lifetimes(settings), _caps(settings))
        self.polling = Polling(store, self.cache, self.signals, clock)
        self.projects = Projects(SqlProjectStore(self.database), clock, ids, os.urandom)
        self.subscriptions = Subscriptions(SqlSubscriptionStore(self.database), clock, ids)
        self.publishing = Publishing(
            SqlNotifyStore(self.database),
            clock,
            account_limit(settings.account_rate_per_hour, settings.account_burst),
            read_kept_ms=settings.read_notification_ttl * 1000,
            unread_kept_ms=settings.unread_notification_ttl * 1000,
        )
        self.inbox = self._inbox(clock, ids)
        self.outbox_store = SqlOutboxStore(self.database)
        self.sender = WebhookSender(_sender_settings(settings))
        self.dispatcher = Dispatcher(
            self.outbox_store,
            Channels({LOG_DESTINATION: LogSender()}, otherwise=self.sender),
            self.signals,
            clock,
            self.relay.forget_receiver,
        )
        self.sweeper = Sweeper(
            (
                self.relay.sweep,
                self.buckets.sweep,
                self.projects.sweep,
                self.publishing.sweep,
                self.inbox.sign_in.sweep,
                self._sweep_dead_letters,
            ),
            clock,
            settings.sweep_interval,
        )

    def _inbox(self, clock: Clock, ids: IdMaker) -> InboxServices:
        settings, store = self.settings, SqlInboxStore(self.database)
        arrivals = Arrivals(self.signals, DELIVERIES)
        own = origin_of_url(settings.public_url) if settings.public_url is not None else None
        sign_in = SignIn(
            SqlSignInStore(self.database),
            clock,
            os.urandom,
            origins=frozenset(settings.inbox_origins) | ({own} if own is not None else set()),
            nonce_ttl_ms=settings.sign_in_ttl * 1000,
            token_ttl_ms=settings.inbox_token_ttl * 1000,
        )
        return InboxServices(
            sign_in,
            Subscribing(store, self.subscriptions),
            Reading(store, arrivals, clock),
            Streams(store, arrivals, self.signals, clock, settings.max_streams),
            Devices(SqlDeviceStore(self.database), clock, ids, settings.max_devices),
        )

    async def check_work(self) -> None:
        """Raise UnavailableError when the database cannot be read, or could not be written last time."""
        await self.database.read("SELECT 1")
        if self.database.last_commit_failed:
            await self.database.transaction(saving([(("probe", ""), self.clock.now_us())]))

    async def save_quotas(self) -> None:
        """Commit: what the buckets' rider has collected goes along."""
        if self.quotas.has_unsaved:
            await self.database.transaction(saving([]))

    async def _sweep_dead_letters(self, now_ms: int) -> int:
        return await self.outbox_store.sweep(now_ms - self.settings.dead_letter_ttl * 1000)

    def gauges(self) -> dict[str, float]:
        database = {f"database_{name}": value for name, value in self.database.figures().items()}
        outbox = {f"outbox_{name}": value for name, value in self.dispatcher.figures().items()}
        waiting = {"waiting_clients": self.signals.waiting, "inbox_streams": self.inbox.streams.open}
        return {**waiting, **database, **outbox}


def build_app(settings: Settings, clock: Clock | None = None, ids: IdMaker | None = None) -> BuiltApp:
    """Put the server together. A test hands in its own clock and ids."""
    parts = _Parts(settings, clock or SystemClock(), ids or IdMaker())
    metrics = metrics_handler(parts.figures, parts.gauges)
    reporting = Reporting(settings.slow_request_seconds, settings.max_wait, settings.access_log)
    gateway = Gateway(
        RequestIds(os.urandom), parts.addresses, parts.quotas, parts.save_quotas, parts.figures, reporting
    )
    application = build_application(_routes(parts, metrics), gateway)
    for resource in (_storage, _quota_keeping, _delivery, _watching, _streaming, _sweeping):
        application.cleanup_ctx.append(_held_by_application(resource, parts))
    application.on_shutdown.append(_answer_waiting_polls(parts.signals))
    application.on_shutdown.append(_end_streams(parts.inbox.streams))
    return BuiltApp(application, metrics)


def _routes(parts: _Parts, metrics: Handler) -> tuple[Route, ...]:
    settings = parts.settings
    handlers = RelayHandlers(parts.relay, parts.polling, settings.max_wait)
    every_request = per_second("requests", settings.requests_per_second, settings.requests_burst)
    rows = relay_routes(
        handlers,
        body_limit_bytes=settings.relay_body_limit,
        every_request=every_request,
        new_sessions=per_second("new-sessions", settings.sessions_per_minute / 60, settings.sessions_burst),
    )
    rows += notify_routes(NotifyHandlers(parts.publishing, parts.projects), settings.notify_body_limit)
    inbox = InboxHandlers(parts.inbox, settings.max_wait, has_public_url=settings.public_url is not None)
    rows += inbox_routes(inbox, settings.inbox_body_limit, every_request, settings.inbox_origins)
    rows += health_routes(parts.check_work)
    if settings.admin_token is not None:
        limit = account_limit(settings.account_rate_per_hour, settings.account_burst)
        admin = AdminHandlers(parts.projects, parts.subscriptions, limit, parts.clock)
        bearer = one_token(settings.admin_token.get_secret_value())
        rows += admin_routes(admin, bearer, settings.notify_body_limit)
    if settings.metrics_token is not None:
        bearer = one_token(settings.metrics_token.get_secret_value())
        rows += (Route(method="GET", path="/metrics", name="metrics", handler=metrics, bearer=bearer),)
    return rows


def _lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes(
        session_ms=settings.session_ttl * 1000,
        call_ms=settings.call_ttl * 1000,
        status_ms=settings.status_ttl * 1000,
        subscription_ms=settings.subscription_ttl * 1000,
    )


def _caps(settings: Settings) -> Caps:
    return Caps(settings.max_pending_calls, settings.max_topic_webhooks)


def _sender_settings(settings: Settings) -> SenderSettings:
    secret = settings.webhook_secret
    return SenderSettings(
        timeout_seconds=settings.webhook_timeout,
        signing_secret=secret.get_secret_value() if secret else None,
        allow_private=settings.allow_private_webhooks,
        user_agent=f"{NAME.replace(' ', '-')}/{VERSION}",
    )


_Resource = Callable[[_Parts], AbstractAsyncContextManager[None]]


def _held_by_application(
    resource: _Resource, parts: _Parts
) -> Callable[[web.Application], AsyncIterator[None]]:
    async def hold(_: web.Application) -> AsyncIterator[None]:
        async with resource(parts):
            yield

    return hold


@asynccontextmanager
async def _storage(parts: _Parts) -> AsyncIterator[None]:
    with held(parts.settings.data_dir):
        saved = migrate(parts.database.path, packaged_migrations())
        if saved is not None:
            log.info("schema_upgraded", backup=str(saved))
        async with parts.database.opened():
            yield


@asynccontextmanager
async def _quota_keeping(parts: _Parts) -> AsyncIterator[None]:
    """Buckets are saved with the commits that go by, and once a second when none does."""
    parts.quotas.restore(await parts.buckets.load(parts.clock.now_us()))

    def with_next_commit() -> Callable[[], Transaction[None]] | None:
        unsaved = parts.quotas.take_unsaved()
        return saving(unsaved) if unsaved else None

    async def save_forever() -> None:
        while True:
            await asyncio.sleep(_QUOTA_SAVE_SECONDS)
            with suppress(UnavailableError):  # the next second tries again
                await parts.save_quotas()

    def notice(key: Key) -> None:
        if key == BUCKETS_SAVED:
            parts.quotas.saved()

    parts.signals.listen(notice)
    parts.database.ride_along(with_next_commit)
    async with running(save_forever()):
        yield
    try:
        await parts.save_quotas()
    except UnavailableError as error:
        log.warning("quotas_not_saved", reason=error.detail)


@asynccontextmanager
async def _delivery(parts: _Parts) -> AsyncIterator[None]:
    async with parts.sender:
        await parts.dispatcher.start()
        try:
            yield
        finally:
            await parts.dispatcher.stop()


@asynccontextmanager
async def _watching(parts: _Parts) -> AsyncIterator[None]:
    """Commands write to the same database: what they put into the outbox is sent soon after."""

    async def watch_forever() -> None:
        pause_seconds = _WATCH_SECONDS
        while True:
            await asyncio.sleep(pause_seconds)
            started = perf_counter()
            try:
                if await parts.database.has_changed_outside():
                    await parts.dispatcher.recount()
            except Exception as error:  # the next time may go better
                log.warning("outside_changes_not_seen", error=str(error))
            pause_seconds = max(_WATCH_SECONDS, _WATCH_REST * (perf_counter() - started))

    async with running(watch_forever()):
        yield


@asynccontextmanager
async def _streaming(parts: _Parts) -> AsyncIterator[None]:
    streams = parts.inbox.streams
    async with running(streams.deliver_forever()), running(streams.keep_alive_forever()):
        yield


@asynccontextmanager
async def _sweeping(parts: _Parts) -> AsyncIterator[None]:
    async with running(parts.sweeper.run_forever()):
        yield


def _answer_waiting_polls(signals: Signals) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        signals.close()

    return close


def _end_streams(streams: Streams) -> Callable[[web.Application], Awaitable[None]]:
    async def close(_: web.Application) -> None:
        streams.close()

    return close
