"""The last messages that left the server, in memory."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.kernel.signals import Signals
from bridge_server.testmode.models import Sent

MOST_KEPT = 2_000
_KEY = ("test-mode", "sent")


@dataclass(frozen=True, slots=True)
class Wanted:
    """The messages that a test asks for; None stands for any. An account may be given as an address alone."""

    channel: str | None
    topic: str | None
    account: str | None

    def matches(self, sent: Sent) -> bool:
        """Whether the message is one of them."""
        is_wanted = self.channel in (None, sent.channel) and self.topic in (None, sent.topic)
        return is_wanted and (self.account is None or _is_account(sent.account, self.account))


class SentMessages:
    """The newest messages; the oldest go when there are too many."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._kept: deque[Sent] = deque(maxlen=MOST_KEPT)
        self.delivered = 0

    def note(self, sent: Sent) -> None:
        """Keep a message that an attempt to deliver was made for."""
        self._kept.append(sent)
        self.delivered += sent.is_delivered
        self._signals.touch(_KEY)

    async def matching(self, wanted: Wanted, wait_seconds: float) -> Sequence[Sent]:
        """The messages that are wanted, oldest first; with a wait, once there is one."""

        async def read() -> Sequence[Sent] | None:
            return [sent for sent in self._kept if wanted.matches(sent)] or None

        if wait_seconds <= 0:
            return await read() or ()
        return await self._signals.wait_for(_KEY, read, wait_seconds) or ()

    def clear(self) -> int:
        """Forget all messages; returns how many there were."""
        count = len(self._kept)
        self._kept.clear()
        return count


def _is_account(account: str | None, wanted: str) -> bool:
    known = (account or "").lower()
    return known == wanted.lower() or known.endswith(f":{wanted.lower()}")
