"""Messages that wait for their delivery, as an operator sees those of one subject."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.outbox import pending_sql
from bridge_server.outbox.models import Queue
from bridge_server.storage.database import Database

_MOST = 100


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A message that is owed, how often it was tried, and why it did not arrive."""

    body: bytes
    attempts: int
    next_attempt_at_ms: int
    last_error: str | None


async def pending_of(database: Database, queue: Queue) -> Sequence[PendingMessage]:
    """The first hundred messages of this queue, those that were tried least at the head."""
    rows = await database.read(pending_sql.OF_QUEUE, (*queue, _MOST))
    return [PendingMessage(*row) for row in rows]
