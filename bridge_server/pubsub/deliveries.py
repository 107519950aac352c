"""Topics as the sockets of generation 1.x use them, in one process or in several."""

from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bridge_server.pubsub.queues.models import Message, Publish
from bridge_server.pubsub.topic import Receiver
from bridge_server.topics.models import Topic


class Deliveries(Protocol):
    """Brings published messages to the receivers of their topics."""

    def __len__(self) -> int:
        """The number of topics with a subscriber at this process."""
        ...

    def running(self) -> AbstractAsyncContextManager[None]:
        """Must be entered, inside of the journal's."""
        ...

    def publish(self, sender: int, address: str | None, published: Publish) -> None:
        """Send the message to all other receivers, and keep it until it is settled.

        Raises QueueFullError, unless only the journal finds this out.
        """
        ...

    async def subscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver all messages of the topic, and from then on each new one.

        Raises UnavailableError.
        """
        ...

    def unsubscribe(self, receiver: Receiver, topic: Topic) -> None:
        """Send the receiver nothing more of the topic."""
        ...

    def settle(self, topic: Topic, number: int) -> None:
        """Drop the message of this number, which has arrived, unless it is dropped already."""
        ...

    def refuse(self, message: Message) -> None:
        """Forget a message that the journal refused."""
        ...

    async def caught_up(self) -> None:
        """Return once all earlier changes are on disk, and sent to receivers. Raises UnavailableError."""
        ...
