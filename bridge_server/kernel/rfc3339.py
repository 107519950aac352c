"""Dates with times as RFC 3339 spells them, and the milliseconds since the Unix epoch that they stand for."""

import re
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)

_DATE_TIME = re.compile(
    r"(?P<date>[0-9]{4}-[0-9]{2}-[0-9]{2})[Tt]"
    r"(?P<minute>(?:[01][0-9]|2[0-3]):[0-5][0-9]):(?P<second>[0-5][0-9]|60)(?:\.(?P<fraction>[0-9]+))?"
    r"(?:[Zz]|(?P<sign>[+-])(?P<hours>[01][0-9]|2[0-3]):(?P<minutes>[0-5][0-9]))"
)


def milliseconds_of(text: str) -> int:
    """Read a date-time, such as `2021-09-30T16:25:24.125Z` or `2021-09-30T18:25:24+02:00`.

    Digits after the third of a fraction are dropped. Second 60 is taken anywhere, for the second after 59:
    which minutes had a leap second is nothing that a clock knows. Raises ValueError for any other text and
    for moments outside of the years 1 to 9999 in UTC.
    """
    match = _DATE_TIME.fullmatch(text)
    if match is None:
        raise ValueError("must be a date and time as in RFC 3339, such as 2021-09-30T16:25:24Z")
    try:
        moment = datetime.fromisoformat(f"{match['date']}T{match['minute']}+00:00") + _rest(match)
    except (ValueError, OverflowError):
        raise ValueError("must be a day of the calendar, in the years 1 to 9999") from None
    return (moment - _EPOCH) // _MILLISECOND


def date_time_of(milliseconds: int) -> str:
    """Spell a moment in UTC, with all three digits of its milliseconds.

    Raises ValueError outside of the years 1 to 9999.
    """
    try:
        moment = _EPOCH + milliseconds * _MILLISECOND
    except OverflowError:
        raise ValueError("a date and time must lie in the years 1 to 9999") from None
    return moment.replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"


def _rest(match: re.Match[str]) -> timedelta:
    """The seconds, their fraction and the offset, as a duration that is added to the minute."""
    milliseconds = int((match["fraction"] or "")[:3].ljust(3, "0"))
    time = timedelta(seconds=int(match["second"]), milliseconds=milliseconds)
    if match["sign"] is None:
        return time
    offset = timedelta(hours=int(match["hours"]), minutes=int(match["minutes"]))
    return time - offset if match["sign"] == "+" else time + offset
