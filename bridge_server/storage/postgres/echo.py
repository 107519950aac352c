"""Whether a process hears what it rings itself: a pooler takes LISTEN and forgets it."""

import asyncio

import structlog

from bridge_server.storage.postgres.bell import Bell

_PATIENCE_SECONDS = 2.0

log = structlog.get_logger()


class Echo:
    """The ring that a process asks its bell for, and that its own ear is to hear."""

    def __init__(self, bell: Bell) -> None:
        self._bell = bell
        self._rings_before = 0
        self._asked_at = 0.0
        self.has_come = False
        """Whether the ring was heard since the connection listens."""
        self.is_missing = False
        """Whether the last ring that was asked for was not heard in time."""

    def ask(self) -> None:
        """Have the bell ring: a connection begins to listen."""
        self.has_come = False
        self._rings_before = self._bell.rings
        self._asked_at = asyncio.get_running_loop().time()
        self._bell.prove()

    def came(self) -> bool:
        """Note that the ring was heard. Returns whether it is the first since the connection listens."""
        is_news = not self.has_come
        self.has_come, self.is_missing = True, False
        return is_news

    def examine(self) -> None:
        """Ask for another ring if the ring that was asked for should have been heard by now."""
        if self.has_come or self._bell.rings == self._rings_before:
            return
        if asyncio.get_running_loop().time() - self._asked_at < _PATIENCE_SECONDS:
            return
        if not self.is_missing:
            log.warning("ear_deaf", advice="set database_direct to the address of the database server itself")
        self.is_missing = True
        self.ask()
