"""The channels that this server can push through, and what a token means in each."""

from collections.abc import Callable, Mapping

import orjson
from yarl import URL

from bridge_server.kernel.fields import http_url
from bridge_server.push.models import DeviceEndpoint

AddressOf = Callable[[str], DeviceEndpoint]
"""Reads a channel's token. Raises ValueError that says what a token looks like there."""

ALIASES = {"apn": "apns"}


def webhook_address(token: str) -> DeviceEndpoint:
    """A webhook's token is its URL."""
    return DeviceEndpoint(http_url(token), None)


def log_address(_: str) -> DeviceEndpoint:
    """The log needs no token."""
    return DeviceEndpoint("log:", "log")


def service_address(channel: str, checked: Callable[[str], str]) -> AddressOf:
    """A token of a service that all devices are reached through."""
    return lambda token: DeviceEndpoint(f"{channel}:{checked(token)}", channel)


def webpush_address(checked: Callable[[str], str]) -> AddressOf:
    """A browser's subscription: it names its own push service, and each of those has a lane.

    What is checked is JSON with an endpoint.
    """

    def read(token: str) -> DeviceEndpoint:
        subscription = checked(token)
        origin = URL(orjson.loads(subscription)["endpoint"]).origin()
        return DeviceEndpoint(f"webpush:{subscription}", f"webpush {origin}")

    return read


class Addresses:
    """The channels that are configured, by their names."""

    def __init__(self, channels: Mapping[str, AddressOf]) -> None:
        self._channels = dict(channels)

    @property
    def names(self) -> tuple[str, ...]:
        """What there is to choose from."""
        return tuple(sorted(self._channels))

    def named(self, name: str) -> str | None:
        """The channel that a client means, in any case or by an old name; None when there is no such."""
        lower = name.lower()
        channel = ALIASES.get(lower, lower)
        return channel if channel in self._channels else None

    def address(self, channel: str, token: str) -> DeviceEndpoint:
        """Where the token leads. Raises ValueError for one that does not look like a token of the channel."""
        return self._channels[channel](token)
