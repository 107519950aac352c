"""What the server is made of: settings become stores and services. Nothing is opened here."""

import os
import resource
from collections import Counter
from functools import partial

from pydantic import SecretStr

from bridge_server.assembly.push_channels import PushChannels
from bridge_server.assembly.wallet import WalletParts
from bridge_server.inbox.arrivals import Arrivals
from bridge_server.inbox.device_store import DeviceStore
from bridge_server.inbox.devices import Devices
from bridge_server.inbox.handlers import InboxServices
from bridge_server.inbox.origins import origin_of_url
from bridge_server.inbox.reading import Reading
from bridge_server.inbox.sign_in import SignIn
from bridge_server.inbox.sign_in_store import SignInStore
from bridge_server.inbox.store import InboxStore
from bridge_server.inbox.streams import Streams
from bridge_server.inbox.subscribing import Subscribing
from bridge_server.kernel.cache import ReadCache
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.sweeper import Sweep, Sweeper
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.notify.service import Notifications
from bridge_server.notify.store import DELIVERIES, NotifyStore
from bridge_server.outbox.channels import Channels
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.known_hosts import KEPT_MS, MOST_HOSTS
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from bridge_server.outbox.store import OutboxStore
from bridge_server.projects.device_state_store import DeviceStateStore
from bridge_server.projects.projects import Projects, account_limit
from bridge_server.projects.store import ProjectStore
from bridge_server.projects.subscription_store import SubscriptionStore
from bridge_server.projects.subscriptions import Subscriptions
from bridge_server.pubsub.irn.models import ClientLimits
from bridge_server.pubsub.irn.service import Irn
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.pubsub.models import QueueLimits, Share, SocketLimits
from bridge_server.pubsub.service import PubSub
from bridge_server.pubsub.store import TopicStore
from bridge_server.pubsub.wire import notice_of
from bridge_server.push.bridges import Bridges
from bridge_server.push.providers.senders import TopicSender
from bridge_server.push.service import OWN_CHANNEL, PushServer
from bridge_server.push.store import PushStore
from bridge_server.relay.models import Caps, Lifetimes
from bridge_server.relay.polling import OWNER_KINDS, RelayReads
from bridge_server.relay.service import Relay
from bridge_server.relay.store import RelayStore
from bridge_server.relay.sweeping import relay_sweeps
from bridge_server.settings.live import LiveSettings
from bridge_server.settings.settings import Settings
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.version import USER_AGENT
from bridge_server.web.bucket_store import BucketStore, saving
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.connections import ConnectionLimits, Connections
from bridge_server.web.quotas import Cost, Quotas, SavedBucket
from bridge_server.web.refusal_report import Refusals
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.stored_bytes import StorageLimit, StoredBytes, storage_limit
from bridge_server.web.unread import UnreadLimits

_IRN_HEARTBEAT_SECONDS = 20
"""JavaScript clients of generation 2.x give up a socket on which nothing has come for 35 seconds."""

_GROWING = frozenset(
    {
        "connections_cut",
        "connections_refused",
        "connections_silent",
        "database_commits",
        "database_transactions",
        "outbox_delivered",
        "outbox_failed",
    }
)
"""Figures that start with nothing, and never go down."""


class Parts:
    """Everything that is put together, by the name of its job."""

    def __init__(self, settings: Settings, clock: Clock, ids: IdMaker) -> None:
        self.settings = settings
        self.live = LiveSettings(settings)
        self.clock = clock
        self.signals = Signals()
        self.stopping = Stopping()
        self.cache = ReadCache(settings.cache_bytes, OWNER_KINDS)
        self.signals.listen(self.cache.forget)
        self.database = SqliteDatabase(settings.database_file, self.signals, settings.database_limit)
        self.buckets = BucketStore(self.database)
        self.addresses = ClientAddresses(settings.trusted_proxies, settings.quota_exempt)
        self.connections = Connections(self.addresses, self.live.held(_connection_limits))
        self.quotas = Quotas(clock)
        self.payload_bytes = self._stored_bytes("payload", settings.call_ttl)
        self.subscription_bytes = self._stored_bytes("subscription", settings.subscription_ttl)
        self.figures = RequestFigures()
        self.refusals = Refusals()
        store = RelayStore(self.database)
        self.relay = Relay(store, clock, ids, _lifetimes(settings), self.live.held(_caps))
        self.polling = RelayReads(store, self.cache, self.signals, clock)
        open_sockets_from: Counter[str] = Counter()
        self.pubsub = self._pubsub(clock, ids, open_sockets_from)
        self.irn = self._irn(clock, ids, open_sockets_from)
        self.projects = Projects(ProjectStore(self.database), clock, ids, os.urandom)
        self.subscriptions = Subscriptions(SubscriptionStore(self.database), clock, ids)
        self.account_limit = self.live.held(_account_limit)
        self.publishing = _publishing(settings, self.database, clock, self.account_limit)
        self.device_states = DeviceStateStore(self.database)
        self.outbox_store = OutboxStore(self.database)
        self.sender = WebhookSender(sender_settings(settings))
        self.push_channels = PushChannels(settings, clock)
        self.inbox = self._inbox(clock, ids)
        self.bridges = Bridges(settings.push_timeout, settings.allow_private_webhooks, USER_AGENT)
        senders = {**self.push_channels.senders, OWN_CHANNEL: TopicSender(self._forward)}
        channels = Channels(senders, otherwise=self.sender)
        self.push_server = self._push_server(channels, clock, ids)
        self.dispatcher = Dispatcher(self.outbox_store, channels, self.signals, clock, self._forget_receiver)
        self.wallet = WalletParts(settings, self.database, self.signals, self.stopping, clock, ids)
        self.sweeper = Sweeper(self._sweeps(), clock, settings.sweep_interval)
        self.live.follow(self._take)

    def _take(self, settings: Settings) -> None:
        """What single parts hold of the settings that may change."""
        self.inbox.streams.most_per_account = settings.max_streams
        self.inbox.devices.most_per_account = settings.max_devices
        self.push_server.webhook_limit = settings.max_topic_webhooks
        self.sender.sign_with(_text_of(settings.webhook_secret))

    def _stored_bytes(self, name: str, lifetime_seconds: int) -> StoredBytes:
        def per_address(settings: Settings) -> StorageLimit:
            return storage_limit(name, getattr(settings, f"{name}_bytes_per_address"), lifetime_seconds)

        def in_all(settings: Settings) -> StorageLimit:
            return storage_limit(f"all-{name}", getattr(settings, f"{name}_bytes_in_all"), lifetime_seconds)

        held = self.live.held
        return StoredBytes(self.quotas, self.addresses.bucket_key, held(per_address), held(in_all))

    def _push_server(self, channels: Channels, clock: Clock, ids: IdMaker) -> PushServer:
        return PushServer(
            PushStore(self.database),
            channels,
            self.bridges,
            clock,
            ids,
            stopping=self.stopping,
            lifetime_ms=self.settings.subscription_ttl * 1000,
            webhook_limit=self.settings.max_topic_webhooks,
        )

    def _pubsub(self, clock: Clock, ids: IdMaker, open_from: Counter[str]) -> PubSub:
        messages = self.live.held(_messages)
        return PubSub(
            TopicStore(self.database, self.payload_bytes),
            clock,
            ids,
            os.urandom,
            self.live.held(_queue_limits),
            self.live.held(_socket_limits),
            open_from,
            charge=lambda address: self.quotas.charge(address, (messages,)),
        )

    def _irn(self, clock: Clock, ids: IdMaker, open_from: Counter[str]) -> Irn:
        messages = self.live.held(_messages)
        return Irn(
            IrnStore(self.database, self.payload_bytes, self.subscription_bytes),
            clock,
            self.live.held(_queue_limits),
            self.live.held(_socket_limits),
            self.live.held(_client_limits),
            self.settings.message_limit,
            open_from,
            charge=lambda address, count: self.quotas.charge_costs(
                (Cost(address, messages, min(count, messages.burst)),)
            ),
            notice=partial(notice_of, ids),
        )

    def _sweeps(self) -> tuple[Sweep, ...]:
        return (
            *relay_sweeps(RelayStore(self.database)),
            self.pubsub.sweep,
            self.irn.sweep,
            self.buckets.sweep,
            self.projects.sweep,
            self.publishing.sweep,
            self.inbox.sign_in.sweep,
            self.push_server.sweep,
            *self.wallet.sweeps,
            self._sweep_dead_letters,
        )

    def _inbox(self, clock: Clock, ids: IdMaker) -> InboxServices:
        settings, store = self.settings, InboxStore(self.database)
        arrivals = Arrivals(self.signals, DELIVERIES)
        own = origin_of_url(settings.public_url) if settings.public_url is not None else None
        sign_in = SignIn(
            SignInStore(self.database),
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
            Devices(
                DeviceStore(self.database), self.push_channels.addresses, clock, ids, settings.max_devices
            ),
        )

    async def _forget_receiver(self, message: OutgoingMessage) -> None:
        """A receiver wants nothing more: forget who asked for the message, unless the operator did."""
        await self.relay.forget_receiver(message)
        await self.inbox.devices.forget_receiver(message)
        await self.push_server.forget_receiver(message)

    async def _forward(self, notice: OutgoingMessage) -> bool:
        return await self.push_server.forward(notice)

    async def check_work(self) -> None:
        """Raise UnavailableError when the database is gone, or cannot be read, or could not be written last
        time.
        """
        self.database.require_presence()
        await self.database.read("SELECT 1")
        if self.database.last_commit_failed:
            await self.database.transaction(saving([SavedBucket("probe", "", self.clock.now_us(), None)]))

    def troubles(self) -> list[str]:
        """What does not work until an operator does something."""
        full = ["the database is full (database_limit): nothing is added"] if self.database.is_full else []
        blocked = self.push_channels.blocked.items()
        return full + [f"pushes by {lane} have stopped: {reason}" for lane, reason in blocked]

    async def save_quotas(self) -> None:
        """Commit: what the buckets' rider has collected goes along."""
        if self.quotas.has_unsaved:
            await self.database.transaction(saving([]))

    async def _sweep_dead_letters(self, now_ms: int) -> int:
        died_before_ms = now_ms - self.settings.dead_letter_ttl * 1000
        return await self.outbox_store.sweep(died_before_ms, now_ms - KEPT_MS, MOST_HOSTS)

    def gauges(self) -> dict[str, float]:
        database = {f"database_{name}": value for name, value in self.database.figures().items()}
        outbox = {f"outbox_{name}": value for name, value in self.dispatcher.figures().items()}
        waiting = {"waiting_clients": self.signals.waiting, "inbox_streams": self.inbox.streams.open}
        sockets = {
            "sockets": self.pubsub.sockets + self.irn.sockets,
            "socket_topics": self.pubsub.topics + self.irn.topics,
        }
        approvals = {"wallet_approvals_waiting": self.wallet.approvals.waiting}
        blocked = {f"push_{name}_blocked": lanes for name, lanes in self.push_channels.blocked_lanes.items()}
        rooms = {**waiting, **sockets, **approvals, **blocked}
        figures = {**self.connections.figures(), **rooms, **database, **outbox}
        return {f"{name}_total" if name in _GROWING else name: value for name, value in figures.items()}


def _connection_limits(settings: Settings) -> ConnectionLimits:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ConnectionLimits(
        settings.max_address_connections or max(1, descriptors // 4),
        descriptors - descriptors // 8,
        settings.head_timeout,
        UnreadLimits(settings.max_address_unread_bytes, settings.max_unread_bytes, settings.unread_timeout),
    )


def _lifetimes(settings: Settings) -> Lifetimes:
    return Lifetimes(
        session_ms=settings.session_ttl * 1000,
        call_ms=settings.call_ttl * 1000,
        status_ms=settings.status_ttl * 1000,
        subscription_ms=settings.subscription_ttl * 1000,
    )


def _account_limit(settings: Settings) -> Limit:
    return account_limit(settings.account_rate_per_hour, settings.account_burst)


def _messages(settings: Settings) -> Limit:
    return per_second("messages", settings.messages_per_second, settings.messages_burst)


def _publishing(settings: Settings, database: SqliteDatabase, clock: Clock, limit: Limit) -> Notifications:
    return Notifications(
        NotifyStore(database),
        clock,
        limit,
        read_kept_ms=settings.read_notification_ttl * 1000,
        unread_kept_ms=settings.unread_notification_ttl * 1000,
    )


def _socket_limits(settings: Settings) -> SocketLimits:
    return SocketLimits(
        per_address=settings.max_sockets,
        topics=settings.max_socket_topics,
        unacknowledged=2 * settings.max_topic_messages,
        heartbeat_seconds=settings.heartbeat,
    )


def _queue_limits(settings: Settings) -> QueueLimits:
    return QueueLimits(
        topic=Share(settings.max_topic_messages, settings.max_topic_bytes),
        address=Share(settings.max_address_messages, settings.max_address_bytes),
        lifetime_ms=settings.message_ttl * 1000,
    )


def _client_limits(settings: Settings) -> ClientLimits:
    return ClientLimits(
        Share(settings.max_client_messages, settings.max_client_bytes),
        topics=settings.max_client_topics,
        remembered_calls=settings.max_remembered_calls,
        subscription_ms=settings.subscription_ttl * 1000,
        heartbeat_seconds=min(settings.heartbeat, _IRN_HEARTBEAT_SECONDS),
    )


def _caps(settings: Settings) -> Caps:
    return Caps(settings.max_pending_calls, settings.max_topic_webhooks)


def sender_settings(settings: Settings) -> SenderSettings:
    """How webhooks are called."""
    return SenderSettings(
        timeout_seconds=settings.webhook_timeout,
        signing_secret=_text_of(settings.webhook_secret),
        allow_private=settings.allow_private_webhooks,
        user_agent=USER_AGENT,
    )


def _text_of(secret: SecretStr | None) -> str | None:
    return None if secret is None else secret.get_secret_value()
