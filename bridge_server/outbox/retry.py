"""The delay of a retry: a table of growing delays, spread by chance, and the receiver's own wish."""

DELAYS_SECONDS = (5, 30, 120, 600, 1_800, 3_600, 7_200, 14_400, 28_800, 28_800)
"""The waits after each failed attempt, about 24 hours in all; one more failure is the last."""

_SPREAD = 0.2
_ASKED_LIMIT_SECONDS = 3_600.0


def next_delay_ms(attempts: int, chance: float, asked_seconds: float | None = None) -> int | None:
    """Milliseconds to wait after the failed attempt number `attempts`, or None when it was the last.

    `chance` in [0, 1) spreads the delay by a fifth to either side, so that messages that failed together are
    not retried together. A receiver that asks for time gets it, up to an hour; its wish never shortens the
    delay, which would use the attempts up within minutes.
    """
    if attempts > len(DELAYS_SECONDS):
        return None
    planned = DELAYS_SECONDS[attempts - 1] * (1 - _SPREAD + 2 * _SPREAD * chance)
    asked = min((asked_seconds or 0.0) * (1 + _SPREAD * chance), _ASKED_LIMIT_SECONDS)
    return round(max(planned, asked) * 1_000)


def pause_ms(asked_seconds: float) -> int:
    """The milliseconds of a pause that a service asked for: up to an hour."""
    return round(min(asked_seconds, _ASKED_LIMIT_SECONDS) * 1_000)
