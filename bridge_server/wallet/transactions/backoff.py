"""The pause of a transaction before its next attempt: doubled each time, at most a minute."""

from dataclasses import dataclass

from bridge_server.kernel.clock import Clock
from bridge_server.wallet.models import TransactionId

_FIRST_DELAY_MS = 1_000
_LONGEST_DELAY_MS = 60_000
_MOST_DOUBLINGS = 6
_CALM_US = 600_000_000
"""A node that has dropped nothing for so long is trusted again."""


def delay_ms(attempts: int) -> int:
    """The delay after this number of attempts that did not reach the node."""
    return min(_LONGEST_DELAY_MS, _FIRST_DELAY_MS << min(attempts, _MOST_DOUBLINGS))


@dataclass(frozen=True, slots=True)
class _Drop:
    """The number of drops of a transaction, and the time of the next broadcast, of time elapsed."""

    times: int
    due_at_us: int


class DropPauses:
    """Pauses before a transaction which the node took and dropped is broadcast again.

    The first broadcast comes at once, since a node that was restarted needs it. A node that drops the
    transaction again gets it after growing pauses. They are in memory: a restart costs one broadcast.
    """

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._drops: dict[TransactionId, _Drop] = {}  # the longest paused first

    def add(self, transaction_id: TransactionId) -> int:
        """Note that the node has dropped it; returns in how many milliseconds the next broadcast is due."""
        now_us = self._clock.elapsed_us()
        self._forget_old(now_us)
        before = self._drops.pop(transaction_id, None)
        times, due_at_us = 1, now_us
        if before is not None:
            times = before.times + 1
            due_at_us = max(now_us, before.due_at_us + delay_ms(before.times - 1) * 1_000)
        self._drops[transaction_id] = _Drop(times, due_at_us)
        return -((now_us - due_at_us) // 1_000)

    def is_paused(self, transaction_id: TransactionId) -> bool:
        """Whether the transaction must not be broadcast yet."""
        drop = self._drops.get(transaction_id)
        return drop is not None and self._clock.elapsed_us() < drop.due_at_us

    def _forget_old(self, now_us: int) -> None:
        while self._drops:
            transaction_id, drop = next(iter(self._drops.items()))
            if now_us - drop.due_at_us < _CALM_US:
                return
            del self._drops[transaction_id]
