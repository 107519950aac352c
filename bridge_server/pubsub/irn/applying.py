"""Rules of generation 2.x that need the database: the clients that a message waits for, and the limits."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bridge_server.kernel.errors import BridgeError
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub.irn import sql
from bridge_server.pubsub.irn.errors import SubscriptionBytesError, TooManySubscriptionsError
from bridge_server.pubsub.irn.events import IrnMessagesStored
from bridge_server.pubsub.irn.models import (
    Change,
    ClientKey,
    Envelope,
    Publishing,
    Subscribing,
    Unsubscribing,
)
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.subscribers import Subscribers
from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.notices import Allowance, Notices, send_later
from bridge_server.pubsub.queues.shares import Claim, Shares
from bridge_server.storage.database import Statement, Transaction, json_array, scalar
from bridge_server.topics.models import Topic

SUBSCRIPTION_BYTES = 400
"""What a row costs, with its indexes."""


def apply_changes(
    changes: Sequence[Change],
    rules: Rules,
    notice_bytes: Allowance,
    subscription_bytes: Allowance,
    *,
    is_full: bool,
) -> Transaction[Applied]:
    """A part of a transaction: each change wholly or not at all, in their order."""
    work = _Work(rules, notice_bytes, subscription_bytes, is_full=is_full)
    if rules.is_shared:
        yield from work.ask_the_database([each for each in changes if isinstance(each, Publishing)])
    for position, change in enumerate(changes):
        match change:
            case Publishing() if change.call in work.repeated or work.has_arrived(change):
                refused = None
            case Publishing():
                refused = yield from work.publish(change)
            case Subscribing():
                refused = yield from work.subscribe(change.client, change.address, change.topics)
            case Unsubscribing():
                yield from work.unsubscribe(change.client, change.topics)
                refused = None
        if refused is not None:
            work.applied.refused[position] = refused
    if work.calls:
        yield Statement(sql.REMEMBER_CALLS, (rules.call_expires_at_ms, json_array(work.calls)))
    for topic, sender in work.stored:
        yield IrnMessagesStored(topic, sender)
    return work.applied


class _Work:
    """One run of one transaction."""

    def __init__(
        self, rules: Rules, notice_bytes: Allowance, subscription_bytes: Allowance, *, is_full: bool
    ) -> None:
        self.applied = Applied()
        self._rules = rules
        self._subscription_bytes = subscription_bytes
        self._is_full = is_full
        self._shares = Shares(rules.now_ms)
        self._notices = Notices(rules.notice, notice_bytes, rules.now_ms)
        self._numbers: dict[int, int] = {}
        self.calls: list[str] = []
        self.repeated: AbstractSet[str] = frozenset()
        """Calls that another process has answered."""
        self.stored: dict[tuple[Topic, ClientKey], None] = {}
        """Topics with new messages that other processes may have receivers of, and the messages' senders."""

    def ask_the_database(self, publishings: Sequence[Publishing]) -> Transaction[None]:
        """What only the database knows, where several processes publish."""
        if not publishings:
            return
        calls = json_array(each.call for each in publishings)
        self.repeated = {call for (call,) in (yield Statement(sql.REPEATED, (calls, self._rules.now_ms)))}
        given = [envelope.number for each in publishings for envelope in each.envelopes]
        rows = yield Statement(sql.NUMBERS, (json_array(given),))
        self._numbers = {number: row[0] for number, row in zip(given, rows, strict=True)}

    def has_arrived(self, publishing: Publishing) -> bool:
        """Remember the call, if all receivers have acknowledged its messages and nothing else is stored.

        Most publications are such, and it takes no statement to find out.
        """
        if self._is_full or publishing.subscribes is not None:
            return False
        for envelope in publishing.envelopes:
            known = self._known_subscribers(envelope.topic)
            if known is None or envelope.prompt or not _have_all(envelope, known.clients):
                return False
        self.calls.append(publishing.call)
        return True

    def publish(self, publishing: Publishing) -> Transaction[BridgeError | None]:
        if self._is_full:
            return QueueFullError("the server")
        receivers = yield from self._receivers(publishing.envelopes)
        full = yield from self._take_room(list(receivers))
        if full is not None:
            return full
        refused: BridgeError | None
        refused, notices = yield from self._owed(publishing.envelopes)
        if refused is None and publishing.subscribes is not None:
            refused = yield from self.subscribe(
                publishing.client, publishing.address, (publishing.subscribes,)
            )
        if refused is not None:
            self._give_back(list(receivers))
            return refused
        for envelope, clients in receivers.items():
            yield from self._insert(envelope, clients)
        self.calls.append(publishing.call)
        self.applied.notice_bytes += yield from send_later(notices, self._rules.now_ms)
        return None

    def subscribe(
        self, client: ClientKey, address: str | None, topics: Sequence[Topic]
    ) -> Transaction[BridgeError | None]:
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
            if not self._subscription_bytes.covers(
                address, self.applied.subscription_bytes[address] + size_bytes
            ):
                return SubscriptionBytesError()
            self.applied.subscription_bytes[address] += size_bytes
        yield Statement(sql.SUBSCRIBE, (client, now_ms + limits.subscription_ms, asked))
        if new:
            yield from self._hand_over(client, new)
        return None

    def unsubscribe(self, client: ClientKey, topics: Sequence[Topic]) -> Transaction[None]:
        asked = json_array(topics)
        self._forget_subscribers(topics)
        yield Statement(sql.UNSUBSCRIBE, (client, asked))
        yield Statement(sql.DROP_DELIVERIES, (client, asked))
        yield Statement(sql.DELETE_UNWANTED, (asked,))

    def _hand_over(self, client: ClientKey, topics: Sequence[Topic]) -> Transaction[None]:
        """What waited for the next subscriber waits for this one."""
        self._forget_subscribers(topics)
        parameters = (json_array(topics), self._rules.now_ms, client)
        yield Statement(sql.DELIVER_OPEN, (client, *parameters))
        yield Statement(sql.CLOSE_OPEN, parameters)

    def _forget_subscribers(self, topics: Sequence[Topic]) -> None:
        for topic in topics:
            self.applied.subscribers.pop(topic, None)
            self.applied.changed_topics.add(topic)

    def _receivers(
        self, envelopes: Sequence[Envelope]
    ) -> Transaction[dict[Envelope, list[ClientKey] | None]]:
        """The clients that each message has to wait for; None: the next subscriber. One that every receiver
        has acknowledged already is left out.
        """
        receivers: dict[Envelope, list[ClientKey] | None] = {}
        for envelope in envelopes:
            others = [
                client
                for client in (yield from self._subscribers_of(envelope.topic))
                if client != envelope.sender
            ]
            if not others:
                receivers[envelope] = None
                continue
            acknowledged = frozenset(envelope.acknowledged)
            if left := [client for client in others if client not in acknowledged]:
                receivers[envelope] = left
        return receivers

    def _subscribers_of(self, topic: Topic) -> Transaction[Sequence[ClientKey]]:
        found = self._known_subscribers(topic)
        if found is None:
            rows = yield Statement(sql.SUBSCRIBERS, (topic, self._rules.now_ms))
            found = self.applied.subscribers[topic] = Subscribers.of(rows)
        return found.clients

    def _known_subscribers(self, topic: Topic) -> Subscribers | None:
        found = self.applied.subscribers.get(topic)
        if found is None and topic not in self.applied.changed_topics:
            return self._rules.subscribers.get(topic, self._rules.now_ms)
        return found

    def _take_room(self, envelopes: Sequence[Envelope]) -> Transaction[QueueFullError | None]:
        """Count all of the messages, or none of them and say why not."""
        for position, envelope in enumerate(envelopes):
            full = yield from self._shares.take(self._claims(envelope), len(envelope.data))
            if full is not None:
                self._give_back(envelopes[:position])
                return full
        return None

    def _give_back(self, envelopes: Sequence[Envelope]) -> None:
        for envelope in envelopes:
            self._shares.give_back(self._claims(envelope), len(envelope.data))

    def _claims(self, envelope: Envelope) -> list[Claim]:
        queue, client = self._rules.queue, self._rules.client
        claims = [
            Claim(sql.SHARE_OF_TOPIC, envelope.topic, queue.topic, "the topic"),
            Claim(sql.SHARE_OF_CLIENT, envelope.sender, client.share, "your client"),
        ]
        if envelope.address is not None:
            claims.append(Claim(sql.SHARE_OF_ADDRESS, envelope.address, queue.address, "your address"))
        return claims

    def _owed(
        self, envelopes: Sequence[Envelope]
    ) -> Transaction[tuple[QueueFullError | None, list[OutgoingMessage]]]:
        """The notices to webhooks that the messages cause."""
        notices: list[OutgoingMessage] = []
        for envelope in envelopes:
            if envelope.prompt:
                messages = yield from self._notices.of(envelope.topic, envelope.address)
                if messages is None:
                    return QueueFullError("your address"), []
                notices += messages
        return None, notices

    def _insert(self, envelope: Envelope, clients: list[ClientKey] | None) -> Transaction[None]:
        number, data = self._numbers.get(envelope.number, envelope.number), envelope.data
        yield Statement(
            sql.INSERT_MESSAGE,
            (
                number, envelope.topic, data, len(data), envelope.sender, envelope.address,
                int(clients is None), envelope.expires_at_ms,
            ),
        )  # fmt: skip
        for client in clients or ():
            yield Statement(sql.INSERT_DELIVERY, (client, number))
        if clients:
            self.applied.kept[envelope.number] = clients
            if self._rules.is_shared:
                self.stored[envelope.topic, envelope.sender] = None


def _have_all(envelope: Envelope, subscribers: Sequence[ClientKey]) -> bool:
    """Whether there are subscribers but the sender, and all of them have acknowledged the message."""
    acknowledged, sender = envelope.acknowledged, envelope.sender
    return bool(acknowledged) and all(client in acknowledged or client == sender for client in subscribers)
