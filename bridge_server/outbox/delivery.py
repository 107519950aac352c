"""What happens to one message: an attempt, what follows from it, and the record of it."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import DueMessage, Outcome, OutgoingMessage, Verdict
from bridge_server.outbox.retry import next_delay_ms
from bridge_server.outbox.store import OutboxStore

_FIRST_PAUSE_SECONDS = 0.5
_LONGEST_PAUSE_SECONDS = 30.0

log = structlog.get_logger()


@dataclass(slots=True)
class Figures:
    """Messages owed, dead letters kept; deliveries and failed attempts since the start."""

    due: int = 0
    dead: int = 0
    delivered: int = 0
    failed: int = 0


class Delivery:
    """Attempts messages and records what came of it."""

    def __init__(
        self,
        store: OutboxStore,
        sender: Sender,
        clock: Clock,
        on_gone: Callable[[OutgoingMessage], Awaitable[None]],
        chance: Callable[[], float],
    ) -> None:
        self._store = store
        self._sender = sender
        self._clock = clock
        self._on_gone = on_gone
        self._chance = chance
        self.figures = Figures()

    async def attempt(self, due: DueMessage) -> Verdict:
        """Make one attempt; returns once what came of it is stored. If cancelled, the message stays due."""
        outcome = await self._sender.send(due.message, self._clock.now_ms())
        if outcome.verdict is Verdict.DELIVERED:
            await _persist(lambda: self._store.delete_delivered(due))
            self.figures.delivered += 1
            self.figures.due -= 1
            return outcome.verdict
        self.figures.failed += 1
        if outcome.verdict is Verdict.GONE:
            await self._tell_gone(due)
        delay_ms = self._delay_ms(due, outcome)
        if delay_ms is None:
            await self._give_up(due, outcome)
        else:
            await self._postpone(due, outcome, delay_ms)
        return outcome.verdict

    def _delay_ms(self, due: DueMessage, outcome: Outcome) -> int | None:
        if outcome.verdict is not Verdict.FAILED:
            return None
        return next_delay_ms(due.attempts + 1, self._chance(), outcome.retry_after_seconds)

    async def _postpone(self, due: DueMessage, outcome: Outcome, delay_ms: int) -> None:
        next_attempt_at_ms = self._clock.now_ms() + delay_ms
        log.info(
            "webhook_failed",
            destination=due.message.destination,
            message_id=due.message.message_id,
            attempt=due.attempts + 1,
            next_attempt_seconds=delay_ms // 1_000,
            reason=outcome.reason,
        )
        await _persist(lambda: self._store.postpone(due, next_attempt_at_ms, outcome.reason))

    async def _give_up(self, due: DueMessage, outcome: Outcome) -> None:
        died_at_ms = self._clock.now_ms()
        log.warning(
            "webhook_dead_letter",
            destination=due.message.destination,
            message_id=due.message.message_id,
            attempts=due.attempts + 1,
            reason=outcome.reason,
        )
        await _persist(lambda: self._store.bury(due, died_at_ms, outcome.reason))
        self.figures.due -= 1
        self.figures.dead += 1

    async def _tell_gone(self, due: DueMessage) -> None:
        try:
            await self._on_gone(due.message)
        except Exception:  # the message is settled whatever becomes of its registration
            log.exception("webhook_gone_not_handled", destination=due.message.destination)


async def _persist(write: Callable[[], Awaitable[None]]) -> None:
    """Write until it is stored: to give up would mean to send again what the receiver has already."""
    pause_seconds = _FIRST_PAUSE_SECONDS
    while True:
        try:
            await write()
        except UnavailableError as error:
            log.warning("webhook_outcome_not_stored", reason=error.detail, next_try_seconds=pause_seconds)
        except Exception:
            log.exception("webhook_outcome_not_stored", next_try_seconds=pause_seconds)
        else:
            return
        await asyncio.sleep(pause_seconds)
        pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
