"""Messages that wait for their delivery, as an operator sees them."""

from collections.abc import Sequence
from dataclasses import dataclass

from bridge_server.outbox import pending_sql
from bridge_server.outbox.models import Queue
from bridge_server.storage.database import Database

_MOST = 100
_MOST_LOOKED_AT = 100_000


@dataclass(frozen=True, slots=True)
class PendingMessage:
    """A message that is owed, the number of its attempts, and the reason of the last failure."""

    body: bytes
    attempts: int
    next_attempt_at_ms: int
    last_error: str | None


async def oldest_due_ms(database: Database) -> int | None:
    """The time since which a message has been due the longest, or the next is due; None when none is owed."""
    ((due_at_ms,),) = await database.read(pending_sql.OLDEST_DUE, (_MOST_LOOKED_AT,))
    return None if due_at_ms is None else int(due_at_ms)


async def pending_of(database: Database, queue: Queue) -> Sequence[PendingMessage]:
    """The first hundred messages of this queue; the messages that were tried least come first."""
    rows = await database.read(pending_sql.OF_QUEUE, (*queue, _MOST))
    return [PendingMessage(*row) for row in rows]
