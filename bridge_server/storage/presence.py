"""The check that the open files are still the files at their paths.

A deleted file takes every write, and is gone when the server stops.
"""

import os
from pathlib import Path

import structlog

from bridge_server.kernel.errors import UnavailableError
from bridge_server.storage.log_file import LogFile

_RETRY_AFTER_SECONDS = 30

log = structlog.get_logger()


class Presence:
    """Watches the database file and its log. It looks after every commit, and so is quick."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self._opened: list[tuple[str, int, int]] = []
        self._is_lost = False

    def remember(self) -> None:
        """Take the files that are there now for the open files."""
        files = (self._database, LogFile(self._database).path)
        self._opened = [
            (str(file), file.stat().st_ino, file.stat().st_dev) for file in files if file.exists()
        ]

    @property
    def size_bytes(self) -> int:
        """The size of the database file; 0 when it is gone."""
        try:
            return self._database.stat().st_size
        except OSError:
            return 0

    def require(self) -> None:
        """Raise UnavailableError when one is gone, or another is in its place."""
        try:
            for path, inode, device in self._opened:
                found = os.stat(path)  # noqa: PTH116 - a path object would make it twice as slow
                if found.st_ino != inode or found.st_dev != device:
                    break
            else:
                self._is_lost = False
                return
        except OSError:
            pass
        self._tell()
        raise UnavailableError(
            "Nothing was stored: the database file was deleted or replaced while the server runs. "
            "Its operator must stop the server, put the file back, and start it again.",
            _RETRY_AFTER_SECONDS,
        )

    def _tell(self) -> None:
        if not self._is_lost:
            self._is_lost = True
            log.error("database_lost", database=str(self._database), advice="stop the server and restore it")
