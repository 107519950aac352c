"""Calls and messages of generation 2.x as the rules see them. Times are milliseconds since the Unix epoch."""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple, NewType, TypeAlias

from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.queues.models import Share
from bridge_server.topics.models import Topic

ClientKey = NewType("ClientKey", str)
"""The public key of a client, in base58btc: its did:key without the prefix."""

Done: TypeAlias = Callable[[BridgeError | None], None]
"""Is called once a change is on disk, or with the reason why nothing of it is."""


class Publication(NamedTuple):
    """A message that a client wants to be published."""

    topic: Topic
    message: str
    ttl_seconds: int
    tag: int
    prompt: bool
    attestation: str | None


class PublishCall(NamedTuple):
    """Publish all of these messages, and subscribe the client to a topic: all or nothing."""

    publications: tuple[Publication, ...]
    subscribes: Topic | None = None


class SubscriptionAnswer(Enum):
    """The form in which ids of subscriptions are answered."""

    ONE = "id"
    LIST = "[id]"
    RESULTS = "[{id}] or [{error}]"


class SubscribeCall(NamedTuple):
    """Subscribe the client to topics."""

    topics: tuple[Topic, ...]
    answer: SubscriptionAnswer


class UnsubscribeCall(NamedTuple):
    """End subscriptions of the client."""

    topics: tuple[Topic, ...]


class FetchCall(NamedTuple):
    """Answer with the messages that wait for the client."""

    topics: tuple[Topic, ...]


class Receipt(NamedTuple):
    """The client has received the message that it was sent on this topic, in a request with this id."""

    topic: Topic
    request_id: int


class ReceiveCall(NamedTuple):
    """Acknowledge several messages."""

    receipts: tuple[Receipt, ...]


IrnCall: TypeAlias = PublishCall | SubscribeCall | UnsubscribeCall | FetchCall | ReceiveCall


class ClientRequest(NamedTuple):
    """A client's request. `id_text` is the JSON of the id that it gave the request."""

    id_text: bytes
    method: str
    params: object


class Confirmation(NamedTuple):
    """A client's answer to a message."""

    request_id: int
    is_received: bool


@dataclass(slots=True, eq=False)
class Envelope:
    """A message on its way to the disk, and to clients that are there."""

    number: int
    """The message's number. Later messages have greater numbers."""
    topic: Topic
    data: bytes
    """The JSON that receivers are sent."""
    sender: ClientKey
    address: str | None
    """The address to whose share of waiting messages it counts; None when the client is exempt."""
    expires_at_ms: int
    prompt: bool
    """Whether the webhooks of the topic are called."""
    acknowledged: set[ClientKey] = field(default_factory=set)
    """Clients that were quicker than the disk. Read in another thread."""


class WaitingMessage(NamedTuple):
    """A message on disk that waits for a client."""

    number: int
    topic: Topic
    data: bytes
    is_received: bool = False
    """Whether another socket of the client has acknowledged it."""


@dataclass(slots=True, eq=False)
class Publishing:
    """A call that publishes, on its way to the disk."""

    client: ClientKey
    address: str | None
    call: str
    """The key by which a repetition of the call is known."""
    envelopes: tuple[Envelope, ...]
    subscribes: Topic | None


@dataclass(slots=True, eq=False)
class Subscribing:
    """A client's subscriptions, on their way to the disk."""

    client: ClientKey
    address: str | None
    topics: tuple[Topic, ...]
    done: Done


@dataclass(slots=True, eq=False)
class Unsubscribing:
    """The end of a client's subscriptions, on its way to the disk."""

    client: ClientKey
    topics: tuple[Topic, ...]
    done: Done


Change: TypeAlias = Publishing | Subscribing | Unsubscribing


@dataclass(slots=True)
class ClientLimits:
    """The limits of each client. Rewritten in place when the settings are read again."""

    share: Share
    """The most bytes of waiting messages that it has published."""
    topics: int
    remembered_calls: int
    """The number of publications of all clients that are known again when they are repeated."""
    subscription_ms: int
    heartbeat_seconds: float
