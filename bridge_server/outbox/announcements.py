"""What the outbox's store announces with a commit: queues that have more to send, and how much is owed."""

from dataclasses import dataclass

from bridge_server.kernel.signals import Key
from bridge_server.outbox.models import Claimant, OutgoingMessage, Queue

_QUEUED = "outbox"
_OWED, _DEAD, _COUNTED = "outbox-owed", "outbox-dead", "outbox-counted"


def key_of(message: OutgoingMessage) -> Key:
    """A message more is owed, in this queue."""
    destination, queue = message.queue
    return _QUEUED, f"{destination}\n{message.client or ''}\n{queue}"


def more_owed(messages: int) -> Key:
    """So many messages more are owed, or fewer, in queues that were named already."""
    return _OWED, str(messages)


def more_dead(letters: int) -> Key:
    """So many dead letters more are kept, or fewer."""
    return _DEAD, str(letters)


def counted(owed: int, dead: int) -> Key:
    """How many there are at this commit."""
    return _COUNTED, f"{owed} {dead}"


def queue_of(key: Key) -> Claimant | None:
    """The queue that has a message more, if that is what is announced."""
    kind, text = key
    if kind != _QUEUED:
        return None
    destination, client, queue = text.split("\n", 2)
    return Claimant(Queue(destination, queue), client or None, has_failed=False)


@dataclass(slots=True)
class Stock:
    """How many messages are owed and dead letters kept, by what every commit says of itself."""

    due: int = 0
    dead: int = 0

    def note(self, key: Key) -> None:
        """Take an announcement into account; others than the outbox's change nothing."""
        kind, text = key
        if kind == _QUEUED:
            self.due += 1
        elif kind == _OWED:
            self.due += int(text)
        elif kind == _DEAD:
            self.dead += int(text)
        elif kind == _COUNTED:
            self.due, self.dead = map(int, text.split())
