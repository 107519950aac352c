"""The parts that all rooms share, made from the settings. Nothing is opened here."""

import asyncio
import os
import resource
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib import import_module
from time import perf_counter
from typing import NamedTuple

from bridge_server.assembly.room import Backend, DemoProject, OwnUrl
from bridge_server.kernel.background import Stopping
from bridge_server.kernel.clock import Clock, MovableClock
from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import IdMaker, new_secret
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.kernel.version import USER_AGENT
from bridge_server.notify.service import DEVICE
from bridge_server.outbox import channels
from bridge_server.outbox.channels import AttemptLog, Sender
from bridge_server.outbox.guarded_client import Outcome
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from bridge_server.projects.devices import DeviceStateStore
from bridge_server.projects.service import Projects, ProjectServices, account_limit
from bridge_server.projects.store import ProjectStore
from bridge_server.projects.subscriptions import Subscriptions, SubscriptionStore
from bridge_server.push.models import OWN_CHANNEL
from bridge_server.push.notices import PUSH
from bridge_server.push.providers.sinks import Refusal, SinkProvider, SinkPush
from bridge_server.settings.settings import NOWHERE, LiveSettings, Settings
from bridge_server.settings.types import secret_of
from bridge_server.storage.connection import ordered_failure
from bridge_server.storage.database import Engine
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.testmode.instruments import (
    Faults,
    Instruments,
    ObservedWebhooks,
    Sent,
    SentMessages,
    Where,
    attempted,
)
from bridge_server.wallet.node.connections import NodeFailure
from bridge_server.web.addresses import ClientAddresses
from bridge_server.web.limits import StoredBytes, TokenBuckets, storage_limit
from bridge_server.web.metrics import RequestFigures
from bridge_server.web.middleware import RequestFault
from bridge_server.web.open_connections import ConnectionLimits, Connections, UnreadLimits
from bridge_server.web.recorder import Activities, Clients, Observer, RecentCounts
from bridge_server.web.request_log import Refusals
from bridge_server.web.traffic import TrafficLog

PUSHES = (DEVICE, PUSH)
"""The purposes of messages for devices."""
_INNER_CHANNELS = frozenset({OWN_CHANNEL})
"""Channels to another part of this server, which sends the push."""


class RecordedSender:
    """Sends through the sender; the record gets the receiver's origin and path, and nothing of the body."""

    def __init__(self, sender: Sender, record: TrafficLog, route: str = channels.WEBHOOK_CHANNEL) -> None:
        self._sender = sender
        self._record = record
        self._route = route

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        started = perf_counter()
        outcome = await self._sender.send(message, now_ms)
        self._record.note(attempted(message, outcome, started, channels.shown_url(message.url), self._route))
        return outcome


class Observation(NamedTuple):
    """The records of requests and of the clients that send them."""

    traffic: TrafficLog | None
    """None when no record of requests is kept."""
    clients: Clients
    made: RecentCounts
    """Sessions and calls that were made."""
    activities: Activities
    open_sockets: Counter[str]
    """Open sockets by address, without exempt clients."""
    attempts: AttemptLog
    """The last attempts to deliver webhooks and pushes."""

    def observer(self, addresses: ClientAddresses, clock: Clock) -> Observer:
        """The outermost layer calls it with each request; test mode has a layer for its record."""
        record = None if self.traffic is None or self.traffic.keeps_contents else self.traffic
        return Observer(record, self.clients, self.activities, self.made, addresses, clock)


def observation_of(
    settings: Settings, clock: Clock, signals: Signals, instruments: Instruments | None
) -> Observation | None:
    """The records that the settings ask for; None where no operator has access."""
    if settings.admin_token is None and not settings.console:
        return None
    traffic = None if instruments is None else instruments.traffic
    is_kept = settings.console if settings.traffic is None else settings.traffic
    if traffic is None and is_kept:
        traffic = TrafficLog(signals, clock, keeps_contents=False)
    attempts = AttemptLog(clock, PUSHES, keeps_bodies=instruments is not None)
    return Observation(traffic, Clients(clock), RecentCounts(clock), Activities(clock), Counter(), attempts)


def noted(sender: Sender, observation: Observation | None) -> Sender:
    """The sender, whose attempts an operator can see; itself where no operator has access."""
    if observation is None:
        return sender
    return channels.NotedSender(sender, observation.attempts, _INNER_CHANNELS)


# Test mode's instruments, and the senders that they watch and break.


def push_sink(channel: str, instruments: Instruments) -> SinkProvider:
    """A provider that takes every push, and shows it to the instruments."""

    async def strike(channel: str) -> Refusal | None:
        fault = instruments.faults.strike(Where(channel))
        if fault is None:
            return None
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault.drop:
            return Refusal()
        if fault.answer is None and fault.status is None:
            return None
        return Refusal(fault.answer, fault.status, fault.retry_after)

    def witness(push: SinkPush) -> None:
        notice = push.notice
        instruments.sent.note(Sent(
            message_id=notice.message_id, channel=push.channel, at_ms=instruments.clock.now_ms(),
            outcome=push.outcome.verdict.name.lower(), reason=push.outcome.reason,
            notice={**notice.data, "title": notice.title, "body": notice.body},
            payload=push.payload, token=push.token, headers=push.headers,
        ))  # fmt: skip

    return SinkProvider(channel, instruments.clock, strike, witness)


def request_fault(instruments: Instruments, route: str) -> RequestFault | None:
    """The fault that strikes the next request of the route."""
    fault = instruments.faults.strike(Where.REQUEST, route)
    if fault is None:
        return None
    return RequestFault(fault.delay_ms, fault.drop, fault.status, fault.retry_after)


def node_failure(instruments: Instruments, methods: Sequence[str]) -> NodeFailure | None:
    """The failure that strikes a request to the node, which calls these methods."""
    fault = instruments.faults.strike(Where.NODE, *methods)
    return None if fault is None else NodeFailure(fault.delay_ms, fault.drop, fault.status, fault.answer)


def break_disk(database: SqliteDatabase, instruments: Instruments) -> None:
    """Have ordered faults of the disk strike the commits."""

    def before_commit() -> None:
        fault = instruments.faults.strike(Where.DISK)
        if fault is not None and fault.answer is not None:
            raise ordered_failure(fault.answer)

    database.order_failures(before_commit)


class Foundation(NamedTuple):
    """The parts that every room may use. The server has one, and each operator's command another."""

    settings: Settings
    """The settings at the start."""
    live: LiveSettings
    """The settings that can change while the server runs."""
    clock: Clock
    machine_clock: Clock
    """The clock of the machine, which test mode does not move."""
    ids: IdMaker
    events: Events
    """The events that commits announce."""
    signals: Signals
    """The waiters of long polls."""
    stopping: Stopping
    own_url: OwnUrl
    """The URL at which other processes on the database reach this one."""
    backend: Backend
    """The parts that depend on the kind of the database."""
    addresses: ClientAddresses
    connections: Connections
    quotas: TokenBuckets
    every_request: Limit
    """The limit of requests per client address."""
    payload_bytes: StoredBytes
    """The limits of payload bytes that clients store."""
    subscription_bytes: StoredBytes
    """The limits of bytes that clients store as subscriptions."""
    figures: RequestFigures
    refusals: Refusals
    webhooks: WebhookSender
    """The client of the webhooks' receivers."""
    webhook_sender: Sender
    """Sends through that client."""
    public_webhooks: WebhookSender
    """The client that reaches public receivers only, whatever the settings allow."""
    public_sender: Sender
    """Sends to marked URLs through that client."""
    instruments: Instruments | None
    """The instruments of test mode; None outside of it."""
    demo: DemoProject | None
    """The project that is always there; None without one."""
    observation: Observation | None
    """The records of requests for an operator; None where no operator has access."""

    @property
    def database(self) -> Engine:
        """The database of all rooms."""
        return self.backend.database

    @property
    def database_file(self) -> SqliteDatabase | None:
        """The database, if it is a file of this process alone; None if it is PostgreSQL's."""
        return self.database if isinstance(self.database, SqliteDatabase) else None

    @property
    def traffic(self) -> TrafficLog | None:
        """The record of requests, if one is kept."""
        if self.instruments is not None:
            return self.instruments.traffic
        return None if self.observation is None else self.observation.traffic


def backend_of(settings: Settings, events: Events, clock: Clock | None = None) -> Backend:
    """The database that the settings name; a test hands in its own clock. Nothing is opened."""
    if settings.database is None:
        return Backend(settings, events, clock)
    module = import_module("bridge_server.assembly.postgres")  # loaded only where it is used
    backend: Backend = module.PostgresBackend(settings, events, clock)
    return backend


def lay_foundation(
    settings: Settings,
    clock: Clock | None = None,
    demo: DemoProject | None = None,
    origins: Mapping[str, str] = NOWHERE,
) -> Foundation:
    """Make what rooms share. A test hands in its clock; `origins` names the source of each setting."""
    live, events, signals = LiveSettings(settings, origins), Events(), Signals()
    backend = backend_of(settings, events, clock)
    clock, instruments = backend.clock, None
    if settings.test:
        clock = movable = MovableClock(clock)
        traffic = TrafficLog(signals, clock, keeps_contents=True)
        instruments = Instruments(movable, Faults(), SentMessages(signals), traffic, new_secret(os.urandom))
    observation = observation_of(settings, clock, signals, instruments)
    webhooks = _webhooks(live, allow_private=settings.allow_private_webhooks)
    public_webhooks = _webhooks(live, allow_private=False) if settings.allow_private_webhooks else webhooks
    signals.subscribe_to(events)
    addresses = ClientAddresses(settings.trusted_proxies, settings.quota_exempt)
    if instruments is not None and isinstance(backend.database, SqliteDatabase):
        break_disk(backend.database, instruments)
    quotas = backend.token_buckets(clock)
    every = live.held(lambda now: per_second("requests", now.requests_per_second, now.requests_burst))
    return Foundation(
        settings=settings, live=live, clock=clock, machine_clock=backend.clock, ids=IdMaker(),
        events=events, signals=signals, stopping=Stopping(), own_url=OwnUrl(settings.internal_url),
        backend=backend, addresses=addresses, quotas=quotas, every_request=every,
        connections=Connections(addresses, live.held(_connection_limits)),
        payload_bytes=_stored_bytes("payload", settings.call_ttl, live, quotas, addresses),
        subscription_bytes=_stored_bytes("subscription", settings.subscription_ttl, live, quotas, addresses),
        figures=RequestFigures(), refusals=Refusals(), webhooks=webhooks, public_webhooks=public_webhooks,
        webhook_sender=_observed(webhooks, instruments, observation),
        public_sender=channels.PublicSender(_observed(public_webhooks, instruments, observation)),
        instruments=instruments, observation=observation, demo=demo,
    )  # fmt: skip


def _connection_limits(settings: Settings) -> ConnectionLimits:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ConnectionLimits(
        settings.max_address_connections or max(1, descriptors // 4),
        descriptors - descriptors // 8,
        settings.head_timeout,
        UnreadLimits(settings.max_address_unread_bytes, settings.max_unread_bytes, settings.unread_timeout),
    )


def _stored_bytes(
    name: str, lifetime_seconds: int, live: LiveSettings, quotas: TokenBuckets, addresses: ClientAddresses
) -> StoredBytes:
    def held(limit: str, setting: str) -> Limit:
        return live.held(lambda now: storage_limit(limit, getattr(now, setting), lifetime_seconds))

    per_address = held(name, f"{name}_bytes_per_address")
    return StoredBytes(quotas, addresses.bucket_key, per_address, held(f"all-{name}", f"{name}_bytes_in_all"))


def _observed(
    webhooks: WebhookSender, instruments: Instruments | None, observation: Observation | None
) -> Sender:
    if instruments is not None:
        return ObservedWebhooks(webhooks, instruments, webhooks.headers, lambda each: each.purpose in PUSHES)
    record = None if observation is None else observation.traffic
    return webhooks if record is None else RecordedSender(webhooks, record)


def _webhooks(live: LiveSettings, *, allow_private: bool) -> WebhookSender:
    settings = live.current
    secret = secret_of(settings.webhook_secret)
    sender = WebhookSender(SenderSettings(settings.webhook_timeout, secret, allow_private, USER_AGENT))

    def sign(now: Settings) -> None:
        sender.sign_with(secret_of(now.webhook_secret), secret_of(now.webhook_secret_previous))

    live.follow(sign)
    return sender


def project_services(foundation: Foundation) -> ProjectServices:
    """The services of projects over the foundation's database."""
    database, clock, ids = foundation.database, foundation.clock, foundation.ids
    projects = Projects(ProjectStore(database), clock, os.urandom)
    projects.subscribe_to(foundation.events)
    return ProjectServices(
        projects,
        Subscriptions(SubscriptionStore(database), clock, ids),
        DeviceStateStore(database),
        foundation.live.held(lambda now: account_limit(now.account_rate_per_hour, now.account_burst)),
    )
