"""From «something came into these inboxes» to whoever waits for that."""

from collections import Counter
from collections.abc import Awaitable, Callable
from collections.abc import Set as AbstractSet
from typing import TypeAlias, TypeVar

import orjson

from bridge_server.kernel.signals import Key, Signals

Value = TypeVar("Value")

Listener: TypeAlias = Callable[[AbstractSet[int]], None]
"""Told the numbers of the accounts that something has come for."""

_WAITING = "inbox"


class Arrivals:
    """Listens to keys of one kind, whose ids are JSON arrays of accounts' numbers.

    One call to notify reaches hundreds of accounts, of which few wait at any moment: only those are touched.
    """

    def __init__(self, signals: Signals, kind: str) -> None:
        self._signals = signals
        self._kind = kind
        self._waiting: Counter[int] = Counter()
        self._listeners: list[Listener] = []
        signals.listen(self._notice)

    def listen(self, listener: Listener) -> None:
        """Call `listener` at every arrival."""
        self._listeners.append(listener)

    async def wait_for(
        self, account: int, read: Callable[[], Awaitable[Value | None]], wait_seconds: float
    ) -> Value | None:
        """What `read` finds, now or after an arrival; None when it finds nothing within `wait_seconds`."""
        self._waiting[account] += 1
        try:
            return await self._signals.wait_for(_key(account), read, wait_seconds)
        finally:
            self._waiting[account] -= 1
            if not self._waiting[account]:
                del self._waiting[account]

    def _notice(self, key: Key) -> None:
        if key[0] != self._kind:
            return
        accounts = frozenset(orjson.loads(key[1]))
        for listener in self._listeners:
            listener(accounts)
        for account in accounts & self._waiting.keys():
            self._signals.touch(_key(account))


def _key(account: int) -> Key:
    return _WAITING, str(account)
