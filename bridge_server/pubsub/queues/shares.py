"""The waiting messages of a topic, an address or a client, and whether there is room for more."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from bridge_server.pubsub.queues.errors import QueueFullError
from bridge_server.pubsub.queues.models import Share
from bridge_server.storage.database import Statement, Transaction


class Claim(NamedTuple):
    """A share that a message counts to."""

    statement: str
    """Reads the number and the bytes of the messages that wait."""
    whose: str
    share: Share
    name: str
    """Of the owner of the share, for the sender's eyes."""


@dataclass(slots=True)
class _Waiting:
    messages: int
    size_bytes: int


class Shares:
    """Parts of one transaction. What waits is read once, and counted along from there: there may be ten
    thousand rows.
    """

    def __init__(self, now_ms: int) -> None:
        self._now_ms = now_ms
        self._counted: dict[tuple[str, str], _Waiting] = {}

    def take(self, claims: Sequence[Claim], size_bytes: int) -> Transaction[QueueFullError | None]:
        """Count one message more to each of the claims, or to none of them and say why not."""
        owners = []
        for claim in claims:
            waiting = yield from self._waiting(claim)
            if (
                waiting.messages >= claim.share.messages
                or waiting.size_bytes + size_bytes > claim.share.size_bytes
            ):
                return QueueFullError(claim.name)
            owners.append(waiting)
        for waiting in owners:
            waiting.messages += 1
            waiting.size_bytes += size_bytes
        return None

    def give_back(self, claims: Sequence[Claim], size_bytes: int) -> None:
        """Take back the count of a message that is not stored."""
        for claim in claims:
            waiting = self._counted[claim.statement, claim.whose]
            waiting.messages -= 1
            waiting.size_bytes -= size_bytes

    def _waiting(self, claim: Claim) -> Transaction[_Waiting]:
        key = (claim.statement, claim.whose)
        waiting = self._counted.get(key)
        if waiting is None:
            ((messages, size_bytes),) = yield Statement(claim.statement, (claim.whose, self._now_ms))
            waiting = self._counted[key] = _Waiting(messages, size_bytes)
        return waiting
