"""The statements that move transactions to the state after an event, and the events that announce it."""

from collections.abc import Mapping, Sequence

from bridge_server.storage.database import Statement, Step
from bridge_server.wallet.models import StoredTransaction, TransactionId, TransactionState
from bridge_server.wallet.transactions import sql
from bridge_server.wallet.transactions.events import TransactionsOwed, TransactionsPostponed
from bridge_server.wallet.transactions.states import SETTLED, TransactionEvent, next_state

# A transaction waits for the node again, or other accounts must be looked at soon.
_ANNOUNCED = (TransactionState.SIGNED, TransactionState.FORGOTTEN)


def moves(
    stored: Sequence[StoredTransaction],
    event: TransactionEvent,
    error: str | None,
    now_ms: int,
    pauses_ms: Mapping[TransactionId, int],
) -> list[Step]:
    """The steps for the transactions which the event concerns; none if it concerns no transaction.

    A statement skips a transaction whose state has changed since it was read.
    """
    steps: list[Step] = []
    due_at_ms = []
    for each in stored:
        transaction_id, after = each.request.transaction_id, next_state(each.state, event)
        if after is each.state:
            continue
        moment_ms = now_ms + pauses_ms.get(transaction_id, 0)
        settled_at_ms = now_ms if after in SETTLED else None
        values = (after, error, moment_ms, settled_at_ms, transaction_id, each.state)
        steps.append(Statement(sql.CHANGE_STATE, values))
        if after in _ANNOUNCED:
            due_at_ms.append(moment_ms)
    return steps + _announced(due_at_ms, now_ms)


def _announced(due_at_ms: Sequence[int], now_ms: int) -> list[Step]:
    """The event with the earliest of these times: due by now, or only later."""
    if not due_at_ms:
        return []
    earliest_ms = min(due_at_ms)
    return [TransactionsOwed(earliest_ms) if earliest_ms <= now_ms else TransactionsPostponed(earliest_ms)]
