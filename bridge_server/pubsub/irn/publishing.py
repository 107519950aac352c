"""Publications in the database: the clients that a message waits for, and whether there is room for it."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet

from bridge_server.kernel.errors import BridgeError
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.pubsub.irn import sql
from bridge_server.pubsub.irn.events import IrnMessagesStored
from bridge_server.pubsub.irn.models import ClientKey, Envelope, Publishing
from bridge_server.pubsub.irn.rules import Applied, Rules
from bridge_server.pubsub.irn.subscribing import IrnSubscriptions
from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.notices import Allowance, Notices, send_later
from bridge_server.pubsub.queues.shares import Claim, Shares
from bridge_server.storage.database import Statement, Transaction, json_array
from bridge_server.topics.models import Topic


class Publications:
    """Parts of one transaction: each call wholly or not at all."""

    def __init__(
        self,
        rules: Rules,
        applied: Applied,
        subscriptions: IrnSubscriptions,
        allowance: Allowance,
        *,
        is_full: bool,
    ) -> None:
        self._rules = rules
        self._applied = applied
        self._subscriptions = subscriptions
        self._is_full = is_full
        self._shares = Shares(rules.now_ms)
        self._notices = Notices(rules.notice, allowance, rules.now_ms)
        self._numbers: dict[int, int] = {}
        self._repeated: AbstractSet[str] = frozenset()
        """Calls that another process has answered."""
        self._calls: list[str] = []
        self._stored: dict[tuple[Topic, ClientKey], None] = {}
        """Topics with new messages that other processes may have receivers of, and the messages' senders."""

    def ask_the_database(self, publishings: Sequence[Publishing]) -> Transaction[None]:
        """What only the database knows, where several processes publish."""
        if not publishings:
            return
        calls = json_array(each.call for each in publishings)
        self._repeated = {call for (call,) in (yield Statement(sql.REPEATED, (calls, self._rules.now_ms)))}
        given = [envelope.number for each in publishings for envelope in each.envelopes]
        rows = yield Statement(sql.NUMBERS, (json_array(given),))
        self._numbers = {number: row[0] for number, row in zip(given, rows, strict=True)}

    def is_done(self, publishing: Publishing) -> bool:
        """Whether nothing is to be stored but the call: another process has answered it, or all receivers
        have acknowledged its messages.

        Most publications are such, and it takes no statement to find out.
        """
        if publishing.call in self._repeated:
            return True
        if self._is_full or publishing.subscribes is not None:
            return False
        for envelope in publishing.envelopes:
            known = self._subscriptions.known(envelope.topic)
            if known is None or envelope.prompt or not _have_all(envelope, known.clients):
                return False
        self._calls.append(publishing.call)
        return True

    def publish(self, publishing: Publishing) -> Transaction[BridgeError | None]:
        """Store the messages for their receivers, and what comes with them; or nothing, and say why not."""
        if self._is_full:
            return QueueFullError("the server")
        receivers = yield from self._receivers(publishing.envelopes)
        full = yield from self._take_room(list(receivers))
        if full is not None:
            return full
        refused: BridgeError | None
        refused, notices = yield from self._owed(publishing.envelopes)
        if refused is None and publishing.subscribes is not None:
            refused = yield from self._subscriptions.subscribe(
                publishing.client, publishing.address, (publishing.subscribes,)
            )
        if refused is not None:
            self._give_back(list(receivers))
            return refused
        for envelope, clients in receivers.items():
            yield from self._insert(envelope, clients)
        self._calls.append(publishing.call)
        self._applied.notice_bytes += yield from send_later(notices, self._rules.now_ms)
        return None

    def end(self) -> Transaction[None]:
        """Remember the calls, and announce the messages."""
        if self._calls:
            yield Statement(sql.REMEMBER_CALLS, (self._rules.call_expires_at_ms, json_array(self._calls)))
        for topic, sender in self._stored:
            yield IrnMessagesStored(topic, sender)

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
                for client in (yield from self._subscriptions.of(envelope.topic))
                if client != envelope.sender
            ]
            if not others:
                receivers[envelope] = None
                continue
            acknowledged = frozenset(envelope.acknowledged)
            if left := [client for client in others if client not in acknowledged]:
                receivers[envelope] = left
        return receivers

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
            self._applied.kept[envelope.number] = clients
            if self._rules.is_shared:
                self._stored[envelope.topic, envelope.sender] = None


def _have_all(envelope: Envelope, subscribers: Sequence[ClientKey]) -> bool:
    """Whether there are subscribers but the sender, and all of them have acknowledged the message."""
    acknowledged, sender = envelope.acknowledged, envelope.sender
    return bool(acknowledged) and all(client in acknowledged or client == sender for client in subscribers)
