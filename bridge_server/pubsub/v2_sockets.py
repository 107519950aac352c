"""Sockets of generation 2.x: a client's requests, their answers, messages to it, its detection as dead."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Protocol

from aiohttp import WSCloseCode

from bridge_server.kernel.errors import BridgeError, UnavailableError
from bridge_server.outbox.topics import Topic
from bridge_server.pubsub import v2_wire
from bridge_server.pubsub.queues import (
    MessageCharges,
    OpenSockets,
    Share,
    SocketShares,
    TooManyAddressTopicsError,
)
from bridge_server.pubsub.v2_journal import IdBlocks, IrnJournal
from bridge_server.pubsub.v2_models import (
    ClientKey,
    ClientRequest,
    Confirmation,
    IrnCall,
    Publication,
    WaitingMessage,
)
from bridge_server.pubsub.v2_wire import read_call
from bridge_server.web.limits import QuotaError
from bridge_server.web.sockets import Socket, ping_frame, text_frame

# Answers to publications of a client, which has to have read them before it is sent a message.
#
# JavaScript clients lose a response that they read before the answer to the request's publication, or in one
# piece with it. So nothing is sent while a publication of the client is not answered, and a pong has to say
# that a new answer was read before a message follows it.

_IS_NEW_SECONDS = 2.0
_PONG_SECONDS = 1.0
"""A client that answers no ping is sent its messages after this time."""


class Answers:
    """The answers that wait for one socket, or that it was written a moment ago."""

    __slots__ = ("_now", "_ping", "_ping_number", "_pong", "pending", "written_at")

    def __init__(self) -> None:
        self.pending = 0
        """Publications that are on their way to the disk."""
        self._now = asyncio.get_running_loop().time
        self.written_at: float | None = None  # of an answer that the client may not have read
        self._ping, self._ping_number = b"", 0
        self._pong: asyncio.Event | None = None

    def has_answer(self) -> None:
        """The answer to a publication was written."""
        self.pending -= 1
        self.written_at = self._now()

    def recognise(self, pong: bytes) -> None:
        """The client has read what was written before the ping."""
        if self._pong is not None and pong == self._ping:
            self._pong.set()

    @property
    def has_unread(self) -> bool:
        """Whether an answer was written just now, and the client may not have read it yet."""
        if self.written_at is None:
            return False
        if self._now() < self.written_at + _IS_NEW_SECONDS:
            return True
        self.written_at = None
        return False

    async def until_read(self, outlet: Socket) -> None:
        """Return once the client has read what was written, or gives no sign of it."""
        if not self.has_unread:
            return
        written_at, self._pong = self.written_at, asyncio.Event()
        self._ping_number += 1
        self._ping = b"answered %d" % self._ping_number
        outlet.push(ping_frame(self._ping))
        with suppress(TimeoutError):
            async with asyncio.timeout(_PONG_SECONDS):
                await self._pong.wait()
        if self.written_at == written_at:
            self.written_at = None


# Open sockets by the topics that they are sent messages of.


class Attachment:
    """One socket on one topic. While it `is_live`, it has been sent all that there is."""

    __slots__ = (
        "catch_up", "client", "has_missed", "is_live", "is_new", "message_head", "offer", "position", "topic",
        "unconfirmed", "unconfirmed_bytes",
    )  # fmt: skip

    def __init__(
        self,
        offer: Callable[["Attachment", Publication, bool], None],
        catch_up: Callable[["Attachment"], None],
        client: ClientKey,
        topic: Topic,
    ) -> None:
        self.catch_up = catch_up
        """Sends what has come on disk."""
        self.offer = offer
        """Sends a message that was published just now: at once if that is sure to be stored, or from the
        disk.
        """
        self.client = client
        self.topic = topic
        self.message_head = v2_wire.MESSAGE_HEAD % v2_wire.subscription_id(client, topic)
        self.position = -1
        """The number of the newest message that it was sent."""
        self.is_live = False
        self.is_new = True
        """Whether it has never been live yet."""
        self.has_missed = False
        """Whether a message was published that it was not sent, since the disk was last read."""
        self.unconfirmed = self.unconfirmed_bytes = 0


class Attachments:
    """The attachments of all sockets, by topic. They are counted to the addresses of their clients."""

    def __init__(self, counted: SocketShares) -> None:
        self.counted = counted
        self._by_topic: dict[Topic, dict[Attachment, None]] = {}

    def __len__(self) -> int:
        return len(self._by_topic)

    def all(self) -> Sequence[Attachment]:
        """Every socket on each of its topics."""
        return list(chain.from_iterable(self._by_topic.values()))

    def of(self, topic: Topic) -> Collection[Attachment]:
        """The sockets on this topic."""
        return self._by_topic.get(topic, ())

    def add(self, attachment: Attachment) -> None:
        """Add a socket that is sent the messages of a topic."""
        self._by_topic.setdefault(attachment.topic, {})[attachment] = None

    def remove(self, attachment: Attachment) -> None:
        """Remove a socket that is sent nothing more of a topic."""
        attached = self._by_topic[attachment.topic]
        del attached[attachment]
        if not attached:
            del self._by_topic[attachment.topic]


# Messages to a socket, of its topics: at once while it keeps up, and otherwise from the disk.

_PAGE = 32
_RETRY_SECONDS = 1.0


class Sending:
    """The messages of one socket, in the order in which they were published.

    A socket is sent at most so many messages that it has not acknowledged; the next ones wait on disk. A
    receiver whose unacknowledged messages reach half of a topic's limit is sent stored messages only: those
    that the topic has no room for are refused, and must not have been sent.

    The client reads the answers to its own publications first (`Answers`).
    """

    __slots__ = (
        "_address", "_attachments", "_behind", "_client", "_clock", "_has_room", "_ids", "_journal", "_mine",
        "_outlet", "_sent", "_share", "_store", "_window", "answers",
    )  # fmt: skip

    def __init__(
        self,
        client: ClientKey,
        address: str | None,
        attachments: Attachments,
        journal: IrnJournal,
        ids: IdBlocks,
        share: Share,
    ) -> None:
        self._client = client
        self._address = address
        self._attachments = attachments
        self._journal = journal
        self._store = journal.store
        self._ids = ids
        self._clock = journal.clock
        self._share = share
        self._window = attachments.counted.limits.unacknowledged
        self._outlet: Socket | None = None
        self._mine: dict[Topic, Attachment] = {}
        self._sent: dict[bytes, tuple[Attachment, int, int]] = {}
        """The messages that are not acknowledged, by the answers that acknowledge them."""
        self._behind: asyncio.Task[None] | None = None
        self._has_room: asyncio.Event | None = None
        self.answers = Answers()

    def open(self, outlet: Socket) -> None:
        """Begin to send: the socket is open."""
        self._outlet = outlet

    def close(self) -> None:
        """End: the socket is closed."""
        self._outlet = None
        for attachment in self._mine.values():
            self._attachments.remove(attachment)
        self._attachments.counted.give_back(self._address, len(self._mine))
        self._mine, self._sent = {}, {}
        if self._behind is not None:
            self._behind.cancel()

    def require_room(self, topics: Iterable[Topic]) -> None:
        """Raise TooManyAddressTopicsError unless the client's address may have these topics, too."""
        self._attachments.counted.require_room(self._address, len(set(topics) - self._mine.keys()))

    def attach(self, topic: Topic) -> None:
        """Send the topic's waiting messages, and then every new one.

        The socket is closed if its address has no room for the topic: a client could not tell which of its
        subscriptions bring it no messages.
        """
        if self._outlet is None or topic in self._mine:
            return
        try:
            self._attachments.counted.take(self._address)
        except TooManyAddressTopicsError as error:
            self._outlet.end(WSCloseCode.GOING_AWAY, error.detail)
            return
        attachment = Attachment(self._offer, self._fall_behind, self._client, topic)
        self._mine[topic] = attachment
        self._attachments.add(attachment)
        self._fall_behind(attachment)

    def detach(self, topic: Topic) -> None:
        """Send nothing more of the topic."""
        attachment = self._mine.pop(topic, None)
        if attachment is not None:
            self._attachments.remove(attachment)
            self._attachments.counted.give_back(self._address)

    def _offer(self, attachment: Attachment, publication: Publication, is_sure: bool) -> None:
        outlet, answers, share = self._outlet, self.answers, self._share
        if (
            is_sure
            and self._behind is None
            and outlet is not None
            and not answers.pending
            and (answers.written_at is None or not answers.has_unread)
            and not outlet.is_congested
            and len(self._sent) < self._window
            and 2 * attachment.unconfirmed < share.messages
            and 2 * (attachment.unconfirmed_bytes + len(publication.data)) <= share.size_bytes
        ):
            self._send(attachment, publication.number, publication.data)
        else:
            self._fall_behind(attachment)

    def confirm(self, confirmed: bytes, topic: Topic | None = None) -> bool:
        """The client has received the message that has this answer; returns whether there was one."""
        sent = self._sent.get(confirmed)
        if sent is None or (topic is not None and sent[0].topic != topic):
            return False
        del self._sent[confirmed]
        attachment, number, size_bytes = sent
        attachment.unconfirmed -= 1
        attachment.unconfirmed_bytes -= size_bytes
        self._journal.acknowledge(self._client, attachment.topic, number)
        if self._has_room is not None:
            self._has_room.set()
        return True

    def _send(self, attachment: Attachment, number: int, data: bytes) -> None:
        if self._outlet is None:
            return
        id_text, size_bytes = b"%d" % self._ids.next(), len(data)
        self._sent[v2_wire.CONFIRMED % id_text] = (attachment, number, size_bytes)
        attachment.position = number
        attachment.unconfirmed += 1
        attachment.unconfirmed_bytes += size_bytes
        self._outlet.push_joined(text_frame(v2_wire.write_message(id_text, attachment.message_head, data)))

    def _fall_behind(self, attachment: Attachment) -> None:
        attachment.is_live, attachment.has_missed = False, True
        if self._behind is None:
            self._behind = asyncio.create_task(self._catch_up())

    async def _catch_up(self) -> None:
        """Send from the disk until all messages of every topic were sent."""
        try:
            while behind := {topic: each for topic, each in self._mine.items() if not each.is_live}:
                for attachment in behind.values():
                    attachment.has_missed = False
                try:
                    if not self._store.is_shared or any(each.is_new for each in behind.values()):
                        await self._journal.caught_up()
                    await self._send_stored(behind)
                except UnavailableError:
                    await asyncio.sleep(_RETRY_SECONDS)
                    continue
                for attachment in behind.values():
                    attachment.is_live = not attachment.has_missed
                    attachment.is_new = False
        except ConnectionError:
            pass  # the client has left while it was written to
        finally:
            self._behind = None

    async def _send_stored(self, behind: Mapping[Topic, Attachment]) -> None:
        """Send what is on disk. Also of topics that fall behind meanwhile, to keep the order; not of those
        that are attached meanwhile: what waits on them is older than what was sent already.
        """
        position = min(each.position for each in behind.values())
        while page := await self._page(asked := self._to_read(behind), position):
            await self._wait_for_answers()
            for message in page:
                await self._wait_for_room()
                attachment = asked[message.topic]
                if self._mine.get(message.topic) is not attachment or message.number <= attachment.position:
                    continue
                if message.is_received and attachment.is_new:
                    attachment.position = message.number
                    continue
                self._send(attachment, message.number, message.data)
                await self._drain()
            position = page[-1].number

    def _to_read(self, behind: Mapping[Topic, Attachment]) -> Mapping[Topic, Attachment]:
        return {
            topic: each
            for topic, each in self._mine.items()
            if behind.get(topic) is each or not (each.is_live or each.is_new)
        }

    async def _page(self, asked: Mapping[Topic, Attachment], position: int) -> Sequence[WaitingMessage]:
        now_ms = self._clock.now_ms()
        if not self._store.is_shared:
            return await self._store.waiting(self._client, list(asked), position, now_ms, _PAGE)
        positions = {topic: each.position for topic, each in asked.items()}
        return await self._store.waiting_anywhere(self._client, positions, now_ms, _PAGE)

    async def _wait_for_answers(self) -> None:
        """Return once the client has read the answers to its publications, or gives no sign of it."""
        if self.answers.pending:
            await self._journal.caught_up()
        if self._outlet is not None:
            await self.answers.until_read(self._outlet)

    async def _wait_for_room(self) -> None:
        while len(self._sent) >= self._window:
            self._has_room = asyncio.Event()
            await self._has_room.wait()
        self._has_room = None

    async def _drain(self) -> None:
        if self._outlet is not None:
            await self._outlet.drain()


# A socket: what its client says is performed, and its topics' messages are sent.


class Performer(Protocol):
    """Performs the calls of clients."""

    def perform(
        self, socket: "IrnSocket", request: ClientRequest, call: IrnCall, paid: int
    ) -> Awaitable[None] | None:
        """Perform a call that was charged for; the next frame waits for the awaitable."""

    def price(self, call: IrnCall) -> int:
        """The messages that a call counts as."""


class Host(Protocol):
    """The service that a socket belongs to."""

    open: "OpenSockets[IrnSocket]"
    charges: MessageCharges

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk. Raises UnavailableError."""

    def begin(self, socket: "IrnSocket") -> None:
        """Register the socket, which has opened."""

    def forget(self, socket: "IrnSocket") -> None:
        """Forget the socket, which is closed."""


_LONGEST_PAUSE_SECONDS = 1.0


class IrnSocket:
    """Implements the party of a socket. Above a rate, the client's frames are read more slowly: clients
    ignore the codes of errors, and repeat calls that are refused.
    """

    __slots__ = (
        "_charges", "_farewell", "_is_quiet", "_is_settling", "_leave", "_outlet", "_perform", "_price",
        "_settle", "_welcome", "address", "client", "frames", "is_doubtful", "number", "sending",
    )  # fmt: skip

    def __init__(
        self,
        number: int,
        address: str | None,
        client: ClientKey,
        sending: Sending,
        calls: Performer,
        host: Host,
    ) -> None:
        self.frames = host.open.frames
        """Where its calls are recorded; None where no record is kept."""
        self.number = number
        self.address = address
        self.client = client
        self.sending = sending
        self.is_doubtful = False
        """Whether its last publication was refused, so that the next one may be as well."""
        self._perform = calls.perform
        self._price = calls.price
        self._charges = host.charges
        self._settle = host.caught_up
        self._welcome = host.begin
        self._leave = host.forget
        self._outlet: Socket | None = None
        self._farewell: tuple[int, str] | None = None
        self._is_quiet = self._is_settling = False

    def join(self, outlet: Socket) -> None:
        self._outlet = outlet
        if self._farewell is not None:
            outlet.end(*self._farewell)
            return
        self.sending.open(outlet)
        self._welcome(self)

    def hear(self, text: bytes) -> Awaitable[None] | None:
        self._is_quiet = False
        if len(text) <= v2_wire.LONGEST_CONFIRMED and self.sending.confirm(text):
            return None  # every second frame
        frame = v2_wire.read_frame(text)
        if isinstance(frame, Confirmation):
            is_known = frame.is_received and self.sending.confirm(frame.text)
            return None if is_known else self._pay(1)
        try:
            call = read_call(frame)
        except BridgeError as error:
            self._refuse(frame, error)
            return self._pay(1)
        price = 0 if self.address is None else self._price(call)
        late = None if self.address is None else self._pay(price)
        return self._do(frame, call, price) if late is None else self._do_after(late, frame, call, price)

    async def settle(self) -> None:
        self._is_quiet, self._is_settling = False, True
        try:
            late = self._pay(1)
            if late is not None:
                await late
            await self._settle()
        finally:
            self._is_settling = False

    def recognise(self, pong: bytes) -> None:
        self._is_quiet = False
        self.sending.answers.recognise(pong)

    def leave(self) -> None:
        self._outlet = None
        self.sending.close()
        self._leave(self)

    def probe(self, ping: bytes, _: bytes) -> None:
        """Ping the client. A client that has sent nothing since the last ping is not there any more.

        What it sends while the disk is waited for is heard only after that.
        """
        if self._outlet is None or self._is_settling:
            return
        if self._is_quiet:
            self._outlet.abort()
            return
        self._is_quiet = True
        self._outlet.push(ping)

    def end(self, code: int, reason: str) -> None:
        """Close the socket in good order, at once or as soon as it is open."""
        self._farewell = code, reason
        if self._outlet is not None:
            self._outlet.end(code, reason)

    def answer(self, id_text: bytes, result: bytes = b"true", refused: BridgeError | None = None) -> None:
        """Answer a request with its result, or say why there is none, unless the client has left."""
        if self._outlet is not None:
            text = v2_wire.RESULT % (id_text, result)
            if refused is not None:
                text = v2_wire.write_error(id_text, refused)
            self._outlet.push_joined(text_frame(text))

    def published(self, id_text: bytes, subscribes: Topic | None, refused: BridgeError | None) -> None:
        """Answer a publication, and send the messages of the topic to which it subscribes, if any."""
        self.is_doubtful = refused is not None
        self.answer(id_text, refused=refused)
        self.sending.answers.has_answer()
        if refused is None and subscribes is not None:
            self.sending.attach(subscribes)

    async def has_written(self) -> bool:
        """Wait until all answers have been written; returns whether they have."""
        if self._outlet is None:
            return False
        await self._outlet.drain()
        return self._outlet is not None and self._outlet.is_open

    def _refuse(self, request: ClientRequest, error: BridgeError) -> None:
        if self.frames is not None:
            self.frames.note(request.method, "", error)
        self.answer(request.id_text, refused=error)

    def _do(self, request: ClientRequest, call: IrnCall, paid: int) -> Awaitable[None] | None:
        try:
            pending = self._perform(self, request, call, paid)
        except BridgeError as error:
            self._refuse(request, error)
            return None
        return None if pending is None else self._finish(request, pending)

    async def _finish(self, request: ClientRequest, pending: Awaitable[None]) -> None:
        self._is_settling = True
        try:
            await pending
        except BridgeError as error:
            self._refuse(request, error)
        finally:
            self._is_quiet = self._is_settling = False

    async def _do_after(
        self, late: Awaitable[None], request: ClientRequest, call: IrnCall, paid: int
    ) -> None:
        await late
        pending = self._do(request, call, paid)
        if pending is not None:
            await pending

    def _pay(self, messages: int) -> Awaitable[None] | None:
        """Spend so many messages of the address: at once, or when what is returned was awaited."""
        if self.address is None:
            return None
        try:
            late = self._charges.charge(self.address, messages)
        except QuotaError as error:
            return self._pay_later(messages, error)
        return None if late is None else self._pay_late(messages, late)

    async def _pay_late(self, messages: int, late: Awaitable[None]) -> None:
        try:
            await late
        except QuotaError as error:
            await self._pay_later(messages, error)

    async def _pay_later(self, messages: int, refusal: QuotaError) -> None:
        assert self.address is not None
        while self._outlet is not None:
            await asyncio.sleep(_pause_seconds(refusal))
            self._is_quiet = False  # its pongs wait behind what it has said
            try:
                late = self._charges.charge(self.address, messages)
                if late is not None:
                    await late
            except QuotaError as error:
                refusal = error
            else:
                return


def _pause_seconds(refusal: QuotaError) -> float:
    longest_us = max(charge.spending.retry_after_us for charge in refusal.charges)
    return min(longest_us / 1_000_000, _LONGEST_PAUSE_SECONDS)
