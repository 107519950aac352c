"""A process on a database that several share."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Process:
    """A server that uses the database, or has used it a few minutes ago."""

    number: int
    url: str
    """The URL at which other processes reach it."""
    version: str
    state: str
    """`running`; `silent` if it has not been seen for half a minute; `stopped`."""
    started_at_ms: int | None
    """None if its program is of a version that did not say so."""
    seen_seconds_ago: float
    holds_wallet: bool

    @property
    def is_running(self) -> bool:
        """Whether it answers requests."""
        return self.state == "running"
