"""The disk: its free space, and the days until it is full at the rate at which the database grows."""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeAlias

import orjson

from bridge_server.cli.amounts import duration_text, size_text
from bridge_server.cli.doctor.examination import Examination
from bridge_server.cli.doctor.findings import Finding, fail, ok, warn

_SUBJECT = "disk"
_ROOM = "make room, set database_limit, or lower lifetimes such as call_ttl"
_RECORD = "doctor.json"
_MOST_SIZES = 60
_APART_MS = 3_600_000
_DAY_MS = 86_400_000
_FEW_BYTES, _VERY_FEW_BYTES = 10**9, 10**8
_SOON_DAYS = 14

_Sizes: TypeAlias = Sequence[tuple[int, int]]
"""Times in milliseconds, and the bytes of the database at these times."""


def check_disk(seen: Examination) -> Iterator[Finding]:
    """Free space. Each examination remembers the size of the database, from which it knows the growth."""
    data_dir, file = seen.settings.data_dir, seen.settings.database_file
    if not data_dir.is_dir():
        return
    disk = shutil.disk_usage(data_dir)
    size = file.stat().st_size if file.exists() else 0
    days = _days_left(_remembered(data_dir, seen.now_ms, size), seen.now_ms, size, disk.free)
    text = f"{size_text(disk.free)} free of {size_text(disk.total)}"
    if days is not None:
        text += f": enough for {duration_text(days * 86_400)} at this rate"
    cure = _ROOM if seen.settings.database is None else "make room"
    if disk.free < _VERY_FEW_BYTES:
        yield fail(_SUBJECT, text, cure)
    elif disk.free < _FEW_BYTES or (days is not None and days < _SOON_DAYS):
        yield warn(_SUBJECT, text, cure)
    else:
        yield ok(_SUBJECT, text)


def _days_left(sizes: _Sizes, now_ms: int, size: int, free: int) -> float | None:
    """None when it does not grow, or when it was not measured long enough ago."""
    if not sizes or now_ms - sizes[0][0] < _APART_MS or size <= sizes[0][1]:
        return None
    grown_per_ms = (size - sizes[0][1]) / (now_ms - sizes[0][0])
    return free / grown_per_ms / _DAY_MS


def _remembered(data_dir: Path, now_ms: int, size: int) -> _Sizes:
    """The sizes of earlier examinations, to which this one is added."""
    sizes = _read(data_dir / _RECORD, now_ms)
    if not sizes or now_ms - sizes[-1][0] >= _APART_MS:
        kept = [*sizes, (now_ms, size)][-_MOST_SIZES:]
        with suppress(OSError):  # what cannot be written is not remembered
            flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC
            with os.fdopen(os.open(data_dir / _RECORD, flags, 0o600), "wb") as stream:
                stream.write(orjson.dumps({"sizes": kept}))
    return sizes


def _read(file: Path, now_ms: int) -> list[tuple[int, int]]:
    try:
        sizes = [(int(at_ms), int(size)) for at_ms, size in orjson.loads(file.read_bytes())["sizes"]]
    except (OSError, ValueError, KeyError, TypeError):
        return []
    return [each for each in sizes if each[0] <= now_ms]
