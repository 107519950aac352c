"""Messages to a socket, of its topics: at once while it keeps up, and otherwise from the disk."""

import asyncio
from collections.abc import Mapping, Sequence

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.answers import Answers
from bridge_server.pubsub.irn.attachments import Attachment, Attachments
from bridge_server.pubsub.irn.id_blocks import IdBlocks
from bridge_server.pubsub.irn.journal import IrnJournal
from bridge_server.pubsub.irn.models import ClientKey, Envelope, WaitingMessage
from bridge_server.pubsub.irn.store import IrnStore
from bridge_server.pubsub.queues.models import Share
from bridge_server.topics.models import Topic
from bridge_server.web.frames import text_frame
from bridge_server.web.socket import Socket

_PAGE = 32
_RETRY_SECONDS = 1.0


class Sending:
    """The messages of one socket, in the order in which they were published.

    A socket is sent at most `window` messages that it has not acknowledged; the next ones wait on disk. A
    receiver that has half of what may wait on a topic to acknowledge is sent what is stored, and no sooner:
    what the topic has no room for is not sent.

    Answers of publications are read first (see `answers`).
    """

    __slots__ = (
        "_attachments", "_behind", "_client", "_clock", "_has_room", "_ids", "_journal", "_mine", "_outlet",
        "_sent", "_share", "_store", "_window", "answers",
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
        self.answers = Answers()

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
            and not self.answers.owed
            and not self.answers.has_unread
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
                self._send(attachment, message)
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
        if self.answers.owed:
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
