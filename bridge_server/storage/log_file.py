"""The write-ahead log as a file beside the database."""

from pathlib import Path
from typing import NamedTuple


class LogState(NamedTuple):
    """The file's size, and the time of its last change."""

    size_bytes: int
    written_at_ns: int


class LogFile:
    """The log of a database, which may have none."""

    def __init__(self, database: Path) -> None:
        self.path = database.with_name(f"{database.name}-wal")

    @property
    def state(self) -> LogState:
        """The file as it is now."""
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return LogState(0, 0)
        return LogState(found.st_size, found.st_mtime_ns)

    @property
    def size_bytes(self) -> int:
        """The file's size; 0 when there is none."""
        return self.state.size_bytes
