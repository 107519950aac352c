"""Transactions of every state for the operator, page by page."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bridge_server.storage.database import Database, Row, Statement, Transaction, reading
from bridge_server.wallet.models import Address, TransactionId, TransactionState
from bridge_server.wallet.transactions import listing_sql as sql

ROWS_PER_PAGE = 10_000
"""The most rows that a page looks at."""

_BEYOND_ALL = 2**63 - 1
_SMALL_RAW_BYTES = 16_384


@dataclass(frozen=True, slots=True)
class ListedTransaction:
    """A transaction without its data. Times are milliseconds since the Unix epoch.

    `to` and `value` are as they were requested; of a transaction that came signed they are None, and `raw` is
    the JSON text of the signed bytes if it is short.
    """

    number: int
    transaction_id: TransactionId
    sender: Address
    to: Any
    value: Any
    raw: bytes | None
    client: str
    asked_at_ms: int
    state: TransactionState
    chain_id: int | None
    nonce: int | None
    transaction_hash: str | None
    attempts: int
    next_attempt_at_ms: int
    error: str | None
    settled_at_ms: int | None


@dataclass(frozen=True, slots=True)
class TransactionPage:
    """Transactions, newest first. `rest` is the number after which more may follow, None at the end.

    A page may be short, or empty, although more follow: only so many rows are looked at for one page.
    """

    transactions: Sequence[ListedTransaction]
    rest: int | None


class TransactionListing:
    """Reads pages of transactions."""

    def __init__(self, database: Database, rows_per_page: int = ROWS_PER_PAGE) -> None:
        self.database = database
        self._rows_per_page = rows_per_page

    @reading
    def page(
        self, state: TransactionState | None, before: int | None, limit: int
    ) -> Transaction[TransactionPage]:
        """The transactions with smaller numbers, in one state or in any."""
        begin, window = _BEYOND_ALL if before is None else before, self._rows_per_page
        rows = yield Statement(sql.PAGE, (begin, window, state, limit + 1, _SMALL_RAW_BYTES))
        found = [_listed(row) for row in rows]
        if len(found) > limit:
            return TransactionPage(found[:limit], found[limit - 1].number)
        following = yield Statement(sql.PAGE_REST, (begin, window - 1))
        return TransactionPage(found, following[0][0] if following else None)


def _listed(row: Row) -> ListedTransaction:
    number, transaction_id, sender, to, value, raw, client, asked_at_ms, state, *rest = row
    return ListedTransaction(
        number,
        TransactionId(transaction_id),
        Address(sender),
        to,
        value,
        raw,
        client,
        asked_at_ms,
        TransactionState(state),
        *rest,
    )
