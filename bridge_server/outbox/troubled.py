"""The queues whose last attempt failed: they are sent one message at a time."""

from collections import OrderedDict

from bridge_server.outbox.models import Queue

_REMEMBERED = 10_000


class Troubled:
    """The queues that failed most recently, as many as are worth remembering."""

    def __init__(self) -> None:
        self._queues: OrderedDict[Queue, None] = OrderedDict()

    def __contains__(self, queue: Queue) -> bool:
        return queue in self._queues

    def note(self, queue: Queue, has_failed: bool) -> None:
        """Remember whether the last attempt failed."""
        self._queues.pop(queue, None)
        if has_failed:
            self._queues[queue] = None
            if len(self._queues) > _REMEMBERED:
                self._queues.popitem(last=False)
