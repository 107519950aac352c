"""Moments as text (RFC 3339, UTC) and as days."""

import re
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DATE_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]"
    r"(?P<minute>(?:[01][0-9]|2[0-3]):[0-5][0-9]):(?P<second>[0-5][0-9]|60)(?:\.(?P<fraction>[0-9]+))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))"
)

DAY_MS = 86_400_000
_FIRST_DAY = date(1970, 1, 1)


def milliseconds_of(text: str) -> int:
    """The milliseconds since the Unix epoch of a date-time of RFC 3339, such as `2021-09-30T18:25:24+02:00`.
    Digits after the third of a fraction are dropped. Second 60 is taken anywhere, for the second after 59: no
    clock knows leap seconds. Raises ValueError for other texts, and outside of the years 1 to 9999 in UTC.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError("must be a date and time as in RFC 3339, such as 2021-09-30T16:25:24Z")
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{match['minute']}+00:00") + _rest(match)
    except (ValueError, OverflowError):
        raise ValueError("must be a day of the calendar, in the years 1 to 9999") from None
    return (moment - _EPOCH) // _MILLISECOND


def rfc3339(moment_ms: int) -> str:
    """Epoch milliseconds as `2026-01-31T12:00:00.000Z`. Raises ValueError outside of the years 1 to 9999."""
    second, milliseconds = divmod(moment_ms, 1_000)
    return f"{_spell_second(second)}.{milliseconds:03}Z"


@lru_cache(maxsize=16)  # under load, there are many moments of one second
def _spell_second(second: int) -> str:
    try:
        moment = _EPOCH + timedelta(seconds=second)
    except OverflowError:
        raise ValueError("a date and time must lie in the years 1 to 9999") from None
    return moment.replace(tzinfo=None).isoformat()


def _rest(match: re.Match[str]) -> timedelta:
    """The seconds, their fraction and the offset, as a duration that is added to the minute."""
    milliseconds = int((match["fraction"] or "")[:3].ljust(3, "0"))
    time = timedelta(seconds=int(match["second"]), milliseconds=milliseconds)
    if match["sign"] is None:
        return time
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    return time - offset if match["sign"] == "+" else time + offset


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
