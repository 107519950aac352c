"""The parts that all rooms share, made from the settings. Nothing is opened here."""

import resource
from collections.abc import Mapping
from dataclasses import dataclass

from bridge_server.assembly.demo import DemoProject
from bridge_server.assembly.engine import clock_of, engine_of, token_buckets_of
from bridge_server.assembly.instruments import break_disk, instruments_for_tests, observed_webhooks
from bridge_server.assembly.observation import Observation, observation_of
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.events import Events
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.own_url import OwnUrl
from bridge_server.kernel.signals import Signals
from bridge_server.kernel.stopping import Stopping
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.public_urls import PublicSender
from bridge_server.outbox.recording import RecordedSender
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from bridge_server.settings.checks import secret_of
from bridge_server.settings.live import NOWHERE, LiveSettings
from bridge_server.settings.settings import Settings
from bridge_server.storage.engine import Engine
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.testmode.instruments import Instruments
from bridge_server.version import USER_AGENT
from bridge_server.web.client_address import ClientAddresses
from bridge_server.web.connections import ConnectionLimits, Connections
from bridge_server.web.refusal_report import Refusals
from bridge_server.web.request_figures import RequestFigures
from bridge_server.web.stored_bytes import StoredBytes, storage_limit
from bridge_server.web.token_buckets import TokenBuckets
from bridge_server.web.traffic import TrafficLog
from bridge_server.web.unread import UnreadLimits


@dataclass(frozen=True, slots=True)
class Foundation:
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
    database: Engine
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
    """The records of requests for an operator; None where no operator looks."""

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


def lay_foundation(
    settings: Settings,
    clock: Clock | None = None,
    ids: IdMaker | None = None,
    demo: DemoProject | None = None,
    origins: Mapping[str, str] = NOWHERE,
) -> Foundation:
    """Make everything that rooms share. A test hands in its own clock and ids.

    `origins` names the source of each setting.
    """
    live, events, signals = LiveSettings(settings, origins), Events(), Signals()
    clock = machine_clock = clock or clock_of(settings)
    instruments = instruments_for_tests(clock, signals) if settings.test else None
    clock = clock if instruments is None else instruments.clock
    observation = observation_of(settings, clock, signals, instruments)
    webhooks = _webhooks(live, allow_private=settings.allow_private_webhooks)
    public_webhooks = _webhooks(live, allow_private=False) if settings.allow_private_webhooks else webhooks
    signals.subscribe_to(events)
    addresses = ClientAddresses(settings.trusted_proxies, settings.quota_exempt)
    database = _database(settings, events, machine_clock, instruments)
    quotas = token_buckets_of(database, clock)
    return Foundation(
        settings=settings,
        live=live,
        clock=clock,
        machine_clock=machine_clock,
        ids=ids or IdMaker(),
        events=events,
        signals=signals,
        stopping=Stopping(),
        own_url=OwnUrl(settings.internal_url),
        database=database,
        addresses=addresses,
        connections=Connections(addresses, live.held(_connection_limits)),
        quotas=quotas,
        every_request=live.held(_every_request),
        payload_bytes=_stored_bytes("payload", settings.call_ttl, live, quotas, addresses),
        subscription_bytes=_stored_bytes("subscription", settings.subscription_ttl, live, quotas, addresses),
        figures=RequestFigures(),
        refusals=Refusals(),
        webhooks=webhooks,
        webhook_sender=_observed(webhooks, instruments, observation),
        public_webhooks=public_webhooks,
        public_sender=PublicSender(_observed(public_webhooks, instruments, observation)),
        instruments=instruments,
        observation=observation,
        demo=demo,
    )


def _database(settings: Settings, events: Events, clock: Clock, instruments: Instruments | None) -> Engine:
    database = engine_of(settings, events, clock)
    if instruments is not None and isinstance(database, SqliteDatabase):
        break_disk(database, instruments)
    return database


def _connection_limits(settings: Settings) -> ConnectionLimits:
    descriptors, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return ConnectionLimits(
        settings.max_address_connections or max(1, descriptors // 4),
        descriptors - descriptors // 8,
        settings.head_timeout,
        UnreadLimits(settings.max_address_unread_bytes, settings.max_unread_bytes, settings.unread_timeout),
    )


def _every_request(settings: Settings) -> Limit:
    return per_second("requests", settings.requests_per_second, settings.requests_burst)


def _stored_bytes(
    name: str, lifetime_seconds: int, live: LiveSettings, quotas: TokenBuckets, addresses: ClientAddresses
) -> StoredBytes:
    def per_address(settings: Settings) -> Limit:
        return storage_limit(name, getattr(settings, f"{name}_bytes_per_address"), lifetime_seconds)

    def in_all(settings: Settings) -> Limit:
        return storage_limit(f"all-{name}", getattr(settings, f"{name}_bytes_in_all"), lifetime_seconds)

    return StoredBytes(quotas, addresses.bucket_key, live.held(per_address), live.held(in_all))


def _observed(
    webhooks: WebhookSender, instruments: Instruments | None, observation: Observation | None
) -> Sender:
    if instruments is not None:
        return observed_webhooks(webhooks, instruments)
    record = None if observation is None else observation.traffic
    return webhooks if record is None else RecordedSender(webhooks, record)


def _webhooks(live: LiveSettings, *, allow_private: bool) -> WebhookSender:
    settings = live.current
    sender = WebhookSender(
        SenderSettings(
            timeout_seconds=settings.webhook_timeout,
            signing_secret=secret_of(settings.webhook_secret),
            allow_private=allow_private,
            user_agent=USER_AGENT,
        )
    )

    def sign(now: Settings) -> None:
        sender.sign_with(secret_of(now.webhook_secret), secret_of(now.webhook_secret_previous))

    live.follow(sign)
    return sender
