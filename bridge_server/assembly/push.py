"""The push server, and the channels to devices that it shares with inboxes."""

from collections.abc import Mapping, Sequence
from functools import partial
from importlib import import_module
from typing import Any, NamedTuple

from bridge_server.assembly.foundation import Foundation, RecordedSender, noted, push_sink
from bridge_server.assembly.room import Room, Running, afterwards
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.token_bucket import per_second
from bridge_server.kernel.version import USER_AGENT
from bridge_server.outbox.channels import Channels, LogSender, Sender
from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.push import routes
from bridge_server.push.models import OWN_CHANNEL
from bridge_server.push.notices import PUSH
from bridge_server.push.providers.provider import (
    NoProvider,
    Provider,
    ProviderOf,
    ProviderSender,
    TopicSender,
)
from bridge_server.push.routes import Addresses
from bridge_server.push.service import Bridges, PushServer
from bridge_server.push.store import PushStore
from bridge_server.settings.settings import Settings
from bridge_server.settings.types import secret_of, text_of
from bridge_server.web.metrics import Family


def push_providers(settings: Settings, clock: Clock) -> dict[str, Provider]:
    """The configured providers. Raises ValueError when their credentials cannot be used."""
    configured = {"fcm": _fcm(settings), "apns": _apns(settings), "webpush": _webpush(settings)}
    return {name: provider(clock) for name, provider in configured.items() if provider is not None}


def _fcm(settings: Settings) -> ProviderOf | None:
    if settings.fcm_credentials is None:
        return None
    fcm = _module("fcm")
    account = fcm.ServiceAccount.parse(text_of(settings.fcm_credentials))
    endpoint = settings.fcm_endpoint or fcm.ENDPOINT
    service = fcm.FcmSettings(account, endpoint, settings.fcm_token_endpoint, settings.push_timeout)
    return partial(fcm.FcmProvider, service)


def _apns(settings: Settings) -> ProviderOf | None:
    if settings.apns_key is None:
        return None
    apns = _module("apns")
    app = apns.ApnsSettings(
        key=text_of(settings.apns_key), key_id=settings.apns_key_id, team_id=settings.apns_team_id,
        topic=settings.apns_topic, environment=settings.apns_environment, ca_file=settings.apns_ca_file,
        endpoint=settings.apns_endpoint, timeout_seconds=settings.push_timeout,
    )  # fmt: skip
    return partial(apns.ApnsProvider, app)


def _webpush(settings: Settings) -> ProviderOf | None:
    key = secret_of(settings.vapid_private_key)
    if key is None:
        return None
    webpush = _module("webpush")
    service = webpush.WebPushSettings(
        key, settings.vapid_subject, settings.push_timeout, settings.allow_private_webhooks, USER_AGENT
    )
    return partial(webpush.WebPushProvider, service)


def _module(provider: str) -> Any:
    """The module of a provider, loaded only when it is on: elliptic curves, RSA and HTTP/2 take 4 MiB."""
    return import_module(f"bridge_server.push.providers.{provider}")


_SERVICES = ("apns", "fcm", "webpush")
_ATTEMPTS = (
    "Attempts to push since the start, by channel and outcome: delivered, failed (a retry may succeed), gone "
    "(a dead token), refused (no retry can succeed), blocked (the service refuses the credentials)."
)


class PushServices(NamedTuple):
    """The push server and its channels, for the server and for an operator's command."""

    server: PushServer
    store: PushStore
    addresses: Addresses
    senders: Mapping[str, Sender]
    """The senders of pushes to devices, by the schemes of their URLs."""
    provider_senders: Mapping[str, ProviderSender]
    """The senders among them whose provider is configured."""
    providers: tuple[Running, ...]
    """The connections to the providers."""
    bridges: Bridges


def push_services(foundation: Foundation) -> PushServices:
    """The push server with the providers that are configured."""
    settings, instruments, clock = foundation.settings, foundation.instruments, foundation.clock
    if instruments is None:
        providers = push_providers(settings, clock)
    else:
        providers = {name: push_sink(name, instruments) for name in _SERVICES}
    provider_senders = {name: ProviderSender(name, provider, clock) for name, provider in providers.items()}
    senders: dict[str, Sender] = {
        "log": LogSender(),
        **{name: NoProvider(name) for name in _SERVICES},
        **provider_senders,
    }
    if (traffic := foundation.traffic) is not None:  # pushes are in the record of requests
        senders |= {name: RecordedSender(each, traffic, name) for name, each in provider_senders.items()}
    bridges = Bridges(settings.push_timeout, settings.allow_private_webhooks)
    store = PushStore(foundation.database, settings.subscription_ttl * 1000, settings.max_topic_webhooks)
    sender = noted(Channels(senders, otherwise=foundation.webhook_sender), foundation.observation)
    server = PushServer(store, sender, bridges, clock, foundation.ids, foundation.stopping)
    channels: dict[str, routes.AddressOf] = {"webhook": routes.webhook_address}
    if settings.push_log:
        channels["log"] = lambda _: DeviceEndpoint("log:", "log")  # whatever the token is
    for name, provider in providers.items():
        checked, is_web = provider.checked_token, name == "webpush" and not settings.test
        channels[name] = routes.webpush_address(checked) if is_web else routes.service_address(name, checked)
    opened = tuple(map(_opened, providers.values()))
    return PushServices(server, store, Addresses(channels), senders, provider_senders, opened, bridges)


def push_room(foundation: Foundation, services: PushServices) -> Room:
    """The push server's endpoints, and the senders of pushes."""
    server, providers = services.server, services.provider_senders

    async def families() -> Sequence[Family]:
        rows: dict[tuple[str, ...], float] = {
            (channel, outcome): count
            for channel, sender in providers.items()
            for outcome, count in sender.outcomes.items()
        }
        return [Family("push_attempts", _ATTEMPTS, rows, ("channel", "outcome"), is_total=True)]

    def troubles() -> list[str]:
        lanes = [lane for sender in providers.values() for lane in sender.blocked.items()]
        return [f"pushes by {lane} have stopped: {reason}" for lane, reason in lanes]

    def take(now: Settings) -> None:
        services.store.webhook_limit = now.max_topic_webhooks

    foundation.live.follow(take)
    settings = foundation.settings
    handlers = routes.PushHandlers(
        server, services.addresses, settings.public_url, settings.allow_private_webhooks,
        foundation.subscription_bytes,
    )  # fmt: skip
    new_clients = foundation.live.held(
        lambda now: per_second("new-clients", now.clients_per_minute / 60, now.clients_burst)
    )
    body_limit = settings.push_body_limit
    return Room(
        name="push",
        routes=routes.push_routes(handlers, body_limit, foundation.every_request, new_clients=new_clients),
        emptied=tuple(partial(afterwards, sender.forget_blocked) for sender in providers.values()),
        sweeps=(services.store.sweep,),
        gauges=lambda: {f"push_{name}_blocked": len(sender.blocked) for name, sender in providers.items()},
        families=families,
        troubles=troubles,
        senders={**services.senders, OWN_CHANNEL: TopicSender(server.forward)},
        clients=(lambda: services.bridges, *services.providers),
        gone_handlers={PUSH: server.forget_receiver},
    )


def _opened(provider: Provider) -> Running:
    return lambda: provider
