"""Which lanes rest because their service asked for it, and until when."""


class Pauses:
    """Kept in memory: after a restart, whoever is asked too early says so again."""

    def __init__(self) -> None:
        self._until_ms: dict[str, int] = {}

    def put(self, destination: str, until_ms: int) -> None:
        """Let the lane rest until then; a later time that is known already stays."""
        self._until_ms[destination] = max(until_ms, self._until_ms.get(destination, until_ms))

    def until_ms(self, destination: str, now_ms: int) -> int | None:
        """When the lane may go on; None when it may now, and then nothing is remembered of it."""
        until_ms = self._until_ms.get(destination)
        if until_ms is not None and until_ms <= now_ms:
            del self._until_ms[destination]
            return None
        return until_ms
