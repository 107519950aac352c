"""One message: the attempt to deliver it, the consequences of the outcome, and its record."""

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress

import structlog

from bridge_server.kernel.background import settle
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import DueMessage, GoneHandlers, host_of
from bridge_server.outbox.store import OutboxStore

DELAYS_SECONDS = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
"""The waits after each failed attempt, about 24 hours in all; one more failure is the last."""

_SPREAD = 0.2
_ASKED_LIMIT_SECONDS = 3_600.0
_GATHERED_SECONDS = 0.02
_GATHERED_AT_MOST = 64
_MOST_UNSETTLED = 2_048
MOST_HOSTS = 10_000
KEPT_MS = 30 * 86_400_000
_WORTH_WRITING_MS = 86_400_000
_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

log = structlog.get_logger()


@dataclass(slots=True)
class OutboxFigures:
    """Deliveries and failed attempts since the start."""

    delivered: int = 0
    failed: int = 0


class Delivery:
    """Attempts to deliver messages and records the outcomes."""

    def __init__(
        self,
        store: OutboxStore,
        sender: Sender,
        clock: Clock,
        gone_handlers: GoneHandlers,
        chance: Callable[[], float],
    ) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock
        self._gone_handlers = gone_handlers
        self._chance = chance
        self.settling = _Settling(self._forget)
        self._pauses = Pauses()
        self.known_hosts = KnownHosts()
        self.figures = OutboxFigures()

    async def send(self, due: DueMessage) -> Outcome:
        """Make one attempt. If cancelled, the message stays due."""
        try:
            outcome = await self._sender.send(due.message, self._clock.now_ms())
        except Exception:  # a message that breaks its sender is a failure, and is not tried again at once
            log.exception("webhook_attempt_broke", destination=due.message.destination)
            return Outcome(Verdict.FAILED, "the attempt broke")
        self._note_pause(due, outcome)
        return outcome

    def pause_left_ms(self, destination: str) -> int:
        """The rest of the pause that the service asked for, for this destination; 0 when there is none."""
        return -(-self._pauses.left_us(destination, self._clock.elapsed_us()) // 1_000)

    def resting(self) -> set[str]:
        """The destinations for which their services want no message now."""
        return self._pauses.resting(self._clock.elapsed_us())

    def delivered(self, due: DueMessage) -> asyncio.Future[None]:
        """Store that the receiver took it; the future is done once that is stored."""
        host = host_of(due.message.destination)
        if host:
            self.known_hosts.answered(host)
        return self.settling.delivered(due)

    async def failed(self, due: DueMessage, outcome: Outcome) -> int | None:
        """Store the outcome of a failed attempt, unless its channel is blocked; the next one's time."""
        if outcome.verdict is Verdict.BLOCKED:
            return None
        self.figures.failed += 1
        if outcome.verdict is Verdict.GONE:
            await self._forget_receiver(due)
        delay_ms, silent = None, None
        if outcome.verdict is Verdict.FAILED:
            delay_ms = next_delay_ms(due.attempts + 1, self._chance(), outcome.retry_after_seconds)
            host = host_of(due.message.destination)
            silent = host if self.known_hosts.failed(host) else None
        if delay_ms is None:
            await self._give_up(due, outcome, silent)
            return None
        return await self._postpone(due, outcome, delay_ms, silent)

    def _note_pause(self, due: DueMessage, outcome: Outcome) -> None:
        asked = outcome.retry_after_seconds
        if outcome.verdict is not Verdict.FAILED or not outcome.about_lane or not asked:
            return
        wait_ms = pause_ms(asked)
        destination = due.message.destination
        if not self.pause_left_ms(destination):  # else another attempt of that moment has logged it
            seconds = wait_ms // 1_000
            log.warning("webhooks_paused", destination=destination, seconds=seconds, reason=outcome.reason)
        self._pauses.put(destination, self._clock.elapsed_us() + wait_ms * 1_000)

    async def _forget(self, delivered: Sequence[DueMessage]) -> None:
        now_ms = self._clock.now_ms()
        hosts = self.known_hosts.to_write((host_of(due.message.destination) for due in delivered), now_ms)
        await _persist(lambda: self._store.delete_delivered(delivered, now_ms, hosts))
        self.known_hosts.written(hosts, now_ms)
        self.figures.delivered += len(delivered)

    async def _postpone(self, due: DueMessage, outcome: Outcome, delay_ms: int, silent: str | None) -> int:
        now_ms = self._clock.now_ms()
        next_attempt_at_ms = now_ms + delay_ms
        log.info(
            "webhook_failed", destination=due.message.destination, message_id=due.message.message_id,
            attempt=due.attempts + 1, next_attempt_seconds=delay_ms // 1_000, reason=outcome.reason,
        )  # fmt: skip
        await _persist(lambda: self._store.postpone(due, next_attempt_at_ms, outcome.reason, now_ms, silent))
        return next_attempt_at_ms

    async def _give_up(self, due: DueMessage, outcome: Outcome, silent: str | None) -> None:
        died_at_ms = self._clock.now_ms()
        log.warning(
            "webhook_dead_letter", destination=due.message.destination, message_id=due.message.message_id,
            attempts=due.attempts + 1, reason=outcome.reason,
        )  # fmt: skip
        await _persist(lambda: self._store.bury(due, died_at_ms, outcome.reason, silent))

    async def _forget_receiver(self, due: DueMessage) -> None:
        message, destination = due.message, due.message.destination
        forget = self._gone_handlers.get(message.purpose)
        if forget is None:
            log.warning("webhook_gone_unknown_purpose", purpose=message.purpose, destination=destination)
            return
        try:
            await forget(message)
        except Exception:  # the message is settled whatever becomes of its registration
            log.exception("webhook_gone_not_handled", destination=destination)


async def _persist(write: Callable[[], Awaitable[None]]) -> None:
    """Write until it is stored: otherwise the receiver would be sent a message again that it has already."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            await write()
            return
        except UnavailableError as error:
            log.warning("webhook_outcome_not_stored", reason=error.detail, next_try_seconds=pause_seconds)
        except Exception:
            log.exception("webhook_outcome_not_stored", next_try_seconds=pause_seconds)
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)


def next_delay_ms(attempts: int, chance: float, asked_seconds: float | None = None) -> int | None:
    """Milliseconds to wait after the failed attempt number `attempts`, or None when it was the last.

    `chance` in [0, 1) spreads the delay by a fifth to either side, so that messages that failed together are
    not retried together. A receiver that asks for time gets it, up to an hour; its wish never shortens the
    delay, which would use the attempts up within minutes.
    """
    if attempts > len(DELAYS_SECONDS):
        return None
    planned = DELAYS_SECONDS[attempts - 1] * (1 - _SPREAD + 2 * _SPREAD * chance)
    asked = min((asked_seconds or 0.0) * (1 + _SPREAD * chance), _ASKED_LIMIT_SECONDS)
    return round(max(planned, asked) * 1_000)


def pause_ms(asked_seconds: float) -> int:
    """The milliseconds of a pause that a service asked for: up to an hour."""
    return round(min(asked_seconds, _ASKED_LIMIT_SECONDS) * 1_000)


class Pauses:
    """Destinations that are left alone on request, in memory, until an elapsed time in microseconds."""

    def __init__(self) -> None:
        self._until_us: dict[str, int] = {}

    def put(self, destination: str, until_us: int) -> None:
        """Let the destination rest until then; a later end that is known already stays."""
        self._until_us[destination] = max(until_us, self._until_us.get(destination, until_us))

    def left_us(self, destination: str, elapsed_us: int) -> int:
        """The rest of the destination's pause; 0 once it is over, and the pause is deleted then."""
        left_us = self._until_us.get(destination, elapsed_us) - elapsed_us
        if left_us <= 0:
            self._until_us.pop(destination, None)
            return 0
        return left_us

    def resting(self, elapsed_us: int) -> set[str]:
        """The destinations whose pause is not over."""
        return {destination for destination, until_us in self._until_us.items() if until_us > elapsed_us}


class _Settling:
    """Deletes delivered messages from the outbox: the deliveries of a moment in one transaction. A commit for
    each would cost more than its delivery, and delay every other write. If the server crashes before, the
    message is sent once more, under its message id. `forget` returns once the messages are deleted durably.
    """

    def __init__(self, forget: Callable[[Sequence[DueMessage]], Awaitable[None]]) -> None:
        self._forget = forget
        self._waiting: list[tuple[DueMessage, asyncio.Future[None]]] = []
        self._enough = asyncio.Event()
        self._work: asyncio.Task[None] | None = None
        self._unsettled = 0
        self._caught_up = asyncio.Event()
        self._caught_up.set()

    def delivered(self, due: DueMessage) -> asyncio.Future[None]:
        """Delete the message soon; the future is done once it is deleted."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((due, done))
        self._unsettled += 1
        if len(self._waiting) == _GATHERED_AT_MOST:
            self._enough.set()
        if self._unsettled == _MOST_UNSETTLED:
            self._caught_up.clear()
        if self._work is None:
            self._work = asyncio.create_task(self._forget_until_idle())
        return done

    @property
    def is_behind(self) -> bool:
        """Whether too many deliveries wait to be recorded for new ones to begin."""
        return self._unsettled >= _MOST_UNSETTLED

    async def caught_up(self) -> None:
        """Return once few enough deliveries wait to be recorded."""
        if self.is_behind:
            await self._caught_up.wait()

    async def idle(self) -> None:
        """Return once every delivery is recorded."""
        if self._work is not None:
            await asyncio.wait([self._work])

    async def close(self) -> None:
        """Give up recording: a message whose delivery is not recorded by now stays due."""
        if self._work is not None:
            self._work.cancel()
            await asyncio.wait([self._work])

    async def _forget_until_idle(self) -> None:
        try:
            while self._waiting:
                with suppress(TimeoutError):
                    async with asyncio.timeout(_GATHERED_SECONDS):
                        await self._enough.wait()
                self._enough.clear()
                batch, self._waiting = self._waiting, []
                await self._forget([due for due, _ in batch])
                self._unsettled -= len(batch)
                if not self.is_behind:
                    self._caught_up.set()
                for _, done in batch:
                    settle(done, None)
        finally:
            self._work = None


class KnownHosts:
    """The hosts that took their last message, the most recent ones: they have places of their own."""

    def __init__(self) -> None:
        self._written_at_ms: OrderedDict[str, int] = OrderedDict()

    def restore(self, hosts: Iterable[tuple[str, int]]) -> None:
        """Take over the hosts that were written before a restart, latest first."""
        for host, answered_at_ms in reversed(list(hosts)):
            self._written_at_ms[host] = answered_at_ms

    def __contains__(self, host: str) -> bool:
        return host in self._written_at_ms

    def answered(self, host: str) -> None:
        """Note that the host took a message."""
        self._written_at_ms.setdefault(host, 0)
        self._written_at_ms.move_to_end(host)
        if len(self._written_at_ms) > MOST_HOSTS:
            self._written_at_ms.popitem(last=False)

    def failed(self, host: str) -> bool:
        """Note that the host did not take a message; returns whether the store has it as answering."""
        return bool(self._written_at_ms.pop(host, 0))

    def to_write(self, hosts: Iterable[str], now_ms: int) -> list[str]:
        """The hosts whose answers were never written, or were written long ago."""
        latest_ms = now_ms - _WORTH_WRITING_MS
        return [host for host in dict.fromkeys(hosts) if self._written_at_ms.get(host, now_ms) < latest_ms]

    def written(self, hosts: Iterable[str], now_ms: int) -> None:
        """Note that the answers of these hosts are written."""
        for host in hosts:
            if host in self._written_at_ms:
                self._written_at_ms[host] = now_ms
