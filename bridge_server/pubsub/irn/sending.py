"""Messages to a socket, of its topics: at once while it keeps up, and otherwise from the disk."""

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import suppress

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.attachments import Attachment, Attachments
from bridge_server.pubsub.irn.id_blocks import IdBlocks
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import ClientKey, Envelope, WaitingMessage
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.pubsub.queues.models import Share
from bridge_server.topics.models import Topic
from bridge_server.web.frames import ping_frame, text_frame
from bridge_server.web.socket import Socket

_PAGE = 32
_RETRY_SECONDS = 1.0
_ANSWER_IS_NEW_SECONDS = 2.0
_PONG_SECONDS = 1.0
"""A client that answers no ping is sent its messages after this time."""


class Sending:
    """The messages of one socket, in the order in which they were published.

    A socket is sent at most `window` messages that it has not acknowledged; the next ones wait on disk. A
    receiver that has half of what may wait on a topic to acknowledge is sent what is stored, and no sooner:
    what the topic has no room for is not sent.

    JavaScript clients lose a response that they read before the answer to the request's publication, or in
    one piece with it. So nothing is sent at once while a publication of the client is not answered, and a
    pong has to say that a new answer was read before a message follows it.
    """

    __slots__ = (
        "_answered_at", "_attachments", "_behind", "_client", "_clock", "_has_room", "_ids", "_journal",
        "_mine", "_outlet", "_ping", "_ping_number", "_pong", "_sent", "_share", "_store", "_unanswered",
        "_window",
    )  # fmt: skip

    def __init__(
        self,
        client: ClientKey,
        attachments: Attachments,
        journal: IrnJournal,
        store: IrnStore,
        ids: IdBlocks,
        clock: Clock,
        share: Share,
        window: int,
    ) -> None:
        self._client = client
        self._attachments = attachments
        self._journal = journal
        self._store = store
        self._ids = ids
        self._clock = clock
        self._share = share
        self._window = window
        self._outlet: Socket | None = None
        self._mine: dict[Topic, Attachment] = {}
        self._sent: dict[int, tuple[Attachment, int, int]] = {}
        self._behind: asyncio.Task[None] | None = None
        self._has_room: asyncio.Event | None = None
        self._unanswered = 0
        self._answered_at: float | None = None
        self._ping, self._ping_number = b"", 0
        self._pong: asyncio.Event | None = None

    def open(self, outlet: Socket) -> None:
        """Begin to send: the socket is open."""
        self._outlet = outlet

    def close(self) -> None:
        """End: the socket is closed."""
        self._outlet = None
        for attachment in self._mine.values():
            self._attachments.remove(attachment)
        self._mine, self._sent = {}, {}
        if self._behind is not None:
            self._behind.cancel()

    def has_asked(self) -> None:
        """Note a publication of the client, which is on its way to the disk."""
        self._unanswered += 1

    def has_answer(self) -> None:
        """Note that the answer to a publication was written."""
        self._unanswered -= 1
        self._answered_at = asyncio.get_running_loop().time()

    def recognise(self, pong: bytes) -> None:
        """Note that the client has read everything before the ping."""
        if self._pong is not None and pong == self._ping:
            self._pong.set()

    def attach(self, topic: Topic) -> None:
        """Send the topic's waiting messages, and then every new one."""
        if self._outlet is None or topic in self._mine:
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

    def _offer(self, attachment: Attachment, envelope: Envelope, is_sure: bool) -> None:
        if is_sure and self._behind is None and self._keeps_up(attachment, len(envelope.data)):
            self._send(attachment, WaitingMessage(envelope.number, envelope.topic, envelope.data))
        else:
            self._fall_behind(attachment)

    def confirm(self, request_id: int, topic: Topic | None = None) -> bool:
        """The client has received the message that it was sent in this request; returns whether there was
        one.
        """
        sent = self._sent.get(request_id)
        if sent is None or (topic is not None and sent[0].topic != topic):
            return False
        del self._sent[request_id]
        attachment, number, size_bytes = sent
        attachment.unconfirmed -= 1
        attachment.unconfirmed_bytes -= size_bytes
        self._journal.acknowledge(self._client, (number,))
        if self._has_room is not None:
            self._has_room.set()
        return True

    def _keeps_up(self, attachment: Attachment, size_bytes: int) -> bool:
        return (
            self._outlet is not None
            and not self._unanswered
            and not self._has_new_answer()
            and not self._outlet.is_congested
            and len(self._sent) < self._window
            and 2 * attachment.unconfirmed < self._share.messages
            and 2 * (attachment.unconfirmed_bytes + size_bytes) <= self._share.size_bytes
        )

    def _send(self, attachment: Attachment, message: WaitingMessage) -> None:
        if self._outlet is None:
            return
        request_id, size_bytes = self._ids.next(), len(message.data)
        self._sent[request_id] = (attachment, message.number, size_bytes)
        attachment.position = message.number
        attachment.unconfirmed += 1
        attachment.unconfirmed_bytes += size_bytes
        text = wire.write_message(request_id, attachment.subscription, message.data)
        self._outlet.push_joined(text_frame(text))

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
        """Send what is on disk. Of all topics, since others may fall behind meanwhile."""
        position = min(each.position for each in behind.values())
        while page := await self._page(behind, position):
            await self._wait_for_pong()
            for message in page:
                await self._wait_for_room()
                attachment = self._mine.get(message.topic)
                if attachment is None or message.number <= attachment.position:
                    continue
                if message.is_received and attachment.is_new:
                    attachment.position = message.number
                    continue
                self._send(attachment, message)
                await self._drain()
            position = page[-1].number

    async def _page(self, behind: Mapping[Topic, Attachment], position: int) -> Sequence[WaitingMessage]:
        now_ms = self._clock.now_ms()
        if not self._store.is_shared:
            return await self._store.waiting(self._client, list(self._mine), position, now_ms, _PAGE)
        positions = {
            topic: each.position
            for topic, each in self._mine.items()
            if behind.get(topic) is each or not (each.is_live or each.is_new)
        }
        return await self._store.waiting_anywhere(self._client, positions, now_ms, _PAGE)

    def _has_new_answer(self) -> bool:
        """Whether an answer was written just now, and the client may not have read it yet."""
        if self._answered_at is None:
            return False
        if asyncio.get_running_loop().time() < self._answered_at + _ANSWER_IS_NEW_SECONDS:
            return True
        self._answered_at = None
        return False

    async def _wait_for_pong(self) -> None:
        """Return once the client has read the answers to its publications, or gives no sign of it."""
        if self._unanswered:
            await self._journal.caught_up()
        if self._outlet is None or not self._has_new_answer():
            return
        answered_at, self._pong = self._answered_at, asyncio.Event()
        self._ping_number += 1
        self._ping = b"answered %d" % self._ping_number
        self._outlet.push(ping_frame(self._ping))
        with suppress(TimeoutError):
            async with asyncio.timeout(_PONG_SECONDS):
                await self._pong.wait()
        if self._answered_at == answered_at:
            self._answered_at = None

    async def _wait_for_room(self) -> None:
        while len(self._sent) >= self._window:
            self._has_room = asyncio.Event()
            await self._has_room.wait()
        self._has_room = None

    async def _drain(self) -> None:
        if self._outlet is not None:
            await self._outlet.drain()
