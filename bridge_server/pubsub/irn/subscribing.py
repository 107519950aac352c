"""IrnSubscriptions in the database: parts of one transaction of generation 2.x."""

from collections.abc import Sequence

from bridge_server.kernel.errors import BridgeError
from bridge_server.pubsub.irn import sql
from bridge_server.pubsub.irn.errors import SubscriptionBytesError, TooManySubscriptionsError
from bridge_server.pubsub.irn.models import ClientKey
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.subscribers import Subscribers
from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.notices import Allowance
from bridge_server.storage.database import Statement, Transaction, json_array, scalar
from bridge_server.topics.models import Topic

SUBSCRIPTION_BYTES = 400
"""The size of a subscription's row, with its indexes."""


class IrnSubscriptions:
    """The clients of topics, as the transaction has read and changed them."""

    def __init__(self, rules: Rules, applied: Applied, allowance: Allowance, *, is_full: bool) -> None:
        self._rules = rules
        self._applied = applied
        self._allowance = allowance
        self._is_full = is_full

    def subscribe(
        self, client: ClientKey, address: str | None, topics: Sequence[Topic]
    ) -> Transaction[BridgeError | None]:
        """Subscribe the client to all of the topics, or to none and say why not."""
        now_ms, limits = self._rules.now_ms, self._rules.client
        asked = json_array(topics)
        known = {topic for (topic,) in (yield Statement(sql.SUBSCRIBED, (client, asked, now_ms)))}
        new = [topic for topic in dict.fromkeys(topics) if topic not in known]
        if new:
            if self._is_full:
                return QueueFullError("the server")
            held = scalar(int, (yield Statement(sql.COUNT_SUBSCRIPTIONS, (client, now_ms))))
            if held + len(new) > limits.topics:
                return TooManySubscriptionsError(limits.topics)
            size_bytes = len(new) * SUBSCRIPTION_BYTES
            if not self._allowance.covers(address, self._applied.subscription_bytes[address] + size_bytes):
                return SubscriptionBytesError()
            self._applied.subscription_bytes[address] += size_bytes
        yield Statement(sql.SUBSCRIBE, (client, now_ms + limits.subscription_ms, asked))
        if new:
            yield from self._hand_over(client, new)
        return None

    def unsubscribe(self, client: ClientKey, topics: Sequence[Topic]) -> Transaction[None]:
        """End subscriptions of the client; nothing waits for it any more."""
        asked = json_array(topics)
        self._forget_subscribers(topics)
        yield Statement(sql.UNSUBSCRIBE, (client, asked))
        yield Statement(sql.DROP_DELIVERIES, (client, asked))
        yield Statement(sql.DELETE_UNWANTED, (asked,))

    def known(self, topic: Topic) -> Subscribers | None:
        """The subscribers of a topic, if that takes no statement."""
        found = self._applied.subscribers.get(topic)
        if found is None and topic not in self._applied.changed_topics:
            return self._rules.subscribers.get(topic, self._rules.now_ms)
        return found

    def of(self, topic: Topic) -> Transaction[Sequence[ClientKey]]:
        """The subscribers of a topic."""
        found = self.known(topic)
        if found is None:
            rows = yield Statement(sql.SUBSCRIBERS, (topic, self._rules.now_ms))
            found = self._applied.subscribers[topic] = Subscribers.of(rows)
        return found.clients

    def _hand_over(self, client: ClientKey, topics: Sequence[Topic]) -> Transaction[None]:
        """What waited for the next subscriber waits for this one."""
        self._forget_subscribers(topics)
        parameters = (json_array(topics), self._rules.now_ms, client)
        yield Statement(sql.DELIVER_OPEN, (client, *parameters))
        yield Statement(sql.CLOSE_OPEN, parameters)

    def _forget_subscribers(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self._applied.subscribers.pop(topic, None)
            self._applied.changed_topics.add(topic)
