"""Messages as the rules see them. Times are milliseconds since the Unix epoch."""

from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

from bridge_server.topics.models import Topic


class Publish(NamedTuple):
    """A client's message to a topic."""

    topic: Topic
    payload: str
    silent: bool


class Subscribe(NamedTuple):
    """A client wants the messages of a topic."""

    topic: Topic


class Acknowledge(NamedTuple):
    """A client has received the oldest message that it was sent on a topic."""

    topic: Topic


Frame: TypeAlias = Publish | Subscribe | Acknowledge


class Message(NamedTuple):
    """A message that was taken. Later ones have greater numbers."""

    number: int
    topic: Topic
    text: bytes
    """The JSON that its receivers are sent."""
    sender: int
    """The number of the socket that it came from, which does not get it back."""
    address: str | None
    """The address to whose share of waiting messages it counts; None when the client is exempt."""
    expires_at_ms: int

    @property
    def is_settled(self) -> bool:
        """Whether it has arrived, and is on disk only until every process on the database has read it."""
        return self.expires_at_ms < 0


@dataclass(frozen=True, slots=True)
class Changes:
    """Changes to store in one transaction."""

    kept: tuple[Message, ...]
    """Messages to store, unless that is too many for their topic or their address."""
    settled: tuple[int, ...]
    """Numbers of messages to delete."""
    announced: tuple[Message, ...]
    """Messages that their topics' webhooks are notified of, once each; they may be kept as well."""


@dataclass(slots=True)
class Share:
    """The limit of waiting messages and their bytes."""

    messages: int
    size_bytes: int


@dataclass(slots=True)
class QueueLimits:
    """Limits of waiting messages for each topic and each address, and their lifetime.

    Rewritten in place when the settings are read again, as the limits of sockets are.
    """

    topic: Share
    address: Share
    lifetime_ms: int


@dataclass(slots=True)
class SocketLimits:
    """Limits of a client's sockets and topics, and the interval of pings."""

    per_address: int
    topics: int
    """To which one socket may subscribe."""
    unacknowledged: int
    """Messages of one topic that a socket was sent, also messages that other sockets have acknowledged."""
    heartbeat_seconds: float
