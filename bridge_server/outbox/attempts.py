"""The last attempts to deliver, and counts of outcomes: in memory, where an operator can look."""

from collections import Counter, deque
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from time import perf_counter

from bridge_server.kernel.clock import Clock
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import PUBLIC_MARK, OutgoingMessage, Purpose
from bridge_server.outgoing.outcome import Outcome

MOST_ATTEMPTS = 500
LARGEST_BODY_BYTES = 16 * 1024
"""The longest body that is kept."""
WEBHOOK_CHANNEL = "webhook"
WEBHOOK_OF_A_DEVICE = "webhook-push"

_WEB_SCHEMES = ("", "http", "https")


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt to deliver a message, and its outcome. `body` is kept in test mode only."""

    number: int
    at_ms: int
    message_id: str
    purpose: Purpose
    channel: str
    destination: str
    subject: str | None
    outcome: Outcome
    milliseconds: float
    body: bytes | None = field(default=None, repr=False)


class AttemptLog:
    """The newest attempts; the oldest go when there are too many.

    `pushes` are the purposes of messages for devices, for which webhooks may stand.
    """

    def __init__(self, clock: Clock, pushes: Collection[Purpose] = (), *, keeps_bodies: bool = False) -> None:
        self._clock = clock
        self._pushes = pushes
        self._keeps_bodies = keeps_bodies
        self._kept: deque[DeliveryAttempt] = deque(maxlen=MOST_ATTEMPTS)
        self._outcomes: dict[str, Counter[str]] = {}
        self._last_number = 0
        self._listeners: list[Callable[[], None]] = []

    @property
    def outcomes(self) -> Mapping[str, Mapping[str, int]]:
        """The number of attempts since the start, by channel and outcome."""
        return self._outcomes

    def on_attempt(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each attempt."""
        self._listeners.append(listener)

    def note(self, message: OutgoingMessage, outcome: Outcome, milliseconds: float) -> None:
        """Keep an attempt that took so long."""
        self._last_number += 1
        channel = self._channel(message)
        keeps_body = self._keeps_bodies and len(message.body) <= LARGEST_BODY_BYTES
        self._kept.append(
            DeliveryAttempt(
                self._last_number,
                self._clock.now_ms(),
                message.message_id,
                message.purpose,
                channel,
                message.destination,
                message.subject,
                outcome,
                milliseconds,
                message.body if keeps_body else None,
            )
        )
        self._outcomes.setdefault(channel, Counter())[outcome.verdict.name.lower()] += 1
        for listener in self._listeners:
            listener()

    def before(self, number: int | None) -> Iterator[DeliveryAttempt]:
        """The attempts with lower numbers, all of them for None, newest first."""
        return (each for each in reversed(self._kept) if number is None or each.number < number)

    def find(self, number: int) -> DeliveryAttempt | None:
        """The attempt of this number, if it is still kept."""
        return next((each for each in self._kept if each.number == number), None)

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self._outcomes.clear()

    def _channel(self, message: OutgoingMessage) -> str:
        channel = message.channel.removeprefix(PUBLIC_MARK)
        if channel not in _WEB_SCHEMES:
            return channel
        return WEBHOOK_OF_A_DEVICE if message.purpose in self._pushes else WEBHOOK_CHANNEL


class NotedSender:
    """Sends through the sender, and notes each attempt, but none by an `inner` channel."""

    def __init__(self, sender: Sender, attempts: AttemptLog, inner: frozenset[str] = frozenset()) -> None:
        self._sender = sender
        self._attempts = attempts
        self._inner = inner

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once."""
        started = perf_counter()
        outcome = await self._sender.send(message, now_ms)
        if message.channel not in self._inner:
            self._attempts.note(message, outcome, (perf_counter() - started) * 1_000)
        return outcome
