"""JSON of the push server (docs/protocol.md, C): to models and back."""

from typing import Annotated

from pydantic import AfterValidator, Field

from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS, PUSH_TYPE_MAX_CHARACTERS, http_url
from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.push.addresses import Addresses
from bridge_server.push.models import PushClient
from bridge_server.push.notices import REQUEST
from bridge_server.topics.models import Topic
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import WEB_URL, Shape, check

REGISTERED = b'{"success":true}'
PUSHED = b'{"success":true,"successs":true}'
"""The field `successs` is spelled as in the protocol; `success` is added for clients that expect it."""

_TOPIC_MAX_CHARACTERS = 128
_TEXT_MAX_CHARACTERS = 1_024

TopicText = Annotated[str, Field(min_length=1, max_length=_TOPIC_MAX_CHARACTERS)]


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


def read_topic(document: JsonObject) -> Topic:
    """Read the topic of a request to push."""
    is_own_notice = document.values.get("event") == REQUEST
    found = (
        [Fault("#/event", "is the event of a push: a push must not cause another push")]
        if is_own_notice
        else []
    )
    return Topic(check(PushTopicShape, document.values, found).topic)


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
