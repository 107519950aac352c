"""Destinations that are left alone for a while, because their service asked for it."""


class Pauses:
    """The end of each pause, by elapsed time in microseconds, so that setting the clock changes no pause.

    They are kept in memory: after a restart, a service that is asked too early asks for a pause again.
    """

    def __init__(self) -> None:
        self._until_us: dict[str, int] = {}

    def put(self, destination: str, until_us: int) -> None:
        """Let the destination rest until then; a later end that is known already stays."""
        self._until_us[destination] = max(until_us, self._until_us.get(destination, until_us))

    def left_us(self, destination: str, elapsed_us: int) -> int:
        """The rest of the destination's pause; 0 once it is over, and the pause is deleted then."""
        left_us = self._until_us.get(destination, elapsed_us) - elapsed_us
        if left_us <= 0:
            self._until_us.pop(destination, None)
            return 0
        return left_us

    def resting(self, elapsed_us: int) -> set[str]:
        """The destinations whose pause is not over."""
        return {destination for destination, until_us in self._until_us.items() if until_us > elapsed_us}
