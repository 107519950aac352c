"""Moments as text (RFC 3339, UTC) and as days."""

from datetime import date, timedelta

from bridge_server.kernel.rfc3339 import date_time_of

DAY_MS = 86_400_000
_FIRST_DAY = date(1970, 1, 1)


def rfc3339(moment_ms: int) -> str:
    """Milliseconds since the Unix epoch as `2026-01-31T12:00:00.000Z`."""
    return date_time_of(moment_ms)


def rfc3339_or_none(moment_ms: int | None) -> str | None:
    """A moment as `rfc3339` spells it; None for none."""
    return None if moment_ms is None else rfc3339(moment_ms)


def day_of(moment_ms: int) -> int:
    """The day of a moment, counted from the Unix epoch, in UTC."""
    return moment_ms // DAY_MS


def spell_day(day: int) -> str:
    """A day counted from the epoch as `2026-01-31`."""
    return (_FIRST_DAY + timedelta(days=day)).isoformat()


def parse_day(text: str) -> int:
    """`2026-01-31` as days since the epoch. Raises ValueError for anything else."""
    day = date.fromisoformat(text)
    if day.isoformat() != text:
        raise ValueError("must be a day such as 2026-01-31")
    return (day - _FIRST_DAY).days
