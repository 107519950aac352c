"""Models of the push server: notices, addresses of devices, clients, registrations."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from bridge_server.outbox.models import DeviceEndpoint
from bridge_server.topics.models import Topic


@dataclass(frozen=True, slots=True)
class PushNotice:
    """The content of a push. `message_id` stays for all attempts, so that receivers can drop repeats.

    `data` holds further members for the receiving app; names and values are short strings.
    """

    message_id: str
    title: str
    body: str
    url: str | None = None
    data: Mapping[str, str] = field(default_factory=dict)
    ttl_seconds: int = 86_400


@dataclass(frozen=True, slots=True)
class PushClient:
    """The data with which a client registers."""

    bridge: str
    topic: Topic
    channel: str
    token: str = field(repr=False)
    peer_name: str
    language: str

    @property
    def size_bytes(self) -> int:
        """The number of bytes that storing the client takes."""
        texts = (self.bridge, self.topic, self.channel, self.token, self.peer_name, self.language)
        return sum(len(text.encode()) for text in texts)


@dataclass(frozen=True, slots=True)
class Registration:
    """A registered client, which receives a push for each message on its topic."""

    topic: Topic
    bridge: str
    channel: str
    address: DeviceEndpoint
    peer_name: str
    language: str
