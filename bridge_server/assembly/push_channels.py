"""What pushes are made of: the providers that are configured, and the channels that lead to them."""

from collections.abc import Mapping

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.channels import LogSender, Sender
from bridge_server.push.addresses import (
    Addresses,
    AddressOf,
    log_address,
    service_address,
    webhook_address,
    webpush_address,
)
from bridge_server.push.providers.provider import Provider
from bridge_server.push.providers.senders import NoProvider, ProviderSender
from bridge_server.settings.settings import Settings

_SERVICES = ("apns", "fcm", "webpush")


class PushChannels:
    """The ways to a device, by the names that clients use. Whoever holds this opens the providers."""

    def __init__(self, settings: Settings, clock: Clock) -> None:
        self.providers: dict[str, Provider] = {}
        of_channel: dict[str, AddressOf] = {"webhook": webhook_address}
        if settings.push_log:
            of_channel["log"] = log_address
        for name, provider in _services(settings, clock).items():
            self.providers[name] = provider
            of_channel[name] = service_address(name, provider.checked_token)
        webpush = settings.webpush()
        if webpush is not None:
            browsers = webpush(clock)
            self.providers["webpush"] = browsers
            of_channel["webpush"] = webpush_address(browsers.checked_token)
        self.addresses = Addresses(of_channel)
        self._senders = {name: ProviderSender(name, provider) for name, provider in self.providers.items()}

    @property
    def senders(self) -> Mapping[str, Sender]:
        """What takes the outbox's messages, by the scheme of their URLs."""
        return {"log": LogSender(), **{name: NoProvider(name) for name in _SERVICES}, **self._senders}

    @property
    def blocked(self) -> Mapping[str, str]:
        """The lanes in which this server's credentials are refused, and what is said of them there."""
        return {lane: reason for sender in self._senders.values() for lane, reason in sender.blocked.items()}

    @property
    def blocked_lanes(self) -> Mapping[str, int]:
        """How many of each provider's lanes that are; browsers' subscriptions lead to several."""
        return {name: len(sender.blocked) for name, sender in self._senders.items()}


def _services(settings: Settings, clock: Clock) -> dict[str, Provider]:
    services: dict[str, Provider] = {}
    fcm, apns = settings.fcm(), settings.apns()
    if fcm is not None:
        services["fcm"] = fcm(clock)
    if apns is not None:
        services["apns"] = apns(clock)
    return services
