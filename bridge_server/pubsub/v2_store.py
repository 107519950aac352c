"""Subscriptions, messages and remembered calls of generation 2.x in the database.

A message is one row, however many clients it waits for: a subscription has what its client acknowledged.
Messages of others wait for the client if their number is above `reached`, or is in `missing`: the client has
acknowledged later ones, or was handed over what nobody had received. A new message has a greater number than
every `reached` on disk.
"""

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from itertools import chain

import orjson

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.events import DomainEvent
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub.queues import (
    Allowance,
    Claim,
    NoticeOf,
    Notices,
    QueueFullError,
    Shares,
    hold_for_notices,
    pay_for,
    send_later,
)
from bridge_server.pubsub.v2_models import (
    Applied,
    Change,
    ClientKey,
    IrnMessagesStored,
    KnownSubscribers,
    Publication,
    Publishing,
    Receipts,
    Rules,
    Subscribers,
    Subscribing,
    SubscriptionBytesError,
    TooManySubscriptionsError,
    TooManyTopicClientsError,
    WaitingMessage,
    turns_of_changes,
)
from bridge_server.storage.database import (
    Database,
    ForEach,
    Row,
    Statement,
    Transaction,
    Value,
    json_array,
    scalar,
    sweeping,
    transaction,
)

# The statements of generation 2.x: SQL that SQLite 3.40 and PostgreSQL 14 both understand, but for the
# reading and writing of JSON arrays.

# A client may have acknowledged messages that were never stored: `reached` knows more than the sequence.
NEWEST = """
SELECT max((SELECT coalesce(max(seq), 0) FROM sqlite_sequence WHERE name = 'irn_messages'),
    (SELECT coalesce(max(reached), 0) FROM irn_subscriptions))
"""
TAKE_ID_BLOCK = """
INSERT INTO irn_id_blocks (only_row, taken) VALUES (1, 1)
ON CONFLICT (only_row) DO UPDATE SET taken = irn_id_blocks.taken + 1 RETURNING taken
"""

CALLS = "SELECT call, expires_at_ms FROM irn_calls WHERE expires_at_ms > ? ORDER BY expires_at_ms"
REMEMBER_CALLS = """
INSERT INTO irn_calls (expires_at_ms, call) SELECT ?, value FROM json_each(?) WHERE true
ON CONFLICT (expires_at_ms, call) DO NOTHING
"""
FORGET_CALLS = """
DELETE FROM irn_calls WHERE (expires_at_ms, call) IN
    (SELECT expires_at_ms, call FROM irn_calls WHERE expires_at_ms > 0 ORDER BY expires_at_ms, call LIMIT ?)
"""

# Of several processes on one database: calls that another one has answered, and the numbers of messages.
REPEATED = """
SELECT call FROM irn_calls WHERE call IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
"""
NUMBERS = "SELECT value FROM json_each(?)"

SUBSCRIBERS = """
SELECT topic, client, expires_at_ms FROM irn_subscriptions
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
"""
SUBSCRIPTIONS = "SELECT topic, expires_at_ms FROM irn_subscriptions WHERE client = ? AND expires_at_ms > ?"
SUBSCRIBED = """
SELECT topic, expires_at_ms FROM irn_subscriptions
WHERE client = ? AND topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
"""
COUNT_SUBSCRIPTIONS = "SELECT count(*) FROM irn_subscriptions WHERE client = ? AND expires_at_ms > ?"
FULL_TOPICS = """
SELECT topic FROM irn_subscriptions WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ?
GROUP BY topic HAVING count(*) >= ? LIMIT 1
"""
RENEW = """
UPDATE irn_subscriptions SET expires_at_ms = ?
WHERE client = ? AND topic IN (SELECT value FROM json_each(?))
"""
SUBSCRIBE = """
INSERT INTO irn_subscriptions (client, topic, expires_at_ms, since, reached, missing)
SELECT ?1, value, ?2,
    coalesce((SELECT max(number) FROM irn_messages WHERE topic = value), 0),
    coalesce((SELECT max(number) FROM irn_messages WHERE topic = value), 0),
    (SELECT nullif(json_group_array(number), '[]') FROM irn_messages
     WHERE topic = value AND is_open = 1 AND sender <> ?1 AND expires_at_ms > ?4)
FROM json_each(?3) WHERE true
ON CONFLICT (client, topic) DO UPDATE SET expires_at_ms = excluded.expires_at_ms, since = excluded.since,
    reached = excluded.reached, missing = excluded.missing
"""
CLOSE_OPEN = """
UPDATE irn_messages SET is_open = 0
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? AND is_open = 1 AND sender <> ?
"""
UNSUBSCRIBE = """
DELETE FROM irn_subscriptions WHERE client = ? AND topic IN (SELECT value FROM json_each(?))
"""

SHARE_OF_TOPIC = """
SELECT topic, count(*), sum(size_bytes) FROM irn_messages
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY topic
"""
SHARE_OF_CLIENT = """
SELECT sender, count(*), sum(size_bytes) FROM irn_messages
WHERE sender IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY sender
"""
SHARE_OF_ADDRESS = """
SELECT address, count(*), sum(size_bytes) FROM irn_messages
WHERE address IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY address
"""
INSERT_MESSAGE = """
INSERT INTO irn_messages (number, topic, data, size_bytes, sender, address, is_open, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
"""

# The numbers of messages that wait for the client ?1 on the topics ?2, at ?3.
_OF_CLIENT = """
    (SELECT irn_messages.number FROM irn_subscriptions CROSS JOIN irn_messages
        ON irn_messages.topic = irn_subscriptions.topic AND irn_messages.number > reached
    WHERE client = ?1 AND irn_subscriptions.topic IN (SELECT value FROM json_each(?2))
        AND irn_subscriptions.expires_at_ms > ?3 AND sender <> ?1 AND irn_messages.expires_at_ms > ?3
    UNION ALL
    SELECT irn_messages.number FROM irn_subscriptions CROSS JOIN json_each(missing) AS missed
    CROSS JOIN irn_messages ON irn_messages.number = missed.value
    WHERE client = ?1 AND irn_subscriptions.topic IN (SELECT value FROM json_each(?2))
        AND irn_subscriptions.expires_at_ms > ?3 AND irn_messages.expires_at_ms > ?3) AS waiting
"""
WAITING = f"""
SELECT number, topic, data FROM irn_messages WHERE number IN
    (SELECT number FROM {_OF_CLIENT} WHERE number > ?4 ORDER BY number LIMIT ?5)
ORDER BY number
"""  # noqa: S608 - the statement above
FETCHABLE = f"""
SELECT number, size_bytes FROM irn_messages WHERE number IN (SELECT number FROM {_OF_CLIENT}
    UNION ALL
    SELECT number FROM irn_messages
    WHERE topic IN (SELECT value FROM json_each(?2)) AND is_open = 1 AND sender <> ?1 AND expires_at_ms > ?3)
ORDER BY number LIMIT ?4
"""  # noqa: S608 - the statement above
BY_NUMBERS = """
SELECT number, topic, data FROM irn_messages WHERE number IN (SELECT value FROM json_each(?)) ORDER BY number
"""

# The client ?1 has received the numbers ?3 on the topic ?2, of which ?4 is the greatest.
ACKNOWLEDGE = """
UPDATE irn_subscriptions SET
    missing = (SELECT nullif(json_group_array(number), '[]') FROM (
        SELECT irn_messages.number FROM json_each(irn_subscriptions.missing) AS missed
        CROSS JOIN irn_messages ON irn_messages.number = missed.value WHERE expires_at_ms > ?5
        UNION ALL
        SELECT number FROM irn_messages WHERE topic = ?2 AND number > irn_subscriptions.reached
            AND number <= ?4 AND sender <> ?1 AND expires_at_ms > ?5
        ) AS waited WHERE number NOT IN (SELECT value FROM json_each(?3))),
    reached = CASE WHEN reached < ?4 THEN ?4 ELSE reached END
WHERE client = ?1 AND topic = ?2
"""

# Whether a message of the topics ?1 waits for no client at ?2.
_FOR_NOBODY = """
    NOT EXISTS (SELECT 1 FROM irn_subscriptions WHERE irn_subscriptions.topic = irn_messages.topic
        AND irn_subscriptions.expires_at_ms > ?2 AND reached < number AND client <> sender)
    AND number NOT IN (SELECT value FROM irn_subscriptions CROSS JOIN json_each(missing)
        WHERE topic IN (SELECT value FROM json_each(?1)) AND expires_at_ms > ?2)
"""
DELETE_DELIVERED = f"""
DELETE FROM irn_messages WHERE number IN (SELECT value FROM json_each(?3)) AND {_FOR_NOBODY}
"""  # noqa: S608 - the condition above
DELETE_UNWANTED = f"""
DELETE FROM irn_messages WHERE topic IN (SELECT value FROM json_each(?1)) AND is_open = 0 AND {_FOR_NOBODY}
"""  # noqa: S608 - the condition above

# Of several processes on one database: what a client has acknowledged stays for a while, for its sockets at
# other processes. ?1 are the topics, each with the number of the newest message that a socket was sent.
_STILL_MISSING = """
    (SELECT value FROM irn_subscriptions CROSS JOIN json_each(missing)
     WHERE client = ?2 AND topic IN (SELECT key FROM json_each(?1)))
"""
WAITING_ANYWHERE = f"""
SELECT number, irn_messages.topic, data,
    CASE WHEN number > reached OR number IN {_STILL_MISSING} THEN 0 ELSE 1 END
FROM json_each(?1) AS asked
CROSS JOIN irn_subscriptions ON client = ?2 AND irn_subscriptions.topic = asked.key
CROSS JOIN irn_messages ON irn_messages.topic = asked.key AND number > asked.value
WHERE sender <> ?2 AND (number > since OR number IN {_STILL_MISSING})
    AND (irn_messages.expires_at_ms > ?3 OR irn_messages.expires_at_ms < 0) ORDER BY number LIMIT ?4
"""  # noqa: S608 - the condition above
SETTLE_DELIVERED = f"""
UPDATE irn_messages SET expires_at_ms = ?4
WHERE number IN (SELECT value FROM json_each(?3)) AND expires_at_ms > 0 AND {_FOR_NOBODY}
"""  # noqa: S608 - the condition above

SWEEP_MESSAGES = """
DELETE FROM irn_messages WHERE number IN
    (SELECT number FROM irn_messages WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
SWEEP_SUBSCRIPTIONS = """
DELETE FROM irn_subscriptions WHERE (client, topic) IN
    (SELECT client, topic FROM irn_subscriptions WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""
SWEEP_CALLS = """
DELETE FROM irn_calls WHERE (expires_at_ms, call) IN
    (SELECT expires_at_ms, call FROM irn_calls WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""

SUBSCRIPTION_BYTES = 400
"""The size of a subscription's row, with its indexes."""


class IrnStore:
    """Rows that have expired at `now_ms` count as deleted. The bytes are what an address may have stored."""

    def __init__(
        self, database: Database, notice_bytes: Allowance, subscription_bytes: Allowance, notice: NoticeOf
    ) -> None:
        self.database = database
        self.notice = notice
        self._notice_bytes = notice_bytes
        self._subscription_bytes = subscription_bytes
        self.is_shared = database.takes_turns
        """Whether other processes use the same database."""
        self.subscribers = KnownSubscribers()
        """It stays empty where other processes change subscriptions, too."""

    async def newest(self) -> int:
        """The greatest number that a stored message ever had, or that a client has reached; or 0."""
        return scalar(int, await self.database.read(NEWEST))

    async def calls(self, now_ms: int) -> Sequence[tuple[str, int]]:
        """The remembered calls and their ends, the earliest end first."""
        return [(call, expires_at_ms) for call, expires_at_ms in await self.database.read(CALLS, (now_ms,))]

    async def subscriptions(self, client: ClientKey, now_ms: int) -> Mapping[Topic, int]:
        """The topics of a client, and when each subscription expires."""
        return dict(await self.database.read(SUBSCRIPTIONS, (client, now_ms)))

    async def waiting(
        self, client: ClientKey, topics: Sequence[Topic], after: int, now_ms: int, limit: int
    ) -> Sequence[WaitingMessage]:
        """The messages that wait for a client on these topics with numbers above `after`, oldest first."""
        parameters = (client, json_array(topics), now_ms, after, limit)
        return [_message(row) for row in await self.database.read(WAITING, parameters)]

    async def waiting_anywhere(
        self, client: ClientKey, positions: Mapping[Topic, int], now_ms: int, limit: int
    ) -> Sequence[WaitingMessage]:
        """Messages with numbers above the position of their topic, where several processes send messages.

        Also messages that another socket of the client just acknowledged. Across topics a message may appear
        after others with greater numbers: each topic has its own position.
        """
        parameters = (orjson.dumps(positions).decode(), client, now_ms, limit)
        return [_message(row) for row in await self.database.read(WAITING_ANYWHERE, parameters)]

    async def fetchable(
        self, client: ClientKey, topics: Sequence[Topic], now_ms: int, limit: int
    ) -> Sequence[tuple[int, int]]:
        """The numbers and sizes of messages that a client may fetch from these topics, oldest first."""
        parameters = (client, json_array(topics), now_ms, limit)
        return [(number, size) for number, size in await self.database.read(FETCHABLE, parameters)]

    async def by_numbers(self, numbers: Sequence[int]) -> Sequence[WaitingMessage]:
        """The messages with these numbers, oldest first."""
        return [_message(row) for row in await self.database.read(BY_NUMBERS, (json_array(numbers),))]

    async def apply(
        self, changes: Sequence[Change], forgotten: int, received: Receipts, rules: Rules
    ) -> Applied:
        """Store changes in their order, forget the oldest calls, and delete what clients have received.

        A change that is refused changes nothing, and is no reason to refuse the others.
        """
        if self.is_shared:
            await hold_for_changes(changes, self._notice_bytes, self._subscription_bytes)
        applied = await self._apply(changes, forgotten, received, rules)
        if not self.is_shared:
            self.subscribers.learn(applied.changed_topics, applied.subscribers)
        pay_for(applied.notice_bytes, self._notice_bytes)
        pay_for(applied.subscription_bytes, self._subscription_bytes)
        return applied

    @transaction(turns=turns_of_changes)
    def _apply(
        self, changes: Sequence[Change], forgotten: int, received: Receipts, rules: Rules
    ) -> Transaction[Applied]:
        if forgotten:
            yield Statement(FORGET_CALLS, (forgotten,))
        work = _Changes(rules, self._notice_bytes, self._subscription_bytes, is_full=self.database.is_full)
        return (yield from work.apply(changes, received))

    @transaction
    def take_id_block(self) -> Transaction[int]:
        """The number of a block of ids that nobody has: 1 or more."""
        return scalar(int, (yield Statement(TAKE_ID_BLOCK)))

    @transaction
    def announce(self, events: Sequence[DomainEvent]) -> Transaction[None]:
        """Have other processes hear events."""
        yield from events

    @transaction(turns=sweeping("irn"))
    def sweep(self, now_ms: int, limit: int) -> Transaction[int]:
        """Delete at most `limit` expired messages, subscriptions and calls each; returns how many."""
        swept = 0
        for statement in (SWEEP_MESSAGES, SWEEP_SUBSCRIPTIONS, SWEEP_CALLS):
            swept += scalar(int, (yield Statement(statement, (now_ms, limit))))
        return swept


def _message(row: Row) -> WaitingMessage:
    return WaitingMessage(*row)


class _Changes:
    """One transaction: each change wholly or not at all, in their order.

    What its publications need to know is read for all of them at once, and their messages are inserted
    together: before the next change that concerns subscriptions, or at the end.
    """

    def __init__(
        self, rules: Rules, notice_bytes: Allowance, subscription_bytes: Allowance, *, is_full: bool
    ) -> None:
        self._rules = rules
        self._subscription_bytes = subscription_bytes
        self._is_full = is_full
        self._applied = Applied()
        self._shares = Shares(rules.now_ms)
        self._notices = Notices(rules.notice, notice_bytes, rules.now_ms)
        self._numbers: dict[int, int] = {}
        """The stored numbers by provisional ones."""
        self._repeated: AbstractSet[str] = frozenset()
        """Calls that another process has answered."""
        self._calls: list[str] = []
        self._messages: list[Sequence[Value]] = []
        """The rows of messages that are not inserted yet."""
        self._arrived: set[Publishing] = set()
        """Publications whose receivers have all acknowledged them, while no subscription has changed."""
        self._received: defaultdict[tuple[ClientKey, Topic], list[int]] = defaultdict(list)
        self._stored: dict[tuple[Topic, ClientKey], None] = {}
        """Topics with new messages that other processes may have receivers of, and the messages' senders."""

    def apply(self, changes: Sequence[Change], received: Receipts) -> Transaction[Applied]:
        yield from self._look_up([each for each in changes if isinstance(each, Publishing)])
        for position, change in enumerate(changes):
            refused = None
            if isinstance(change, Publishing):
                if not self._is_done(change):
                    refused = yield from self._publish(change)
            elif isinstance(change, Subscribing):
                yield from self._insert_messages()
                refused = yield from self._subscribe(change.client, change.address, change.topics)
            else:
                yield from self._insert_messages()
                yield from self._unsubscribe(change.client, change.topics)
            if refused is not None:
                self._applied.refused[position] = refused
        yield from self._insert_messages()
        if self._calls:
            yield Statement(REMEMBER_CALLS, (self._rules.call_expires_at_ms, json_array(self._calls)))
        yield from self._acknowledge(received)
        for topic, sender in self._stored:
            yield IrnMessagesStored(topic, sender)
        return self._applied

    # Publications.

    def _look_up(self, publishings: Sequence[Publishing]) -> Transaction[None]:
        """Read what the publications need: their subscribers, and the room that there is for them."""
        if self._rules.is_shared and publishings:
            publications = list(chain.from_iterable(each.publications for each in publishings))
            calls = json_array(each.call for each in publishings)
            self._repeated = {call for (call,) in (yield Statement(REPEATED, (calls, self._rules.now_ms)))}
            given = [publication.number for publication in publications]
            rows = yield Statement(NUMBERS, (json_array(given),))
            self._numbers = {number: row[0] for number, row in zip(given, rows, strict=True)}
        left = [each for each in publishings if not self._has_arrived(each)]
        self._arrived = set(publishings).difference(left)
        if not left:
            return
        publications = list(chain.from_iterable(each.publications for each in left))
        topics = dict.fromkeys(publication.topic for publication in publications)
        yield from self._read_subscribers([topic for topic in topics if self._known(topic) is None])
        if not self._is_full:
            yield from self._shares.count(chain.from_iterable(map(self._claims, publications)))

    def _is_done(self, publishing: Publishing) -> bool:
        """Whether nothing is to be stored but the call: another process has answered it, or all receivers
        have acknowledged its messages.

        Most publications are such, and it takes no statement to find out.
        """
        if self._repeated and publishing.call in self._repeated:
            return True
        if self._is_full or not (publishing in self._arrived or self._has_arrived(publishing)):
            return False
        self._calls.append(publishing.call)
        return True

    def _has_arrived(self, publishing: Publishing) -> bool:
        if publishing.subscribes is not None:
            return False
        for publication in publishing.publications:
            acknowledged, receivers = publication.acknowledged, 0
            if publication.prompt or not acknowledged:
                return False
            known = self._known(publication.topic)
            if known is None:
                return False
            for client in known.clients:
                if client in acknowledged:
                    receivers += 1
                elif client != publication.sender:
                    return False
            self._applied.receivers[publication.topic] = receivers
        return True

    def _publish(self, publishing: Publishing) -> Transaction[BridgeError | None]:
        """Store the messages for their receivers, and what comes with them; or nothing, and say why not."""
        if self._is_full:
            return QueueFullError("the server")
        receivers = yield from self._receivers(publishing.publications)
        full = yield from self._take_room(list(receivers))
        if full is not None:
            return full
        refused: BridgeError | None
        refused, notices = yield from self._notices_of(publishing.publications)
        if refused is None and publishing.subscribes is not None:
            yield from self._insert_messages()
            refused = yield from self._subscribe(
                publishing.client, publishing.address, (publishing.subscribes,)
            )
        if refused is not None:
            self._give_back(list(receivers))
            return refused
        for publication, clients in receivers.items():
            self._keep(publication, clients)
        self._calls.append(publishing.call)
        self._applied.notice_bytes += yield from send_later(notices, self._rules.now_ms)
        return None

    def _receivers(
        self, publications: Sequence[Publication]
    ) -> Transaction[dict[Publication, Sequence[ClientKey] | None]]:
        """The clients that each message has to be stored for; None: the next subscriber. One that every
        receiver has acknowledged already is left out.
        """
        receivers: dict[Publication, Sequence[ClientKey] | None] = {}
        for publication in publications:
            if self._known(publication.topic) is None:
                yield from self._read_subscribers((publication.topic,))
            known = self._known(publication.topic)
            others = [client for client in known.clients if client != publication.sender] if known else []
            self._applied.receivers[publication.topic] = len(others)
            if not others:
                receivers[publication] = None
            elif not publication.acknowledged.issuperset(others):
                receivers[publication] = others
        return receivers

    def _take_room(self, publications: Sequence[Publication]) -> Transaction[QueueFullError | None]:
        """Count all of the messages, or none of them and say why not."""
        yield from self._shares.count(chain.from_iterable(map(self._claims, publications)))
        for position, publication in enumerate(publications):
            full = self._shares.take(self._claims(publication), len(publication.data))
            if full is not None:
                self._give_back(publications[:position])
                return full
        return None

    def _give_back(self, publications: Sequence[Publication]) -> None:
        for publication in publications:
            self._shares.give_back(self._claims(publication), len(publication.data))

    def _claims(self, publication: Publication) -> list[Claim]:
        queue, client = self._rules.queue, self._rules.client
        claims = [
            Claim(SHARE_OF_TOPIC, publication.topic, queue.topic, "the topic"),
            Claim(SHARE_OF_CLIENT, publication.sender, client.share, "your client"),
        ]
        if publication.address is not None:
            claims.append(Claim(SHARE_OF_ADDRESS, publication.address, queue.address, "your address"))
        return claims

    def _notices_of(
        self, publications: Sequence[Publication]
    ) -> Transaction[tuple[QueueFullError | None, list[OutgoingMessage]]]:
        """The notices to webhooks that the messages cause."""
        notices: list[OutgoingMessage] = []
        for publication in publications:
            if publication.prompt:
                messages = yield from self._notices.of(publication.topic, publication.address)
                if messages is None:
                    return QueueFullError("your address"), []
                notices += messages
        return None, notices

    def _keep(self, publication: Publication, clients: Sequence[ClientKey] | None) -> None:
        number, data = self._numbers.get(publication.number, publication.number), publication.data
        self._messages.append(
            (
                number, publication.topic, data, len(data), publication.sender, publication.address,
                int(clients is None), publication.expires_at_ms,
            )
        )  # fmt: skip
        if clients is None:
            return
        early = publication.acknowledged.intersection(clients)
        for client in early:
            self._received[client, publication.topic].append(number)
        self._applied.kept[publication.number] = [client for client in clients if client not in early]
        if self._rules.is_shared:
            self._stored[publication.topic, publication.sender] = None

    def _insert_messages(self) -> Transaction[None]:
        if self._messages:
            yield ForEach(INSERT_MESSAGE, self._messages)
            self._messages = []

    # Subscriptions.

    def _subscribe(
        self, client: ClientKey, address: str | None, topics: Sequence[Topic]
    ) -> Transaction[BridgeError | None]:
        """Subscribe the client to all of the topics, or to none and say why not."""
        now_ms, limits = self._rules.now_ms, self._rules.client
        rows = yield Statement(SUBSCRIBED, (client, json_array(topics), now_ms))
        known: dict[Topic, int] = dict(rows)
        new = [topic for topic in dict.fromkeys(topics) if topic not in known]
        if new:
            if self._is_full:
                return QueueFullError("the server")
            held = scalar(int, (yield Statement(COUNT_SUBSCRIPTIONS, (client, now_ms))))
            if held + len(new) > limits.topics:
                return TooManySubscriptionsError(limits.topics)
            if (yield Statement(FULL_TOPICS, (json_array(new), now_ms, limits.topic_clients))):
                return TooManyTopicClientsError(limits.topic_clients)
            size_bytes = len(new) * SUBSCRIPTION_BYTES
            charged = self._applied.subscription_bytes
            if not self._subscription_bytes.covers(address, charged[address] + size_bytes):
                return SubscriptionBytesError()
            charged[address] += size_bytes
        expires_at_ms = now_ms + limits.subscription_ms
        old = [topic for topic, expires in known.items() if limits.is_renewed(expires, now_ms)]
        if old:
            yield Statement(RENEW, (expires_at_ms, client, json_array(old)))
        if new:
            self._forget_subscribers(new)
            yield Statement(SUBSCRIBE, (client, expires_at_ms, json_array(new), now_ms))
            yield Statement(CLOSE_OPEN, (json_array(new), now_ms, client))
        return None

    def _unsubscribe(self, client: ClientKey, topics: Sequence[Topic]) -> Transaction[None]:
        """End subscriptions of the client; nothing waits for it any more."""
        self._forget_subscribers(topics)
        asked = json_array(topics)
        yield Statement(UNSUBSCRIBE, (client, asked))
        yield Statement(DELETE_UNWANTED, (asked, self._rules.now_ms))

    def _known(self, topic: Topic) -> Subscribers | None:
        """The subscribers of a topic, if that takes no statement."""
        found = self._applied.subscribers.get(topic)
        if found is None and topic not in self._applied.changed_topics:
            return self._rules.subscribers.get(topic, self._rules.now_ms)
        return found

    def _read_subscribers(self, topics: Sequence[Topic]) -> Transaction[None]:
        if not topics:
            return
        found: dict[Topic, list[Row]] = {topic: [] for topic in topics}
        for topic, *row in (yield Statement(SUBSCRIBERS, (json_array(topics), self._rules.now_ms))):
            found[topic].append(tuple(row))
        self._applied.subscribers |= {topic: Subscribers.of(rows) for topic, rows in found.items()}

    def _forget_subscribers(self, topics: Sequence[Topic]) -> None:
        self._arrived.clear()
        for topic in topics:
            self._applied.subscribers.pop(topic, None)
            self._applied.changed_topics.add(topic)

    # Acknowledgements.

    def _acknowledge(self, received: Receipts) -> Transaction[None]:
        """Note how far the clients have come, and delete what waits for nobody any more."""
        for receiver, numbers in received.items():
            self._received[receiver] += numbers
        if not self._received:
            return
        now_ms = self._rules.now_ms
        yield ForEach(
            ACKNOWLEDGE,
            [
                (client, topic, json_array(numbers), max(numbers), now_ms)
                for (client, topic), numbers in self._received.items()
            ],
        )
        every = json_array({number for numbers in self._received.values() for number in numbers})
        topics = json_array({topic for _, topic in self._received})
        if self._rules.is_shared:
            yield Statement(SETTLE_DELIVERED, (topics, now_ms, every, -now_ms))
        else:
            yield Statement(DELETE_DELIVERED, (topics, now_ms, every))


# Bytes that clients of generation 2.x may store, leased where several processes share the buckets.


async def hold_for_changes(
    changes: Sequence[Change], notice_bytes: Allowance, subscription_bytes: Allowance
) -> None:
    """Lease the bytes that the changes may store. Raises UnavailableError."""
    subscribing: Counter[str | None] = Counter()
    for change in changes:
        if isinstance(change, Subscribing):
            subscribing[change.address] += len(change.topics) * SUBSCRIPTION_BYTES
        elif isinstance(change, Publishing) and change.subscribes is not None:
            subscribing[change.address] += SUBSCRIPTION_BYTES
    if subscribing:
        await subscription_bytes.hold(subscribing)
    prompt = [
        publication.address
        for change in changes
        if isinstance(change, Publishing)
        for publication in change.publications
        if publication.prompt
    ]
    await hold_for_notices(notice_bytes, prompt)
