"""Waiting and retry times of a client."""

from dataclasses import dataclass

_DOUBLINGS = 16
_LONGEST_ASKED_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Pace:
    """Waiting and retry times, in seconds. The defaults suit a person with a dapp and a wallet."""

    wait_seconds: int = 25
    """The length of a long poll (`Prefer: wait`)."""
    pause_seconds: float = 1.0
    """The least time between two polls, for a bridge without long polling."""
    first_retry_seconds: float = 0.25
    """The pause before the first retry; it doubles with each failure."""
    longest_retry_seconds: float = 15.0
    """The longest pause before a retry."""
    attempt_seconds: float = 10.0
    """The time limit of one attempt, in addition to its long poll."""
    patience_seconds: float = 30.0
    """The time limit of all retries of a request without its own timeout."""
    walk_patience_seconds: float = 300.0
    """The longest time for which a walk through many accounts goes on without any answer but 5xx or 429."""

    def retry_seconds(self, failures: int, chance: float, asked_seconds: float | None = None) -> float:
        """The pause after a number of failures in a row.

        `chance` in [0, 1) is jitter: it shortens the pause by up to a half, so that clients do not
        retry together. A Retry-After of the bridge (`asked_seconds`) is respected up to an hour, plus jitter.
        """
        doubled = self.first_retry_seconds * 2.0 ** min(failures - 1, _DOUBLINGS)
        own = min(doubled, self.longest_retry_seconds) * (1 - chance / 2)
        if asked_seconds is None:
            return own
        return max(own, min(asked_seconds, _LONGEST_ASKED_SECONDS) + self.first_retry_seconds * chance)
