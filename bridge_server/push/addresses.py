"""Push channels, and the conversion of a channel's device tokens to addresses in the outbox."""

from collections.abc import Callable, Mapping

import orjson
from yarl import URL

from bridge_server.kernel.fields import http_url
from bridge_server.outbox.models import DeviceEndpoint

AddressOf = Callable[[str], DeviceEndpoint]
"""Converts a channel's token. Raises ValueError, which describes the form of a valid token."""

ALIASES = {"apn": "apns"}


def webhook_address(token: str) -> DeviceEndpoint:
    """The address of a webhook; its token is its URL. Raises ValueError."""
    return DeviceEndpoint(http_url(token), None)


def log_address(_: str) -> DeviceEndpoint:
    """The address of the channel `log`, which ignores the token."""
    return DeviceEndpoint("log:", "log")


def service_address(channel: str, checked: Callable[[str], str]) -> AddressOf:
    """Converter for a channel whose devices are all reached through one service, such as FCM."""
    return lambda token: DeviceEndpoint(f"{channel}:{checked(token)}", channel)


def webpush_address(checked: Callable[[str], str]) -> AddressOf:
    """Converter for Web Push. A subscription names its push service, and each service has its own lane.

    `checked` validates a subscription and returns it as JSON with an `endpoint`.
    """

    def read(token: str) -> DeviceEndpoint:
        subscription = checked(token)
        origin = URL(orjson.loads(subscription)["endpoint"]).origin()
        return DeviceEndpoint(f"webpush:{subscription}", f"webpush {origin}")

    return read


class Addresses:
    """The configured channels by name."""

    def __init__(self, channels: Mapping[str, AddressOf]) -> None:
        self._channels = dict(channels)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the configured channels."""
        return tuple(sorted(self._channels))

    def named(self, name: str) -> str | None:
        """The channel with this name or alias, in any letter case; None if it is not configured."""
        lower = name.lower()
        channel = ALIASES.get(lower, lower)
        return channel if channel in self._channels else None

    def address(self, channel: str, token: str) -> DeviceEndpoint:
        """The address of a device. Raises ValueError if the token does not have the channel's form."""
        return self._channels[channel](token)
