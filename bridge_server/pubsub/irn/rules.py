"""Arguments and results of one transaction of generation 2.x."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.irn.models import ClientKey, ClientLimits
from bridge_server.pubsub.irn.subscribers import KnownSubscribers, Subscribers
from bridge_server.pubsub.queues.models import QueueLimits
from bridge_server.pubsub.queues.notices import NoticeOf
from bridge_server.topics.models import Topic


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
    subscribers: dict[Topic, Subscribers] = field(default_factory=dict)
    """The subscribers that were read, by topic."""
    changed_topics: set[Topic] = field(default_factory=set)
    """Topics that clients have subscribed to, or unsubscribed from."""
    notice_bytes: Counter[str | None] = field(default_factory=Counter)
    subscription_bytes: Counter[str | None] = field(default_factory=Counter)
