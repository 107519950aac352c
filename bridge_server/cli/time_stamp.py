"""The time as a part of a file's name."""

from datetime import UTC, datetime


def time_stamp() -> str:
    """The present second in UTC, such as 20260102T030405Z: names sort by time."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
