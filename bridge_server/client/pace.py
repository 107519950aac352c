"""How long a client waits, and how soon it tries again."""

from dataclasses import dataclass

_DOUBLINGS = 16
_LONGEST_ASKED_SECONDS = 3_600.0


@dataclass(frozen=True, slots=True)
class Pace:
    """All in seconds. What is there suits a person who looks at two screens."""

    wait_seconds: int = 25
    """The long poll that is asked for (`Prefer: wait`)."""
    pause_seconds: float = 1.0
    """The least time between two polls that find nothing new, for a bridge that answers at once."""
    first_retry_seconds: float = 0.25
    """How soon a bridge that fails is asked again; doubled with each failure."""
    longest_retry_seconds: float = 15.0
    """Where the doubling ends."""
    attempt_seconds: float = 10.0
    """How long one request may take, apart from the wait that it asked for."""
    patience_seconds: float = 30.0
    """How long a request that has no timeout of its own is tried again in all."""

    def retry_seconds(self, failures: int, chance: float, asked_seconds: float | None = None) -> float:
        """How long to wait after that many failures in a row.

        `chance` in [0, 1) takes off up to a half, so that clients that failed together do not return
        together. A bridge that asks for time (Retry-After) gets it, up to an hour, and a little more.
        """
        doubled = self.first_retry_seconds * 2.0 ** min(failures - 1, _DOUBLINGS)
        own = min(doubled, self.longest_retry_seconds) * (1 - chance / 2)
        if asked_seconds is None:
            return own
        return max(own, min(asked_seconds, _LONGEST_ASKED_SECONDS) + self.first_retry_seconds * chance)
