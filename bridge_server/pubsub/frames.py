"""Calls of sockets in the record of requests: a line for each, with short topics and no payload."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import BridgeError
from bridge_server.outbox.topics import Topic
from bridge_server.web.problems import status_of
from bridge_server.web.traffic import Exchange, TrafficLog

_SHORT = 8
_LONGEST_NAME = 40
_STORED = 200

CallOver: TypeAlias = Callable[[BridgeError | None], None]
"""Called when a call is over, with the reason why it was refused."""


class Frames:
    """Records the calls of sockets of one generation, which stands in the place of a method. Where the
    database `is_shared`, another process may have the receiver of a message.
    """

    def __init__(self, traffic: TrafficLog, clock: Clock, generation: str, *, is_shared: bool) -> None:
        self._traffic = traffic
        self._clock = clock
        self._generation = generation
        self._absent = "stored" if is_shared else "waiting"

    def outcome(self, *, has_receiver: bool) -> str:
        """The word for a message that has a receiver in this process, or none."""
        return "delivered" if has_receiver else self._absent

    def note(
        self, call: str, about: str, refused: BridgeError | None = None, began_us: int | None = None
    ) -> None:
        """Record a call that is over. `about` says what it carried and where to."""
        took_us = 0 if began_us is None else self._clock.elapsed_us() - began_us
        took_ms, name = round(took_us / 1_000, 1), call[:_LONGEST_NAME]
        status = _STORED if refused is None else status_of(refused)
        summary = f"{name}, {about}" if refused is None else f"{name}: {refused.detail}"
        self._traffic.note(Exchange("client", self._generation, "/", name, status, took_ms, summary=summary))

    def following(self, call: str, about: str, done: CallOver) -> CallOver:
        """`done`, which records the call, too."""
        began_us = self._clock.elapsed_us()

        def over(refused: BridgeError | None) -> None:
            self.note(call, about, refused, began_us)
            done(refused)

        return over


def short_topics(topics: Iterable[Topic]) -> str:
    """The topics by their first characters; of many, their number."""
    named = list(topics)
    if len(named) != 1:
        return f"{len(named)} topics"
    (topic,) = named
    return f"topic {topic}" if len(topic) <= _SHORT else f"topic {topic[:_SHORT]}…"
