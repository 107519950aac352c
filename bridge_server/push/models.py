"""Pushes and registrations as the rules see them."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge_server.topics.models import Topic


@dataclass(frozen=True, slots=True)
class PushNotice:
    """What a device is to show. `message_id` is the same at every attempt, so that a repeat can be dropped.

    `data` is for the app that receives it, beside the text; names and values are short strings.
    """

    message_id: str
    title: str
    body: str
    url: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    ttl_seconds: int = 86_400


@dataclass(frozen=True, slots=True)
class DeviceEndpoint:
    """Where a device is reached, in the outbox's terms: a URL whose scheme is a channel, or a webhook's.

    `lane` is what its messages wait in: one for a service as a whole. None: that of the URL's host.
    """

    url: str = field(repr=False)
    lane: str | None


@dataclass(frozen=True, slots=True)
class Client:
    """What a client says of itself when it registers."""

    bridge: str
    topic: Topic
    channel: str
    token: str = field(repr=False)
    peer_name: str
    language: str

    @property
    def size_bytes(self) -> int:
        """What it takes to store."""
        texts = (self.bridge, self.topic, self.channel, self.token, self.peer_name, self.language)
        return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True, slots=True)
class Registration:
    """A client that is told of a topic by a push."""

    topic: Topic
    bridge: str
    channel: str
    address: DeviceEndpoint
    peer_name: str
    language: str
