"""The hosts that took their last message: they have places of their own."""

from collections import OrderedDict
from collections.abc import Iterable

MOST_HOSTS = 10_000
KEPT_MS = 30 * 86_400_000
_WORTH_WRITING_MS = 86_400_000


class KnownHosts:
    """The hosts that answered most recently, as many as are worth remembering."""

    def __init__(self) -> None:
        self._written_at_ms: OrderedDict[str, int] = OrderedDict()

    def restore(self, hosts: Iterable[tuple[str, int]]) -> None:
        """Take over the hosts that were written before a restart, latest first."""
        for host, answered_at_ms in reversed(list(hosts)):
            self._written_at_ms[host] = answered_at_ms

    def __contains__(self, host: str) -> bool:
        return host in self._written_at_ms

    def answered(self, host: str) -> None:
        """Note that the host took a message."""
        self._written_at_ms.setdefault(host, 0)
        self._written_at_ms.move_to_end(host)
        if len(self._written_at_ms) > MOST_HOSTS:
            self._written_at_ms.popitem(last=False)

    def failed(self, host: str) -> bool:
        """Note that the host did not take a message; returns whether the store has it as answering."""
        return bool(self._written_at_ms.pop(host, 0))

    def to_write(self, hosts: Iterable[str], now_ms: int) -> list[str]:
        """The hosts whose answers were never written, or were written long ago."""
        return [
            host
            for host in dict.fromkeys(hosts)
            if now_ms - self._written_at_ms.get(host, now_ms) > _WORTH_WRITING_MS
        ]

    def written(self, hosts: Iterable[str], now_ms: int) -> None:
        """Note that the answers of these hosts are written."""
        for host in hosts:
            if host in self._written_at_ms:
                self._written_at_ms[host] = now_ms
