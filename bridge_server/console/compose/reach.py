"""Sums over the calls of one sending."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

_MOST_NAMED = 50


@dataclass(slots=True)
class Reach:
    """The numbers of accounts with and without the notification, by reason; some of the latter by name."""

    sent: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    named: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def looked_at(self) -> int:
        """All accounts so far."""
        return self.sent + self.missed.total()

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Add the answer to one call, as the admin API spells it."""
        self.sent += len(outcome["sent"])
        unknown = [{"account": account, "reason": "not_subscribed"} for account in outcome["not_found"]]
        failures = [*outcome["failed"], *unknown]
        self.missed.update(failure["reason"] for failure in failures)
        self.named += failures[: _MOST_NAMED - len(self.named)]
