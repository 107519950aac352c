"""A database as the server opens and watches it, beyond the reads and transactions of the stores."""

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from bridge_server.storage.database import Database


class Engine(Database, Protocol):
    """A database that is opened, closed and watched."""

    def opened(self) -> AbstractAsyncContextManager[None]:
        """Hold it open; on leaving, commit queued transactions and close every connection."""
        ...

    @property
    def last_commit_failed(self) -> bool:
        """Whether the most recent attempt to commit was refused."""
        ...

    @property
    def missing(self) -> Sequence[str]:
        """The reasons why it cannot serve at this moment, for people to read."""
        ...

    @property
    def troubles(self) -> Sequence[str]:
        """Faults that last until an operator mends them, for people to read."""
        ...

    def figures(self) -> Mapping[str, int]:
        """Gauges for the operator: at least its bytes, its commits, and the transactions in them."""
        ...
