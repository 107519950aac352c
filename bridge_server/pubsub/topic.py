"""A topic with a subscriber: its receivers, and all its messages that are not settled."""

from collections.abc import Iterable, Iterator
from typing import Protocol

from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.models import Message, Share


class Receiver(Protocol):
    """A socket that messages are sent to."""

    @property
    def number(self) -> int:
        """A unique number of the socket, in this process and in earlier ones."""
        ...

    def send(self, message: Message, frame: bytes) -> None:
        """Send a message, which is then to be acknowledged."""
        ...

    async def drain(self) -> None:
        """Wait while too much is unsent."""
        ...


class LiveTopic:
    """Once `is_loaded`, it has every message of the topic that there is."""

    __slots__ = ("_kept", "_messages", "_size_bytes", "is_loaded", "joining", "receivers")

    def __init__(self) -> None:
        self.receivers: dict[Receiver, None] = {}
        self.joining = 0
        self.is_loaded = False
        self._messages: dict[int, Message] = {}
        self._kept: set[int] = set()
        self._size_bytes = 0

    @property
    def is_deserted(self) -> bool:
        """Whether no receiver is subscribed or joining."""
        return not self.receivers and not self.joining

    def load(self, stored: Iterable[Message]) -> None:
        """Add the stored messages, before messages that have come in the meantime."""
        on_disk = {message.number: message for message in stored}
        self._messages = on_disk | self._messages
        self._kept |= on_disk.keys()
        self._size_bytes = sum(len(message.text) for message in self._messages.values())
        self.is_loaded = True

    def add(self, message: Message, share: Share, now_ms: int) -> None:
        """Add a message. Raises QueueFullError."""
        size_bytes = len(message.text)
        if len(self._messages) >= share.messages or self._size_bytes + size_bytes > share.size_bytes:
            for expired in [each for each in self._messages.values() if each.expires_at_ms <= now_ms]:
                self.remove(expired.number)
            if len(self._messages) >= share.messages or self._size_bytes + size_bytes > share.size_bytes:
                raise QueueFullError("the topic")
        self._messages[message.number] = message
        self._size_bytes += size_bytes

    def remove(self, number: int) -> Message | None:
        """Forget a message; returns it if it had been kept until now, and is to be deleted."""
        message = self._messages.pop(number, None)
        if message is None:
            return None
        self._size_bytes -= len(message.text)
        if number not in self._kept:
            return None
        self._kept.remove(number)
        return message

    def to_keep(self, up_to: int) -> list[Message]:
        """The messages up to this number that are not kept yet. They count as kept from now on."""
        messages = [
            message
            for number, message in self._messages.items()
            if number <= up_to and number not in self._kept
        ]
        self._kept.update(message.number for message in messages)
        return messages

    @property
    def has_more_to_keep(self) -> bool:
        """Whether there are messages that are not kept."""
        return len(self._kept) < len(self._messages)

    def missed(self, receiver: Receiver, position: int, now_ms: int) -> Iterator[Message]:
        """The messages after `position`, oldest first, without the receiver's own."""
        for message in list(self._messages.values()):
            is_meant = message.number > position and message.sender != receiver.number
            if is_meant and message.number in self._messages and message.expires_at_ms > now_ms:
                yield message
