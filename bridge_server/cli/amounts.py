"""Sizes and times as the operator's commands print them."""

_UNITS = ("kB", "MB", "GB", "TB")
_STEP = 1_000
_MINUTE, _HOUR, _DAY = 60, 3_600, 86_400


def size_text(size_bytes: float) -> str:
    """A size in the unit that keeps it short, such as 15.5 MB."""
    if size_bytes < _STEP:
        return f"{size_bytes:.0f} bytes"
    for unit in _UNITS:
        size_bytes /= _STEP
        if size_bytes < _STEP or unit == _UNITS[-1]:
            break
    return f"{size_bytes:.1f} {unit}"


def duration_text(seconds: float) -> str:
    """A duration in its largest unit, such as 6 days."""
    for unit_seconds, name in ((_DAY, "day"), (_HOUR, "hour"), (_MINUTE, "minute")):
        if seconds >= unit_seconds:
            count = int(seconds // unit_seconds)
            return f"{count} {name}{'' if count == 1 else 's'}"
    return f"{seconds:.0f} s"
