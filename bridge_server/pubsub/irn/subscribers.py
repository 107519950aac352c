"""Subscribers of topics that had a message a moment ago: a cache of what the database has."""

from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from bridge_server.pubsub.irn.models import ClientKey
from bridge_server.storage.database import Row
from bridge_server.topics.models import Topic

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
