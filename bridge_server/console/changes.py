"""Live pages: streams of server-sent events name the topics that have changed since a page was made.

A browser then loads its page again. So a stream carries no data, and a thousand changes in a second are one
event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.web.event_stream import KEEP_ALIVE, EventStream

MOST_WATCHES = 64
_GATHERING_SECONDS = 0.5
_KEEP_ALIVE_SECONDS = 15.0


class PageChanges:
    """The number of each topic's last change. Numbers grow, also from one run of the server to the next."""

    def __init__(self, first_number: int, topics: Sequence[str]) -> None:
        self.number = first_number
        self._last = dict.fromkeys(topics, first_number)
        self._watches: dict[Watch, None] = {}
        self._is_over = False

    def follow(
        self, events: Events, topics: Mapping[str, Sequence[type[DomainEvent]]], everything: type[DomainEvent]
    ) -> None:
        """Note the changes that commits announce, in any process; an event of type `everything` changes every
        topic.
        """
        for topic, kinds in topics.items():
            for kind in kinds:
                events.subscribe(kind, self._noting(topic), everywhere=True)
            events.subscribe(everything, self._noting(topic))
            events.on_gap(partial(self.note, topic))

    def note(self, topic: str) -> None:
        """Count a change of the topic."""
        self.number += 1
        self._last[topic] = self.number
        for watch in self._watches:
            watch.wake()

    def watch(self, topics: Sequence[str], since: int, lasts: Callable[[], Awaitable[bool]]) -> "Watch":
        """A stream of the changes of these topics after the number `since`, as long as the session `lasts`.

        The oldest stream ends when there are too many.
        """
        if len(self._watches) >= MOST_WATCHES:
            next(iter(self._watches)).end()
        watch = Watch(self, [topic for topic in topics if topic in self._last], since, lasts)
        self._watches[watch] = None
        if self._is_over:
            watch.end()
        return watch

    def changed(self, topics: Sequence[str], since: int) -> list[str]:
        """The topics among these that have changed after that number."""
        return [topic for topic in topics if self._last[topic] > since]

    def is_watched(self, topic: str) -> bool:
        """Whether an open page waits for changes of the topic."""
        return any(topic in watch.topics for watch in self._watches)

    def leave(self, watch: "Watch") -> None:
        """Forget a stream."""
        self._watches.pop(watch, None)

    def end(self) -> None:
        """End every stream: the server stops."""
        self._is_over = True
        for watch in list(self._watches):
            watch.end()

    def _noting(self, topic: str) -> Callable[[DomainEvent], None]:
        return lambda _: self.note(topic)


class Watch:
    """The stream of one open page."""

    def __init__(
        self, changes: PageChanges, topics: Sequence[str], since: int, lasts: Callable[[], Awaitable[bool]]
    ) -> None:
        self._changes = changes
        self.topics = topics
        self._since = since
        self._lasts = lasts
        self._changed = asyncio.Event()
        self._ended = asyncio.Event()

    async def flow(self, outlet: EventStream) -> None:
        """Write an event for each topic that has changed, until the page or the session is gone."""
        while not self._ended.is_set():
            self._changed.clear()
            topics, number = self._changes.changed(self.topics, self._since), self._changes.number
            if topics:
                self._since = number
                await outlet.write(b"".join(_event(topic, number) for topic in topics))
                await self._rest()
            elif not await self._is_woken():
                if not await self._lasts():
                    return
                await outlet.write(KEEP_ALIVE)

    def wake(self) -> None:
        """Have the stream look again: a topic has changed."""
        self._changed.set()

    def end(self) -> None:
        """Write no more events."""
        self._ended.set()
        self._changed.set()

    def leave(self) -> None:
        """Leave the streams: this one is over, or never began."""
        self._changes.leave(self)

    async def _rest(self) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._ended.wait(), _GATHERING_SECONDS)

    async def _is_woken(self) -> bool:
        try:
            await asyncio.wait_for(self._changed.wait(), _KEEP_ALIVE_SECONDS)
        except TimeoutError:
            return False
        return True


def _event(topic: str, number: int) -> bytes:
    return f"id: {number}\nevent: changed-{topic}\ndata: {number}\n\n".encode()
