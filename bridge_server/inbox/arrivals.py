"""Wake-ups of long polls and streams when notifications are delivered to inboxes."""

from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

from bridge_server.kernel.signals import Key, Signals

Value = TypeVar("Value")

Listener: TypeAlias = Callable[[AbstractSet[int]], None]
"""Called with the numbers of the accounts that have a new notification."""

_WAITING = "inbox"


class Arrivals:
    """The listeners and the waiting readers of all inboxes.

    A call to notify can reach hundreds of accounts, of which few wait: only the waiting ones are touched.
    """

    def __init__(self, signals: Signals) -> None:
        self._signals = signals
        self._waiting: Counter[int] = Counter()
        self._listeners: list[Listener] = []

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every delivery."""
        self._listeners.append(listener)

    async def wait_for(
        self, account: int, read: Callable[[], Awaitable[Value | None]], wait_seconds: float
    ) -> Value | None:
        """The result of `read`, now or after a delivery; None if there is none within `wait_seconds`."""
        self._waiting[account] += 1
        try:
            return await self._signals.wait_for(_key(account), read, wait_seconds)
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]

    def arrived(self, accounts: Iterable[int]) -> None:
        """Call the listeners, and wake the readers of these accounts that wait."""
        numbers = frozenset(accounts)
        for listener in self._listeners:
            listener(numbers)
        for account in numbers & self._waiting.keys():
            self._signals.touch(_key(account))


def _key(account: int) -> Key:
    return _WAITING, str(account)
