"""Messages of generation 1.x: their JSON, their rows, and their way to the disk."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain
from typing import NamedTuple, TypeAlias

import orjson
import structlog

from bridge_server.kernel.background import settle
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError, InvalidInputError, UnavailableError
from bridge_server.kernel.events import DomainEvent
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.topics import TOPIC_WEBHOOK, Topic, turn_of_topic
from bridge_server.pubsub import queues
from bridge_server.pubsub.queues import Allowance, Claim, NoticeOf, QueueFullError, QueueLimits
from bridge_server.storage import database as sql

log = structlog.get_logger()


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


class TooManyTopicsError(InvalidInputError, code="too-many-topics", title="Too many topics"):
    """A socket has subscribed to as many topics as it may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"A socket may subscribe to {limit} topics, and no more.")


# The statements for messages on topics: SQL that SQLite 3.40 and PostgreSQL 14 both understand, but for
# the reading of a JSON array.

NEWEST = "SELECT coalesce(max(number), 0) FROM topic_messages"
WAITING = """
SELECT number, topic, text, sender, address, expires_at_ms
FROM topic_messages WHERE topic = ? AND expires_at_ms > ? ORDER BY number
"""
SHARE_OF_TOPIC = """
SELECT topic, count(*), sum(size_bytes) FROM topic_messages
WHERE topic IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY topic
"""
SHARE_OF_ADDRESS = """
SELECT address, count(*), sum(size_bytes) FROM topic_messages
WHERE address IN (SELECT value FROM json_each(?)) AND expires_at_ms > ? GROUP BY address
"""
INSERT = """
INSERT INTO topic_messages (number, topic, text, size_bytes, sender, address, expires_at_ms)
VALUES (?, ?, ?, ?, ?, ?, ?)
"""
DELETE = "DELETE FROM topic_messages WHERE number IN (SELECT value FROM json_each(?))"

# Of several processes on one database.
AFTER = """
SELECT number, topic, text, sender, address, expires_at_ms FROM topic_messages
WHERE topic = ? AND number > ? AND (expires_at_ms > ? OR expires_at_ms < 0) ORDER BY number LIMIT ?
"""
SETTLE = """
UPDATE topic_messages SET expires_at_ms = ?
WHERE number IN (SELECT value FROM json_each(?)) AND expires_at_ms > 0
"""

SWEEP = """
DELETE FROM topic_messages WHERE number IN
    (SELECT number FROM topic_messages WHERE expires_at_ms <= ? ORDER BY expires_at_ms LIMIT ?)
"""


# The published clients' spelling. Messages to receivers are written anew: they have the protocol's four
# members, and no text that two parsers could read differently.

TOPIC_MAX_CHARACTERS = 128


def read_frame(text: bytes) -> Frame:
    """Read a client's frame; a publication needs a payload. Raises FrameNotJsonError, InvalidFrameError."""
    values = queues.read_members(text, "a JSON object: {topic, type, payload, silent}")
    topic, kind, silent = values.get("topic"), values.get("type"), values.get("silent", False)
    if not isinstance(topic, str) or not 0 < len(topic) <= TOPIC_MAX_CHARACTERS or "\0" in topic:
        detail = f"topic must be a string of 1 to {TOPIC_MAX_CHARACTERS} characters, without U+0000."
        raise queues.InvalidFrameError(detail)
    if not isinstance(silent, bool):
        raise queues.InvalidFrameError("silent must be true or false.")
    if kind == "pub":
        payload = values.get("payload")
        if not isinstance(payload, str):
            raise queues.InvalidFrameError("payload must be a string.")
        return Publish(Topic(topic), payload, silent)
    if kind == "ack":
        return Acknowledge(Topic(topic))
    if kind == "sub":
        return Subscribe(Topic(topic))
    raise queues.InvalidFrameError("type must be pub, sub or ack.")


def write_message(published: Publish) -> bytes:
    """The frame that receivers of a message are sent."""
    topic, payload, silent = published
    return orjson.dumps({"topic": topic, "type": "pub", "payload": payload, "silent": silent})


def notice_of(ids: IdMaker, topic: Topic, address: str | None, webhook: str) -> OutgoingMessage:
    """The notice to a webhook of the topic. It counts to the client address."""
    notice = orjson.dumps({"topic": topic})
    return OutgoingMessage(ids.random_uuid(), webhook, notice, TOPIC_WEBHOOK, client=address, subject=topic)


# Messages in the database, and the event that tells of new ones.


@dataclass(frozen=True, slots=True)
class MessagesStored(DomainEvent):
    """There are new messages on the topic, for the sockets of every process."""

    topic: str


def _turns_of_changes(changes: Changes, *_: object, **__: object) -> sql.Turns:
    messages = (*changes.kept, *changes.announced)
    topics = (turn_of_topic(message.topic) for message in messages)
    addresses = (sql.striped("address", each.address) for each in messages if each.address)
    return sql.each_once((*topics, *addresses))


class TopicStore:
    """The messages that wait. Rows that have expired at `now_ms` count as deleted."""

    def __init__(self, database: sql.Database, allowance: Allowance | None = None) -> None:
        self.database = database
        self._allowance = allowance

    async def newest(self) -> int:
        """The greatest number of a stored message, or 0."""
        return sql.scalar(int, await self.database.read(NEWEST))

    async def waiting(self, topic: Topic, now_ms: int) -> Sequence[Message]:
        """The topic's messages, oldest first."""
        return [Message(*row) for row in await self.database.read(WAITING, (topic, now_ms))]

    async def after(self, topic: Topic, number: int, now_ms: int, limit: int) -> Sequence[Message]:
        """The topic's messages with greater numbers, oldest first; also messages that were just settled."""
        rows = await self.database.read(AFTER, (topic, number, now_ms, limit))
        return [Message(*row) for row in rows]

    async def apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> Mapping[int, QueueFullError]:
        """Store, then delete, and queue a notice of each announced message to its topic's webhooks; all or
        nothing. Returns the errors of the messages that were not stored, by their numbers.
        """
        if self.database.takes_turns:
            await queues.hold_for_notices(self._allowance, (message.address for message in changes.announced))
        refused, caused = await self._apply(changes, now_ms, limits, notice)
        queues.pay_for(caused, self._allowance)
        return refused

    @sql.transaction(turns=_turns_of_changes)
    def _apply(
        self, changes: Changes, now_ms: int, limits: QueueLimits, notice: NoticeOf
    ) -> sql.Transaction[tuple[Mapping[int, QueueFullError], Counter[str | None]]]:
        refused = self._refusals(changes)
        notices = yield from self._notices(changes, refused, now_ms, notice)
        yield from _keep_each(changes.kept, refused, now_ms, limits)
        if changes.settled:
            yield self._settling(orjson.dumps(changes.settled).decode(), now_ms)
        if self.database.takes_turns:
            for topic in {each.topic for each in changes.kept if each.number not in refused}:
                yield MessagesStored(topic)
        due = [message for number, message in notices if number not in refused]
        return refused, (yield from queues.send_later(due, now_ms))

    def _settling(self, numbers: str, now_ms: int) -> sql.Statement:
        """Mark messages as settled, which other processes may not have read: a sweep deletes them later."""
        if self.database.takes_turns:
            return sql.Statement(SETTLE, (-now_ms, numbers))
        return sql.Statement(DELETE, (numbers,))

    def _notices(
        self, changes: Changes, refused: dict[int, QueueFullError], now_ms: int, notice: NoticeOf
    ) -> sql.Transaction[list[tuple[int, OutgoingMessage]]]:
        """The notices of each announced message; a message beyond its address's allowance is refused."""
        due = queues.Notices(notice, self._allowance, now_ms)
        notices: list[tuple[int, OutgoingMessage]] = []
        for number, topic, _, _, address, _ in changes.announced:
            if number in refused:
                continue
            messages = yield from due.of(topic, address)
            if messages is None:
                refused[number] = QueueFullError("your address")
            else:
                notices += [(number, message) for message in messages]
        return notices

    def _refusals(self, changes: Changes) -> dict[int, QueueFullError]:
        """The refusals of a full database, which takes no message and deletes settled ones all the same."""
        messages = (*changes.kept, *changes.announced) if self.database.is_full else ()
        return {message.number: QueueFullError("the server") for message in messages}

    @sql.transaction(turns=sql.sweeping("topics"))
    def sweep(self, now_ms: int, limit: int) -> sql.Transaction[int]:
        """Delete at most `limit` messages that have expired; returns how many."""
        return sql.scalar(int, (yield sql.Statement(SWEEP, (now_ms, limit))))


def _keep_each(
    messages: Sequence[Message], refused: dict[int, QueueFullError], now_ms: int, limits: QueueLimits
) -> sql.Transaction[None]:
    shares = queues.Shares(now_ms)
    claims = {each.number: _claims(each, limits) for each in messages if each.number not in refused}
    yield from shares.count(chain.from_iterable(claims.values()))
    rows = []
    for number, topic, text, sender, address, expires_at_ms in messages:
        if number in refused:
            continue
        full = shares.take(claims[number], len(text))
        if full is None:
            rows.append((number, topic, text, len(text), sender, address, expires_at_ms))
        else:
            refused[number] = full
    if rows:
        yield sql.ForEach(INSERT, rows)


def _claims(message: Message, limits: QueueLimits) -> list[Claim]:
    claims = [Claim(SHARE_OF_TOPIC, message.topic, limits.topic, "the topic")]
    if message.address is not None:
        claims.append(Claim(SHARE_OF_ADDRESS, message.address, limits.address, "your address"))
    return claims


# Writes messages and acknowledgements to the disk, all that came during a commit in the next transaction.

_MOST_MESSAGES = 1_000
_MOST_BYTES = 8 * 2**20
PATIENCE_SECONDS = 5.0
_RETRY_SECONDS = 0.25


class Journal:
    """Changes on their way to the disk. `running` must be entered. `refuse` is called with each message that
    is not stored, because its topic or its address has too many.
    """

    def __init__(
        self,
        store: TopicStore,
        clock: Clock,
        ids: IdMaker,
        limits: QueueLimits,
        refuse: Callable[[Message, BridgeError], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._notice = partial(notice_of, ids)
        self._limits = limits
        self._refuse = refuse
        self._unsaved: dict[int, Message] = {}
        self._unsaved_bytes = 0
        self._settled: list[int] = []
        self._announced: list[Message] = []
        self._waiting: list[asyncio.Future[None]] = []
        self._wanted = asyncio.Event()
        self._is_writing = self._is_closed = False

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Write while inside, and the rest on leaving."""
        writing = asyncio.create_task(self._write_until_closed())
        try:
            yield
        finally:
            self._is_closed = True
            self._wanted.set()
            await writing

    def keep(self, message: Message) -> None:
        """Store the message."""
        self._unsaved[message.number] = message
        self._unsaved_bytes += len(message.text)
        self._wanted.set()

    def settle(self, message: Message) -> None:
        """Delete the message, which was to be kept."""
        if self._unsaved.pop(message.number, None) is None:
            self._settled.append(message.number)
            self._wanted.set()
        else:
            self._unsaved_bytes -= len(message.text)

    def drop(self, number: int) -> None:
        """Delete the stored message of this number."""
        self._settled.append(number)
        self._wanted.set()

    def announce(self, message: Message) -> None:
        """Call the webhooks of the message's topic, unless the message is refused."""
        self._announced.append(message)
        self._wanted.set()

    @property
    def is_behind(self) -> bool:
        """Whether so much is unsaved that publishers must wait."""
        messages = len(self._unsaved) + len(self._announced)
        return messages >= _MOST_MESSAGES or self._unsaved_bytes >= _MOST_BYTES

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk. Raises UnavailableError."""
        if self._is_writing or self._has_changes():
            await queues.until_done(self._waiting, self._wanted, PATIENCE_SECONDS, "stored")

    def _has_changes(self) -> bool:
        return bool(self._unsaved or self._settled or self._announced)

    async def _write_until_closed(self) -> None:
        while not self._is_closed or self._has_changes():
            await self._wanted.wait()
            self._wanted.clear()
            try:
                await self._write()
            except UnavailableError as error:
                log.warning("messages_not_stored", reason=error.detail, messages=len(self._unsaved))
                if self._is_closed:
                    return
                await asyncio.sleep(_RETRY_SECONDS)
                self._wanted.set()
            except Exception:  # tried again it would fail again, and all that comes later with it
                log.exception("messages_lost")

    async def _write(self) -> None:
        """Write all unsaved changes. If the write fails, they are unsaved again."""
        unsaved, unsaved_bytes, waiting = self._unsaved, self._unsaved_bytes, self._waiting
        changes = Changes(tuple(unsaved.values()), tuple(self._settled), tuple(self._announced))
        self._unsaved, self._unsaved_bytes = {}, 0
        self._settled, self._announced, self._waiting = [], [], []
        self._is_writing = True
        try:
            refused = await self._store.apply(changes, self._clock.now_ms(), self._limits, self._notice)
        except UnavailableError:
            self._unsaved, self._unsaved_bytes = unsaved | self._unsaved, unsaved_bytes + self._unsaved_bytes
            self._settled[:0] = changes.settled
            self._announced[:0] = changes.announced
            self._waiting[:0] = waiting
            raise
        finally:
            self._is_writing = False
        taken = unsaved | {message.number: message for message in changes.announced}
        for number, error in refused.items():
            self._refuse(taken[number], error)
        for done in waiting:
            settle(done, None)
