"""JSON of the push server (docs/protocol.md, C).

A push channel turns a device's token into its address in the outbox.
"""

from collections.abc import Callable, Mapping
from typing import Annotated, Literal

import orjson
from pydantic import AfterValidator, Field
from yarl import URL

from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS, PUSH_TYPE_MAX_CHARACTERS, http_url
from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.outbox.topics import Topic
from bridge_server.push.models import PushClient
from bridge_server.push.notices import REQUEST
from bridge_server.web.bodies import WEB_URL, JsonObject, Shape, check
from bridge_server.web.shapes import SuccessAnswer

REGISTERED = b'{"success":true}'
PUSHED = b'{"success":true,"successs":true}'
"""The field `successs` is spelled as in the protocol; `success` is added for clients that expect it."""

ALIASES = {"apn": "apns"}

_TOPIC_MAX_CHARACTERS = 128
_TEXT_MAX_CHARACTERS = 1_024

AddressOf = Callable[[str], DeviceEndpoint]
"""Converts a channel's token. Raises ValueError, which describes the form of a valid token."""

TopicText = Annotated[str, Field(min_length=1, max_length=_TOPIC_MAX_CHARACTERS)]


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


class ClientShape(Shape):
    """The body of POST /new."""

    bridge: Annotated[str, AfterValidator(http_url), WEB_URL]
    topic: TopicText
    type: Annotated[str, Field(min_length=1, max_length=PUSH_TYPE_MAX_CHARACTERS)]
    token: Annotated[str, Field(min_length=1, max_length=PUSH_TOKEN_MAX_CHARACTERS)]
    peerName: Annotated[str, Field(max_length=_TEXT_MAX_CHARACTERS)]  # noqa: N815 - the protocol's spelling
    language: Annotated[str, Field(max_length=_TEXT_MAX_CHARACTERS)]


class PushTopicShape(Shape):
    """The body of POST /push."""

    topic: TopicText


class PushedAnswer(SuccessAnswer):
    """The provider took the push. `successs` is the protocol's spelling."""

    successs: Literal[True]


def read_client(document: JsonObject, addresses: Addresses) -> tuple[PushClient, DeviceEndpoint]:
    """Read a registration: the client and the address of its token."""
    faults: list[Fault] = []
    name, token = document.values.get("type"), document.values.get("token")
    channel = None
    if isinstance(name, str) and 0 < len(name) <= PUSH_TYPE_MAX_CHARACTERS:
        channel = _channel(name, addresses, faults)
    address = None
    if channel is not None and isinstance(token, str) and 0 < len(token) <= PUSH_TOKEN_MAX_CHARACTERS:
        address = _address(channel, token, addresses, faults)
    shape = check(ClientShape, document.values, faults)
    assert channel is not None
    assert address is not None  # check() has raised otherwise
    client = PushClient(
        shape.bridge, Topic(shape.topic), channel, shape.token, shape.peerName, shape.language
    )
    return client, address


def _channel(name: str, addresses: Addresses, faults: list[Fault]) -> str | None:
    channel = addresses.named(name)
    if channel is None:
        configured = ", ".join(addresses.names)
        faults.append(Fault("#/type", f"is not a configured type: choose from {configured}"))
    return channel


def _address(channel: str, token: str, addresses: Addresses, faults: list[Fault]) -> DeviceEndpoint | None:
    try:
        return addresses.address(channel, token)
    except ValueError as error:
        faults.append(Fault("#/token", str(error)))
        return None


def read_topic(document: JsonObject) -> Topic:
    """Read the topic of a request to push."""
    faults = []
    if document.values.get("event") == REQUEST:
        faults.append(Fault("#/event", "is the event of a push: a push must not cause another push"))
    return Topic(check(PushTopicShape, document.values, faults).topic)


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
