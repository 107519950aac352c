"""Calls and messages of generation 2.x as the rules see them. Times are milliseconds since the Unix epoch."""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from enum import Enum
from typing import NamedTuple, NewType, TypeAlias

from bridge_server.kernel.errors import (
    BridgeError,
    InvalidInputError,
    LimitError,
    NotAuthenticatedError,
    TooLargeError,
)
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.topics import Topic, turn_of_topic
from bridge_server.pubsub.queues import NoticeOf, QueueLimits, Share
from bridge_server.storage.database import Row, Turn, Turns, each_once, striped

_DAY_MS = 86_400_000

ClientKey = NewType("ClientKey", str)
"""The public key of a client, in base58btc: its did:key without the prefix."""

Done: TypeAlias = Callable[[BridgeError | None], None]
"""Is called once a change is on disk, or with the reason why nothing of it is."""


@dataclass(slots=True, eq=False)
class Publication:
    """A message that a client publishes: as it was read, and then on its way to the disk and to clients."""

    topic: Topic
    message: str
    ttl_seconds: int
    tag: int
    prompt: bool
    """Whether the webhooks of the topic are called."""
    attestation: str | None
    number: int = 0
    """Later messages have greater numbers. This and what follows is known once the call is performed."""
    data: bytes = b""
    """The JSON that receivers are sent."""
    sender: ClientKey = ClientKey("")
    address: str | None = None
    """The address to whose share of waiting messages it counts; None when the client is exempt."""
    expires_at_ms: int = 0
    acknowledged: set[ClientKey] = field(default_factory=set)
    """Clients that acknowledged it before it was on disk. Read in another thread."""


@dataclass(slots=True, eq=False)
class Publishing:
    """Publish all of these messages, and subscribe the client to a topic: all or nothing."""

    publications: tuple[Publication, ...]
    subscribes: Topic | None = None
    client: ClientKey = ClientKey("")
    """The client that calls. This and what follows is known once the call is performed."""
    address: str | None = None
    call: str = ""
    """The key by which a repetition of the call is known."""
    charged: int = 0
    """The messages that the address has been charged for it."""


class SubscriptionAnswer(Enum):
    """The form in which ids of subscriptions are answered."""

    ONE = "id"
    LIST = "[id]"
    RESULTS = "[{id}] or [{error}]"
    DONE = "true"


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


IrnCall: TypeAlias = Publishing | SubscribeCall | UnsubscribeCall | FetchCall | ReceiveCall


@dataclass(slots=True)
class ClientRequest:
    """A client's request. `id_text` is the JSON of the id that it gave the request."""

    id_text: bytes
    method: str
    params: object


class Confirmation(NamedTuple):
    """A client's answer to a message. `text` is the answer as clients write it."""

    text: bytes
    is_received: bool


class WaitingMessage(NamedTuple):
    """A message on disk that waits for a client."""

    number: int
    topic: Topic
    data: bytes
    is_received: bool = False
    """Whether another socket of the client has acknowledged it."""


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

Receipts: TypeAlias = Mapping[tuple[ClientKey, Topic], Sequence[int]]
"""The numbers of messages that clients have received, by client and topic."""


@dataclass(slots=True)
class ClientLimits:
    """The limits of each client. Rewritten in place when the settings are read again."""

    share: Share
    """The most bytes of waiting messages that it has published."""
    topics: int
    topic_clients: int
    """The number of clients that may be subscribed to a topic."""
    remembered_calls: int
    """The number of publications of all clients that are known again when they are repeated."""
    subscription_ms: int
    heartbeat_seconds: float

    def is_renewed(self, expires_at_ms: int, now_ms: int) -> bool:
        """Whether a subscription with this end is renewed; one that is younger than a day is not."""
        youth_ms = min(_DAY_MS, self.subscription_ms // 2)
        return expires_at_ms < now_ms + self.subscription_ms - youth_ms


# Subscribers of topics that had a message a moment ago: a cache of what the database has.

_MOST_TOPICS = 20_000
_NEVER = 2**63 - 1


class Subscribers(NamedTuple):
    """The clients of a topic, until one of their subscriptions expires."""

    clients: Sequence[ClientKey]
    expires_at_ms: int

    @classmethod
    def of(cls, rows: Iterable[Row]) -> "Subscribers":
        """The subscribers in rows with a client and the time when its subscription expires."""
        found = list(rows)
        return cls([client for client, _ in found], min((expires for _, expires in found), default=_NEVER))


class KnownSubscribers:
    """The most recently read ones. Read in another thread, and changed between its transactions."""

    def __init__(self) -> None:
        self._by_topic: OrderedDict[Topic, Subscribers] = OrderedDict()

    def get(self, topic: Topic, now_ms: int) -> Subscribers | None:
        """The clients of a topic, if that is known."""
        found = self._by_topic.get(topic)
        return found if found is not None and found.expires_at_ms > now_ms else None

    def clear(self) -> None:
        """Forget everything."""
        self._by_topic.clear()

    def learn(self, changed: Iterable[Topic], found: Mapping[Topic, Subscribers]) -> None:
        """Forget topics that were changed, and remember what was read after that."""
        for topic in changed:
            self._by_topic.pop(topic, None)
        for topic, subscribers in found.items():
            self._by_topic[topic] = subscribers
            self._by_topic.move_to_end(topic)
        while len(self._by_topic) > _MOST_TOPICS:
            self._by_topic.popitem(last=False)


class ReceiverCounts:
    """How many receivers the topics' latest messages had: by that, the next ones are charged in advance."""

    def __init__(self) -> None:
        self._by_topic: OrderedDict[Topic, int] = OrderedDict()

    def has_all(self, publications: Iterable[Publication]) -> bool:
        """Whether the topics of all of these are known."""
        for each in publications:  # noqa: SIM110 - a generator costs more than the look
            if each.topic not in self._by_topic:
                return False
        return True

    def of_all(self, publications: Iterable[Publication]) -> int:
        """The number of receivers of all of these, at least 1 for each."""
        known, receivers = self._by_topic.get, 0
        for each in publications:
            receivers += known(each.topic, 1)
        return receivers

    def learn(self, found: Mapping[Topic, int]) -> None:
        """Remember numbers of receivers."""
        for topic, count in found.items():
            self._by_topic[topic] = max(1, count)
            self._by_topic.move_to_end(topic)
        while len(self._by_topic) > _MOST_TOPICS:
            self._by_topic.popitem(last=False)


# Arguments and results of one transaction of generation 2.x.


@dataclass(frozen=True, slots=True)
class Rules:
    """The time, and the limits that hold at this time."""

    now_ms: int
    queue: QueueLimits
    client: ClientLimits
    call_expires_at_ms: int
    notice: NoticeOf
    subscribers: KnownSubscribers
    is_shared: bool = False
    """Whether other processes publish, too: the database gives the numbers, and knows repeated calls."""


@dataclass(slots=True)
class Applied:
    """The results of changes."""

    refused: dict[int, BridgeError] = field(default_factory=dict)
    """The failures by the positions of their changes."""
    kept: dict[int, Sequence[ClientKey]] = field(default_factory=dict)
    """The clients that a stored message waits for, by its number."""
    receivers: dict[Topic, int] = field(default_factory=dict)
    """The number of receivers of each topic with a publication."""
    subscribers: dict[Topic, Subscribers] = field(default_factory=dict)
    """The subscribers that were read, by topic."""
    changed_topics: set[Topic] = field(default_factory=set)
    """Topics that clients have subscribed to, or unsubscribed from."""
    notice_bytes: Counter[str | None] = field(default_factory=Counter)
    subscription_bytes: Counter[str | None] = field(default_factory=Counter)


_RETRY_SECONDS = 10


class InvalidTokenError(
    NotAuthenticatedError, code="invalid-relay-token", title="The relay token is not valid"
):
    """A client has no valid token."""

    detail = (
        "Connect with a JWT of EdDSA (Ed25519), in the query parameter 'auth' or as a bearer token. Its "
        "iss must be the did:key that signed it, iat and exp must be right within 120 s and at most 7 "
        "days apart, and aud must be a string: this server's URL, where the server checks that."
    )


class ProjectNotAllowedError(
    InvalidInputError, code="project-not-allowed", title="The project is not allowed"
):
    """The server lists the projects that may connect, and the client names another or none."""

    def __init__(self) -> None:
        super().__init__("This relay serves other projects. Check projectId with its operator.")


class InvalidCallError(InvalidInputError, code="invalid-call", title="The call is not valid"):
    """A call has a wrong id, method or parameter."""

    def __init__(self, tag: str, detail: str) -> None:
        super().__init__(detail)
        self.tag = tag


class MessageTooLargeError(TooLargeError, code="message-too-large", title="The message is too large"):
    """A message is larger than a message may be."""

    def __init__(self, limit_bytes: int) -> None:
        super().__init__(f"A message may have at most {limit_bytes} bytes. Send less.")


class TimeToLiveError(InvalidInputError, code="invalid-ttl", title="The time to live is not valid"):
    """The lifetime of a message is 0, or too long to make sense."""

    def __init__(self, tag: str) -> None:
        super().__init__("ttl must be from 1 to 4294967295 seconds; more than 30 days count as 30 days.")
        self.tag = tag


class TooManySubscriptionsError(LimitError, code="too-many-subscriptions", title="Too many subscriptions"):
    """The client is subscribed to as many topics as it may be."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"A client may be subscribed to {limit} topics. Unsubscribe from one first.", _RETRY_SECONDS
        )


class TooManyTopicClientsError(
    LimitError, code="too-many-topic-clients", title="Too many clients on the topic"
):
    """The topic has as many subscribed clients as it may have."""

    def __init__(self, limit: int) -> None:
        super().__init__(
            f"The topic has {limit} subscribed clients, and may have no more. Use another topic, or have one "
            "of them unsubscribe.",
            _RETRY_SECONDS,
        )


class SubscriptionBytesError(LimitError, code="subscription-bytes", title="Too many new subscriptions"):
    """The client's address has stored as many subscriptions as it may for now."""

    def __init__(self) -> None:
        super().__init__("Your address has made too many new subscriptions. Try again later.", _RETRY_SECONDS)


@dataclass(frozen=True, slots=True)
class IrnMessagesStored(DomainEvent):
    """There are new messages on the topic, for the sockets of every process. `sender` gets none of them."""

    topic: str
    sender: str


@dataclass(frozen=True, slots=True)
class IrnReceiptsGiven(DomainEvent):
    """A client has acknowledged messages at one process that another process may have sent it."""

    client: str
    topic: str
    request_ids: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class IrnReceiptsStored(DomainEvent):
    """Acknowledgements that another process has asked about are on disk."""

    request_ids: tuple[int, ...]


def turns_of_changes(changes: Sequence[Change], _: int, received: Receipts, *__: object) -> Turns:
    """The topics that are read, and the clients and addresses whose shares are counted."""
    acknowledged = (turn_of_topic(topic) for _, topic in received)
    return each_once((*(turn for change in changes for turn in _turns_of(change)), *acknowledged))


def _turns_of(change: Change) -> Iterator[Turn]:
    yield striped("irn-client", change.client)
    match change:
        case Publishing():
            for publication in change.publications:
                yield turn_of_topic(publication.topic)
            if change.subscribes is not None:
                yield turn_of_topic(change.subscribes)
        case Subscribing() | Unsubscribing():
            for topic in change.topics:
                yield turn_of_topic(topic)
    if not isinstance(change, Unsubscribing) and change.address is not None:
        yield striped("address", change.address)
