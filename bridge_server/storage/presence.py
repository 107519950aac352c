"""Whether the files that are open are still the files at their paths.

What is written to a file that was deleted is gone when the server stops, though no write fails before.
"""

import os
from pathlib import Path
from typing import TypeAlias

import structlog

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.log_file import LogFile

_Identity: TypeAlias = tuple[int, int] | None

_RETRY_AFTER_SECONDS = 30

log = structlog.get_logger()


class Presence:
    """Watches the database file and its log."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._paths: tuple[str, ...] = ()
        self._opened: tuple[_Identity, ...] = ()
        self._is_missing = False

    def remember(self) -> None:
        """The files that are there now are the open ones."""
        files = (self._database, LogFile(self._database).path)
        self._paths = tuple(str(file) for file in files if file.exists())
        self._opened = self._now()

    def require(self) -> None:
        """Raise UnavailableError when one is gone, or another is in its place."""
        if self._now() == self._opened:
            self._is_missing = False
            return
        if not self._is_missing:
            self._is_missing = True
            log.error("database_gone", database=str(self._database), advice="stop the server and restore it")
        raise UnavailableError(
            "Nothing was stored: the database file was deleted or replaced while the server runs. "
            "Its operator must stop the server, put the file back, and start it again.",
            _RETRY_AFTER_SECONDS,
        )

    def _now(self) -> tuple[_Identity, ...]:
        return tuple(map(_identity, self._paths))


def _identity(path: str) -> _Identity:
    try:
        found = os.stat(path)  # noqa: PTH116 - a path object would make it twice as slow
    except OSError:
        return None
    return found.st_dev, found.st_ino
