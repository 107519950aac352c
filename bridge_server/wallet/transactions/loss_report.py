"""Log lines for transactions that the node has lost: one a minute for each account and reason."""

from collections import Counter

import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.wallet.models import Address

_MINUTE_US = 60_000_000

log = structlog.get_logger()


class LossReport:
    """Writes `transactions_lost`. The count of a line includes all losses since the last line."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._written_at_us: dict[tuple[Address, str], int] = {}
        self._unwritten: Counter[tuple[Address, str]] = Counter()

    def add(self, account: Address, count: int, reason: str) -> None:
        """Count transactions of the account that were lost."""
        key, now_us = (account, reason), self._clock.elapsed_us()
        self._forget_old(now_us)
        self._unwritten[key] += count
        if key not in self._written_at_us:
            self._written_at_us[key] = now_us
            log.warning("transactions_lost", account=account, count=self._unwritten.pop(key), reason=reason)

    def _forget_old(self, now_us: int) -> None:
        while self._written_at_us:
            key, written_at_us = next(iter(self._written_at_us.items()))
            if now_us - written_at_us < _MINUTE_US:
                return
            del self._written_at_us[key]
