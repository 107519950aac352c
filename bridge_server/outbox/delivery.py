"""One message: the attempt to deliver it, the consequences of the outcome, and its record."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.known_hosts import KnownHosts
from bridge_server.outbox.models import DueMessage, GoneHandlers, host_of
from bridge_server.outbox.pauses import Pauses
from bridge_server.outbox.retry import next_delay_ms, pause_ms
from bridge_server.outbox.settling import Settling
from bridge_server.outbox.store import OutboxStore
from bridge_server.outgoing.outcome import Outcome, Verdict

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
        self._settling = Settling(self._forget)
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
        return self._settling.delivered(due)

    async def failed(self, due: DueMessage, outcome: Outcome) -> int | None:
        """Store the outcome of an attempt that failed; returns when the next attempt is due, if there is one.

        If the channel is blocked, there is nothing to store: the message stays as it was.
        """
        if outcome.verdict is Verdict.BLOCKED:
            return None
        self.figures.failed += 1
        if outcome.verdict is Verdict.GONE:
            await self._forget_receiver(due)
        delay_ms = self._delay_ms(due, outcome)
        silent = self._silent_host(due, outcome)
        if delay_ms is None:
            await self._give_up(due, outcome, silent)
            return None
        return await self._postpone(due, outcome, delay_ms, silent)

    async def caught_up(self) -> None:
        """Return once few enough deliveries wait to be stored."""
        if self._settling.is_behind:
            await self._settling.caught_up()

    async def idle(self) -> None:
        """Return once every delivery is stored."""
        await self._settling.idle()

    async def close(self) -> None:
        """Give up storing: a message whose delivery is not stored by now stays due."""
        await self._settling.close()

    def _silent_host(self, due: DueMessage, outcome: Outcome) -> str | None:
        """The host, if it did not answer although the store has it as answering."""
        host = host_of(due.message.destination)
        return host if outcome.verdict is Verdict.FAILED and self.known_hosts.failed(host) else None

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

    def _delay_ms(self, due: DueMessage, outcome: Outcome) -> int | None:
        if outcome.verdict is not Verdict.FAILED:
            return None
        return next_delay_ms(due.attempts + 1, self._chance(), outcome.retry_after_seconds)

    async def _postpone(self, due: DueMessage, outcome: Outcome, delay_ms: int, silent: str | None) -> int:
        now_ms = self._clock.now_ms()
        next_attempt_at_ms = now_ms + delay_ms
        log.info(
            "webhook_failed",
            destination=due.message.destination,
            message_id=due.message.message_id,
            attempt=due.attempts + 1,
            next_attempt_seconds=delay_ms // 1_000,
            reason=outcome.reason,
        )
        await _persist(lambda: self._store.postpone(due, next_attempt_at_ms, outcome.reason, now_ms, silent))
        return next_attempt_at_ms

    async def _give_up(self, due: DueMessage, outcome: Outcome, silent: str | None) -> None:
        died_at_ms = self._clock.now_ms()
        log.warning(
            "webhook_dead_letter",
            destination=due.message.destination,
            message_id=due.message.message_id,
            attempts=due.attempts + 1,
            reason=outcome.reason,
        )
        await _persist(lambda: self._store.bury(due, died_at_ms, outcome.reason, silent))

    async def _forget_receiver(self, due: DueMessage) -> None:
        message = due.message
        forget = self._gone_handlers.get(message.purpose)
        if forget is None:
            log.warning(
                "webhook_gone_unknown_purpose", purpose=message.purpose, destination=message.destination
            )
            return
        try:
            await forget(message)
        except Exception:  # the message is settled whatever becomes of its registration
            log.exception("webhook_gone_not_handled", destination=message.destination)


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
