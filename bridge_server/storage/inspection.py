"""The state of a database file, read beside a running server."""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from bridge_server.storage.backup import read_only
from bridge_server.storage.log_file import LogFile
from bridge_server.storage.migrate import schema_version

_WHOLE_CHECK_BYTES = 2**30
"""The largest file that is checked wholly. Comparing the indexes of a larger one would take minutes."""


class InspectionError(Exception):
    """The file cannot be read. The text names the reason."""


@dataclass(frozen=True, slots=True)
class Inspected:
    """A database; `damage` is None if it is whole, and `used_bytes` is what a limit would count."""

    size_bytes: int
    log_bytes: int
    used_bytes: int
    schema: int
    damage: str | None


def inspected(file: Path) -> Inspected:
    """Read and check a database. Raises InspectionError."""
    try:
        with closing(read_only(file)) as connection:
            return _read(file, connection)
    except (sqlite3.Error, OSError) as error:
        raise InspectionError(str(error)) from error


def _read(file: Path, connection: sqlite3.Connection) -> Inspected:
    size, log_bytes = file.stat().st_size, LogFile(file).size_bytes
    check = "integrity_check(1)" if size < _WHOLE_CHECK_BYTES else "quick_check(1)"
    page, pages, free, verdict = (
        connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("page_size", "page_count", "freelist_count", check)
    )
    damage = None if verdict == "ok" else " ".join(verdict.split())
    used = (pages - free) * page + log_bytes
    return Inspected(size, log_bytes, used, schema_version(connection), damage)
