"""The faults that a test has ordered, first match wins."""

from collections.abc import Callable, Sequence
from itertools import count

from bridge_server.kernel.errors import InvalidInputError
from bridge_server.testmode.models import CountedFault, FaultRule, Where

MOST_FAULTS = 100


class Faults:
    """The rules in force, each with its count of hits."""

    def __init__(self) -> None:
        self._rules: list[CountedFault] = []
        self._numbers = count(1)
        self._listeners: list[Callable[[], None]] = []

    @property
    def rules(self) -> Sequence[CountedFault]:
        """The rules in their order."""
        return tuple(self._rules)

    def on_change(self, listener: Callable[[], None]) -> None:
        """Have `listener` called after each change of the rules or of their hits."""
        self._listeners.append(listener)

    def replace(self, rules: Sequence[FaultRule]) -> None:
        """Forget the rules there are, and go by these."""
        self._rules = [self._counted(rule) for rule in rules]
        self._announce()

    def add(self, rules: Sequence[FaultRule]) -> None:
        """Go by these too, after the others, which keep their counts. Raises InvalidInputError."""
        if len(self._rules) + len(rules) > MOST_FAULTS:
            raise InvalidInputError(f"There are at most {MOST_FAULTS} rules: remove some first.")
        self._rules += map(self._counted, rules)
        self._announce()

    def remove(self, number: int) -> None:
        """Forget the rule of this number, if it is in force; the others keep their counts."""
        self._rules = [each for each in self._rules if each.number != number]
        self._announce()

    def strike(self, where: Where, *routes: str) -> FaultRule | None:
        """Count an attempt at this place; return the rule that makes it fail, or None when it may pass.

        An attempt is on these routes: a request on one, and one at the node on each method that it calls.
        """
        for counted in self._rules:
            if counted.rule.where is where and counted.rule.route in (None, *routes) and _hits(counted):
                self._announce()
                return counted.rule
        return None

    def _announce(self) -> None:
        for listener in self._listeners:
            listener()

    def _counted(self, rule: FaultRule) -> CountedFault:
        return CountedFault(next(self._numbers), rule)


def _hits(counted: CountedFault) -> bool:
    rule = counted.rule
    counted.attempts += 1
    if counted.attempts <= rule.after or (rule.times is not None and counted.hits >= rule.times):
        return False
    counted.hits += 1
    return True
