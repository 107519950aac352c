"""The faults that a test has ordered, first match wins."""

from collections.abc import Sequence

from bridge_server.testmode.models import CountedFault, FaultRule, Where

MOST_FAULTS = 100


class Faults:
    """The rules in force, each with its count of hits."""

    def __init__(self) -> None:
        self._rules: list[CountedFault] = []

    @property
    def rules(self) -> Sequence[CountedFault]:
        """The rules in their order."""
        return tuple(self._rules)

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """Forget the rules there are, and go by these."""
        self._rules = [CountedFault(rule) for rule in rules]

    def strike(self, where: Where, *routes: str) -> FaultRule | None:
        """Count an attempt at this place; return the rule that makes it fail, or None when it may pass.

        An attempt is on these routes: a request on one, and one at the node on each method that it calls.
        """
        for counted in self._rules:
            if counted.rule.where is where and counted.rule.route in (None, *routes) and _hits(counted):
                return counted.rule
        return None


def _hits(counted: CountedFault) -> bool:
    rule = counted.rule
    counted.attempts += 1
    if counted.attempts <= rule.after or (rule.times is not None and counted.hits >= rule.times):
        return False
    counted.hits += 1
    return True
