"""The audit log read from its end, page by page, and never more than a part of it."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from bridge_server.kernel.errors import UnavailableError

MOST_BYTES = 2**20
"""The most bytes of the file that are read for one page."""

_BLOCK_BYTES = 2**16


@dataclass(frozen=True, slots=True)
class AuditPage:
    """Lines of the log, newest first, as they were written.

    `rest` is the place in the file before which more lines stand, None at its beginning.
    """

    entries: Sequence[dict[str, Any]]
    rest: int | None


def read_history(path: Path, before: int | None, limit: int, most_bytes: int = MOST_BYTES) -> AuditPage:
    """The last lines of the file, or of its first `before` bytes. It blocks: call it in a thread.

    A line that was not written whole is left out. A page may be short although more lines stand before it.
    Raises UnavailableError when the file cannot be read.
    """
    try:
        with path.open("rb", buffering=0) as file:
            size = os.fstat(file.fileno()).st_size
            end = size if before is None else min(before, size)
            return _last_lines(file.fileno(), end, limit, most_bytes)
    except FileNotFoundError:
        return AuditPage([], None)
    except OSError as error:
        raise UnavailableError(f"The audit log cannot be read ({error.strerror}).") from error


def _last_lines(file: int, end: int, limit: int, most_bytes: int) -> AuditPage:
    start, text = end, b""
    while start > 0 and end - start < most_bytes and text.count(b"\n") <= limit + 1:
        step = min(_BLOCK_BYTES, start)
        start -= step
        text = os.pread(file, step, start) + text
    lines, first = text.split(b"\n"), start
    if start > 0:  # the first line may have begun before
        first += len(lines.pop(0)) + 1
    if first >= end:  # a line is longer than all that may be read: the next page goes on within it
        return AuditPage([], start or None)
    return _page(lines, first, limit)


def _page(lines: Sequence[bytes], first: int, limit: int) -> AuditPage:
    """The newest of the lines, the first of which stands at the place `first`."""
    places = []
    for line in lines:
        places.append(first)
        first += len(line) + 1
    entries: list[dict[str, Any]] = []
    for place, line in zip(reversed(places), reversed(lines), strict=True):
        entry = _entry(line)
        if entry is not None:
            entries.append(entry)
        if len(entries) == limit:
            return AuditPage(entries, place or None)
    return AuditPage(entries, places[0] or None)


def _entry(line: bytes) -> dict[str, Any] | None:
    try:
        entry = orjson.loads(line)
    except orjson.JSONDecodeError:
        return None
    return entry if isinstance(entry, dict) else None
