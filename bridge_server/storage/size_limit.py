"""The limit on a database's size: a database over it refuses transactions that add data.

Free pages inside the file do not count, since they are reused before the file grows.
"""

import sqlite3
from collections.abc import Callable
from functools import partial
from time import monotonic

import structlog

from bridge_server.storage.database import Result, Transaction
from bridge_server.storage.failures import DatabaseFullError
from bridge_server.storage.log_file import LogFile

_LOG_AGAIN_SECONDS = 60.0  # a database near its limit crosses it many times

log = structlog.get_logger()


class SizeLimit:
    """Compares the bytes in use with `limit_bytes`; without a limit nothing is measured."""

    def __init__(self, limit_bytes: int | None, log_file: LogFile) -> None:
        self.limit_bytes = limit_bytes
        self._log_file = log_file
        self._page_bytes = 0
        self.used_bytes = 0
        self.is_full = False
        self._logged_at = -_LOG_AGAIN_SECONDS

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit at all."""
        return self.limit_bytes is not None

    def require(self) -> None:
        """Raise DatabaseFullError if the database is over its limit."""
        if self.is_full:
            assert self.limit_bytes is not None
            raise DatabaseFullError(self.limit_bytes)

    def guarding(self, begin: Callable[[], Transaction[Result]]) -> Callable[[], Transaction[Result]]:
        """The transaction, which checks the limit again when it runs: others may have filled the database."""
        return partial(self._checked, begin)

    def _checked(self, begin: Callable[[], Transaction[Result]]) -> Transaction[Result]:
        self.require()
        return (yield from begin())

    def measure(self, connection: sqlite3.Connection) -> None:
        """Measure the bytes in use; called in the connection's thread."""
        if self.limit_bytes is None:
            return
        if not self._page_bytes:
            self._page_bytes = connection.execute("PRAGMA page_size").fetchone()[0]
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        free = connection.execute("PRAGMA freelist_count").fetchone()[0]
        self.used_bytes = (pages - free) * self._page_bytes + self._log_file.size_bytes
        was_full, self.is_full = self.is_full, self.used_bytes > self.limit_bytes
        if self.is_full and not was_full:
            self._log()

    def figures(self) -> dict[str, int]:
        """Gauges for the operator; none without a limit."""
        if self.limit_bytes is None:
            return {}
        return {"used_bytes": self.used_bytes, "limit_bytes": self.limit_bytes}

    def _log(self) -> None:
        now = monotonic()
        if now - self._logged_at < _LOG_AGAIN_SECONDS:
            return
        self._logged_at = now
        log.warning(
            "database_full", used_bytes=self.used_bytes, database_limit=self.limit_bytes,
            advice="what would add to it is refused: raise database_limit, lower lifetimes such as call_ttl, "
            "or wait until something expires",
        )  # fmt: skip
