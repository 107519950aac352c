"""The push server, and the channels to devices that it shares with inboxes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from bridge_server.assembly.foundation import Foundation
from bridge_server.assembly.instruments import push_sink
from bridge_server.assembly.observation import noted
from bridge_server.assembly.push_providers import push_providers
from bridge_server.assembly.room import Room, Running, afterwards
from bridge_server.kernel.token_bucket import Limit, per_second
from bridge_server.outbox.channels import Channels, LogSender, Sender
from bridge_server.outbox.recording import RecordedSender
from bridge_server.push.addresses import (
    Addresses,
    AddressOf,
    log_address,
    service_address,
    webhook_address,
    webpush_address,
)
from bridge_server.push.bridges import Bridges
from bridge_server.push.handlers import PushHandlers
from bridge_server.push.notices import PUSH
from bridge_server.push.providers.provider import Provider
from bridge_server.push.providers.senders import NoProvider, ProviderSender, TopicSender
from bridge_server.push.routes import push_routes
from bridge_server.push.service import OWN_CHANNEL, PushServer
from bridge_server.push.store import PushStore
from bridge_server.settings.settings import Settings
from bridge_server.version import USER_AGENT
from bridge_server.web.families import Family
from bridge_server.web.routes import Route

_SERVICES = ("apns", "fcm", "webpush")
_ATTEMPTS = (
    "Attempts to push since the start, by channel and outcome: delivered, failed (a retry may succeed), gone "
    "(a dead token), refused (no retry can succeed), blocked (the service refuses the credentials)."
)


@dataclass(frozen=True, slots=True)
class PushServices:
    """The push server and its channels, for the server and for an operator's command."""

    server: PushServer
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
    settings = foundation.settings
    instruments = foundation.instruments
    if instruments is None:
        providers = push_providers(settings, foundation.clock)
    else:
        providers = {name: push_sink(name, instruments) for name in _SERVICES}
    provider_senders = {name: ProviderSender(name, provider) for name, provider in providers.items()}
    senders: dict[str, Sender] = {
        "log": LogSender(),
        **{name: NoProvider(name) for name in _SERVICES},
        **{name: _recorded(foundation, name, sender) for name, sender in provider_senders.items()},
    }
    bridges = Bridges(settings.push_timeout, settings.allow_private_webhooks, USER_AGENT)
    return PushServices(
        _push_server(foundation, senders, bridges),
        _addresses(providers, has_log=settings.push_log, is_test=settings.test),
        senders,
        provider_senders,
        tuple(map(_opened, providers.values())),
        bridges,
    )


def push_room(foundation: Foundation, services: PushServices) -> Room:
    """The push server's endpoints, and the senders of pushes."""
    server, providers = services.server, services.provider_senders

    def gauges() -> dict[str, float]:
        return {f"push_{name}_blocked": len(sender.blocked) for name, sender in providers.items()}

    async def families() -> Sequence[Family]:
        rows: dict[tuple[str, ...], float] = {
            (channel, outcome): count
            for channel, sender in providers.items()
            for outcome, count in sender.outcomes.items()
        }
        return [
            Family("push_attempts", _ATTEMPTS, rows, ("channel", "outcome"), is_total=True),
        ]

    def troubles() -> list[str]:
        lanes = [lane for sender in providers.values() for lane in sender.blocked.items()]
        return [f"pushes by {lane} have stopped: {reason}" for lane, reason in lanes]

    def take(now: Settings) -> None:
        server.webhook_limit = now.max_topic_webhooks

    foundation.live.follow(take)
    return Room(
        name="push",
        routes=_routes(foundation, services),
        emptied=tuple(partial(afterwards, sender.forget_blocked) for sender in providers.values()),
        sweeps=(server.sweep,),
        gauges=gauges,
        families=families,
        troubles=troubles,
        senders={**services.senders, OWN_CHANNEL: TopicSender(server.forward)},
        clients=(lambda: services.bridges, *services.providers),
        gone_handlers={PUSH: server.forget_receiver},
    )


def _recorded(foundation: Foundation, channel: str, sender: ProviderSender) -> Sender:
    """The sender; its pushes are in the record of requests, if there is one."""
    traffic = foundation.traffic
    return sender if traffic is None else RecordedSender(sender, traffic, channel)


def _routes(foundation: Foundation, services: PushServices) -> tuple[Route, ...]:
    settings = foundation.settings
    handlers = PushHandlers(
        services.server,
        services.addresses,
        settings.public_url,
        settings.allow_private_webhooks,
        foundation.subscription_bytes,
    )
    return push_routes(
        handlers,
        settings.push_body_limit,
        foundation.every_request,
        new_clients=foundation.live.held(_new_clients),
    )


def _push_server(foundation: Foundation, senders: Mapping[str, Sender], bridges: Bridges) -> PushServer:
    settings = foundation.settings
    return PushServer(
        PushStore(foundation.database),
        noted(Channels(senders, otherwise=foundation.webhook_sender), foundation.observation),
        bridges,
        foundation.clock,
        foundation.ids,
        stopping=foundation.stopping,
        lifetime_ms=settings.subscription_ttl * 1000,
        webhook_limit=settings.max_topic_webhooks,
    )


def _addresses(providers: Mapping[str, Provider], *, has_log: bool, is_test: bool) -> Addresses:
    channels: dict[str, AddressOf] = {"webhook": webhook_address}
    if has_log:
        channels["log"] = log_address
    for name, provider in providers.items():
        checked = provider.checked_token
        is_web = name == "webpush" and not is_test
        channels[name] = webpush_address(checked) if is_web else service_address(name, checked)
    return Addresses(channels)


def _opened(provider: Provider) -> Running:
    return lambda: provider


def _new_clients(settings: Settings) -> Limit:
    return per_second("new-clients", settings.clients_per_minute / 60, settings.clients_burst)
