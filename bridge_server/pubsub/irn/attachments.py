"""Open sockets by the topics that they are sent messages of."""

from collections.abc import Callable, Collection, Sequence
from itertools import chain

from bridge_server.pubsub.irn import wire
from bridge_server.pubsub.irn.models import ClientKey, Envelope
from bridge_server.topics.models import Topic


class Attachment:
    """One socket on one topic. While it `is_live`, it has been sent all that there is."""

    __slots__ = (
        "client", "has_missed", "is_live", "is_new", "look", "offer", "position", "subscription", "topic",
        "unconfirmed", "unconfirmed_bytes",
    )  # fmt: skip

    def __init__(
        self,
        offer: Callable[["Attachment", Envelope, bool], None],
        look: Callable[["Attachment"], None],
        client: ClientKey,
        topic: Topic,
    ) -> None:
        self.look = look
        """Sends what has come on disk."""
        self.offer = offer
        """Sends a message that was published just now: at once if that is sure to be stored, or from the
        disk.
        """
        self.client = client
        self.topic = topic
        self.subscription = wire.subscription_id(client, topic)
        self.position = -1
        """The number of the newest message that it was sent."""
        self.is_live = False
        self.is_new = True
        """Whether it has never been live yet."""
        self.has_missed = False
        """Whether a message was published that it was not sent, since the disk was looked at."""
        self.unconfirmed = self.unconfirmed_bytes = 0


class Attachments:
    """The attachments of all sockets, by topic."""

    def __init__(self) -> None:
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
