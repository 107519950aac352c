"""The Retry-After header field (RFC 9110, 10.2.3)."""

import re
from datetime import UTC
from email.utils import parsedate_to_datetime

_WHOLE_SECONDS = re.compile(r"[0-9]{1,15}")


def parse_retry_after(value: str, now_ms: int) -> float | None:
    """The seconds that a Retry-After header asks for, or None when it is not clear."""
    value = value.strip()
    if _WHOLE_SECONDS.fullmatch(value):
        return float(value)
    try:
        moment = parsedate_to_datetime(value)
        moment = moment if moment.tzinfo is not None else moment.replace(tzinfo=UTC)
        return max(0.0, moment.timestamp() - now_ms / 1_000)
    except (ValueError, TypeError, IndexError, OverflowError):  # the parser lets all of these out
        return None
