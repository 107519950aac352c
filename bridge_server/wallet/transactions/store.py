"""Transactions in SQL: their states for the wallet, and pages of them for an operator."""

# ruff: noqa: S608  only constants of this package are put in

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from bridge_server.kernel.errors import ConflictError
from bridge_server.storage import database as sql
from bridge_server.wallet import approvals, models
from bridge_server.wallet.models import Address, SendRequest, StoredTransaction, TransactionId
from bridge_server.wallet.transactions import states
from bridge_server.wallet.transactions.states import TransactionEvent, is_in, state_after, states_before

# The statements on transactions: SQL that SQLite 3.40 and PostgreSQL 14 both understand, parameters as `?`.
#
# Which states a statement concerns is read from the table of states.


_IS_WAITING = is_in(states.WAITING)
# The index of nonces has this condition: a statement uses the index only if it repeats the condition.
_IS_FOLLOWED = is_in(states.FOLLOWED)

_FROM = """
    transaction_id, sender, params, asked_at_ms, caller, origin, request_id,
    chain_id, state, nonce, transaction_hash, raw, attempts, next_attempt_at_ms, error
FROM wallet_transactions
"""

UPSERT = f"""
INSERT INTO wallet_transactions (
    transaction_id, sender, params, asked_at_ms, caller, origin, request_id,
    chain_id, state, nonce, transaction_hash, raw, next_attempt_at_ms
) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (transaction_id) DO UPDATE SET
    chain_id = excluded.chain_id,
    state = excluded.state,
    nonce = excluded.nonce,
    transaction_hash = excluded.transaction_hash,
    raw = excluded.raw,
    next_attempt_at_ms = excluded.next_attempt_at_ms,
    error = NULL
WHERE wallet_transactions.{is_in(states_before(TransactionEvent.SIGN))}
"""

LIVE_NONCES = f"""
SELECT DISTINCT nonce FROM wallet_transactions
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND {_IS_FOLLOWED} AND {is_in(states.LIVE)}
ORDER BY nonce
"""

ACCEPT = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.ACCEPT)}', error = NULL
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.ACCEPT))}
RETURNING chain_id, sender, nonce, transaction_hash
"""
# Two requests may have come to the same transaction: it does not replace itself.
REPLACE_OTHERS = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.REPLACE)}', error = ?, settled_at_ms = ?
WHERE chain_id = ? AND sender = ? AND nonce = ? AND transaction_hash <> ?
    AND {_IS_FOLLOWED} AND {is_in(states_before(TransactionEvent.REPLACE))}
"""
REFUSE = f"""
UPDATE wallet_transactions SET state = '{state_after(TransactionEvent.REFUSE)}', error = ?, settled_at_ms = ?
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.REFUSE))}
"""
POSTPONE = f"""
UPDATE wallet_transactions SET attempts = attempts + ?, next_attempt_at_ms = ?, error = ?
WHERE transaction_id = ? AND {is_in(states_before(TransactionEvent.POSTPONE))}
"""
CHANGE_STATE = """
UPDATE wallet_transactions SET state = ?, error = ?, next_attempt_at_ms = ?, settled_at_ms = ?
WHERE transaction_id = ? AND state = ?
"""

SENDERS_WITH_DUE = f"""
SELECT sender FROM wallet_transactions
WHERE next_attempt_at_ms <= ? AND {_IS_WAITING}
"""
QUEUE = f"""
SELECT transaction_id, attempts FROM wallet_transactions
WHERE sender = ? AND {_IS_WAITING}
ORDER BY nonce IS NULL, nonce, id
"""
NEXT_DUE = f"""
SELECT min(next_attempt_at_ms) FROM wallet_transactions
WHERE next_attempt_at_ms >= 0 AND {_IS_WAITING}
"""
SENDERS = f"""
SELECT DISTINCT sender FROM wallet_transactions
WHERE chain_id = ? AND {_IS_FOLLOWED}
"""
LOWEST_SENT = f"""
SELECT sender, min(nonce) FROM wallet_transactions
WHERE chain_id = ? AND {is_in([models.TransactionState.SENT])} GROUP BY sender
"""
FOLLOWED_TRANSACTIONS = f"""
SELECT {_FROM}
WHERE chain_id = ? AND sender = ? AND nonce >= ? AND {_IS_FOLLOWED}
ORDER BY nonce, id
"""

GET = f"SELECT {_FROM} WHERE transaction_id = ?"
NEWEST = f"SELECT {_FROM} WHERE id > 0 ORDER BY id DESC LIMIT 1"
NEWEST_OF_SENDER = f"SELECT {_FROM} WHERE sender = ? ORDER BY id DESC LIMIT 1"
WITH_PARAMS = f"SELECT {_FROM} WHERE sender = ? AND params = ? ORDER BY id DESC LIMIT ?"
WITH_HASH = f"SELECT {_FROM} WHERE transaction_hash = ? ORDER BY id DESC LIMIT ?"
WAITING_TRANSACTIONS = f"""
SELECT {_FROM}
WHERE next_attempt_at_ms >= 0 AND {_IS_WAITING} AND sender = coalesce(?, sender)
ORDER BY asked_at_ms, id LIMIT ?
"""

SWEEP = """
DELETE FROM wallet_transactions WHERE id IN
    (SELECT id FROM wallet_transactions WHERE settled_at_ms < ? ORDER BY settled_at_ms LIMIT ?)
"""


# A transaction waits for the node again, or other accounts must be read soon.
_ANNOUNCED = (models.TransactionState.SIGNED, models.TransactionState.FORGOTTEN)

_NO_PAUSES: Mapping[TransactionId, int] = MappingProxyType({})


def _of_request(request: SendRequest, *_: object, **__: object) -> sql.Turns:
    return sql.alone("wallet", request.sender)


def _of_senders(_: Iterable[sql.Step], senders: Collection[Address] = ()) -> sql.Turns:
    return sql.each_once(sql.Turn("wallet", sender) for sender in sorted(senders))


class TransactionStore:
    """Transactions and their states, durable when a method returns. Publishes `TransactionsDue`."""

    def __init__(self, database: sql.Database, fence: approvals.Fence | None = None) -> None:
        """Each write but a sweep begins with the `fence` of the process that has the wallet."""
        self.database = database
        self._fence = fence

    @sql.transaction(turns=_of_request)
    def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], models.SignedTransaction],
        due_at_ms: int,
    ) -> sql.Transaction[StoredTransaction]:
        """Reserve a nonce, sign with it and store the signed bytes, in one transaction. Without a `nonce`, it
        is the lowest from `lowest_nonce` on which no live transaction of the account (signed or sent) has; a
        given one may replace another. `sign` runs in another thread, perhaps more than once; when it raises,
        nothing is stored. Raises ConflictError when the request is queued no longer.
        """
        yield from self._fenced()
        if self.database.is_full and not (yield sql.Statement(GET, (request.transaction_id,))):
            self.database.require_room()
        chosen = nonce
        if chosen is None:
            rows = yield sql.Statement(LIVE_NONCES, (chain_id, request.sender, lowest_nonce))
            chosen = _first_gap(rows, lowest_nonce)
        stored = _waiting(request, chain_id, sign(chosen), due_at_ms)
        ((changed,),) = yield sql.Statement(UPSERT, _values_of(stored))
        if not changed:
            raise ConflictError("The transaction is queued no longer.")
        yield states.TransactionsDue(due_at_ms)
        return stored

    @sql.adding_transaction(turns=_of_request)
    def keep(
        self,
        request: SendRequest,
        chain_id: int | None,
        signed: models.SignedTransaction | None,
        due_at_ms: int,
    ) -> sql.Transaction[StoredTransaction]:
        """Keep a request: queued as it came, or signed already (raw transactions)."""
        yield from self._fenced()
        stored = _waiting(request, chain_id, signed, due_at_ms)
        yield sql.Statement(UPSERT, _values_of(stored))
        yield states.TransactionsDue(due_at_ms)
        return stored

    async def next_nonce(self, chain_id: int, sender: Address, lowest_nonce: int) -> int:
        """The nonce that `reserve` would take, without taking it."""
        rows = await self.database.read(LIVE_NONCES, (chain_id, sender, lowest_nonce))
        return _first_gap(rows, lowest_nonce)

    async def get(self, transaction_id: TransactionId) -> StoredTransaction | None:
        """A transaction by its id."""
        return _read_one(await self.database.read(GET, (transaction_id,)))

    @sql.transaction
    def accept(self, transaction_id: TransactionId, now_ms: int) -> sql.Transaction[None]:
        """Note that the node has it, which replaces other transactions of the account with its nonce."""
        yield from self._fenced()
        rows = yield sql.Statement(ACCEPT, (transaction_id,))
        for *place, transaction_hash in rows:
            error = f"Transaction {transaction_hash} has its nonce."
            yield sql.Statement(REPLACE_OTHERS, (error, now_ms, *place, transaction_hash))
        yield states.TransactionsMoved()

    async def refuse(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        """The node or the approving person refused it: its nonce is free."""
        await self._write([sql.Statement(REFUSE, (error, now_ms, transaction_id))])

    async def move(
        self,
        stored: Sequence[StoredTransaction],
        event: TransactionEvent,
        error: str | None,
        now_ms: int,
        *,
        pauses_ms: Mapping[TransactionId, int] = _NO_PAUSES,
    ) -> None:
        """Move these to the state after the event, but none whose state has changed since it was read, or
        which the event does not concern. What waits for the node then is due at once, or after its pause.
        """
        steps: list[sql.Step] = []
        due_at_ms = []
        for each in stored:
            transaction_id, after = each.request.transaction_id, states.next_state(each.state, event)
            if after is each.state:
                continue
            moment_ms = now_ms + pauses_ms.get(transaction_id, 0)
            settled_at_ms = now_ms if after in states.SETTLED else None
            values = (after, error, moment_ms, settled_at_ms, transaction_id, each.state)
            steps.append(sql.Statement(CHANGE_STATE, values))
            if after in _ANNOUNCED:
                due_at_ms.append(moment_ms)
        if due_at_ms:
            is_due = min(due_at_ms) <= now_ms
            announce = states.TransactionsDue if is_due else states.TransactionsPostponed
            steps.append(announce(min(due_at_ms)))
        if steps:
            await self._write(steps, {each.request.sender for each in stored})

    async def postpone(
        self, due_at_ms: Mapping[TransactionId, int], error: str, *, is_attempt: bool = True
    ) -> None:
        """Set the times of the next attempts, and why the last failed. Publishes `TransactionsPostponed`."""
        await self._write(
            [
                sql.Statement(POSTPONE, (int(is_attempt), moment_ms, error, transaction_id))
                for transaction_id, moment_ms in due_at_ms.items()
            ]
            + [states.TransactionsPostponed(moment_ms) for moment_ms in sorted(due_at_ms.values())[:1]]
        )

    async def senders_with_due(self, due_at_ms: int) -> Sequence[Address]:
        """The accounts with a transaction that waits for the node and is due until then."""
        rows = await self.database.read(SENDERS_WITH_DUE, (due_at_ms,))
        return list({Address(sender): None for (sender,) in rows})

    async def queue(self, sender: Address) -> Mapping[TransactionId, int]:
        """The attempts of the account's waiting transactions, by nonce, then in the order of the requests."""
        rows = await self.database.read(QUEUE, (sender,))
        return {TransactionId(transaction_id): attempts for transaction_id, attempts in rows}

    async def next_due(self) -> int | None:
        """The time of the next attempt; None when nothing waits for the node."""
        due_at_ms: int | None
        ((due_at_ms,),) = await self.database.read(NEXT_DUE)
        return due_at_ms

    async def senders(self, chain_id: int) -> Sequence[Address]:
        """The accounts with signed, sent or mined transactions."""
        rows = await self.database.read(SENDERS, (chain_id,))
        return [Address(sender) for (sender,) in rows]

    async def lowest_sent(self, chain_id: int) -> Mapping[Address, int]:
        """The accounts with sent transactions, and the lowest nonce among these."""
        rows = await self.database.read(LOWEST_SENT, (chain_id,))
        return {Address(sender): nonce for sender, nonce in rows}

    async def followed(self, chain_id: int, sender: Address, from_nonce: int) -> Sequence[StoredTransaction]:
        """The account's signed, sent and mined transactions from this nonce on, by nonce."""
        return _read_all(await self.database.read(FOLLOWED_TRANSACTIONS, (chain_id, sender, from_nonce)))

    async def newest(self, sender: Address | None = None) -> StoredTransaction | None:
        """The newest transaction, of one account or of all."""
        if sender is None:
            return _read_one(await self.database.read(NEWEST))
        return _read_one(await self.database.read(NEWEST_OF_SENDER, (sender,)))

    async def with_params(self, sender: Address, params: bytes, limit: int) -> Sequence[StoredTransaction]:
        """The account's transactions with these params, newest first."""
        return _read_all(await self.database.read(WITH_PARAMS, (sender, params, limit)))

    async def with_hash(self, transaction_hash: str, limit: int) -> Sequence[StoredTransaction]:
        """The transactions with this hash (DATA in lower case), newest first."""
        return _read_all(await self.database.read(WITH_HASH, (transaction_hash, limit)))

    async def waiting(self, sender: Address | None, limit: int) -> Sequence[StoredTransaction]:
        """Transactions that wait for the node, of one account or of all, in the order of the requests."""
        return _read_all(await self.database.read(WAITING_TRANSACTIONS, (sender, limit)))

    @sql.transaction(turns=sql.sweeping("transactions"))
    def sweep(self, before_ms: int, limit: int) -> sql.Transaction[int]:
        """Delete transactions that were settled before then; returns how many."""
        return sql.scalar(int, (yield sql.Statement(SWEEP, (before_ms, limit))))

    @sql.transaction(turns=_of_senders)
    def _write(self, steps: Iterable[sql.Step], senders: Collection[Address] = ()) -> sql.Transaction[None]:
        yield from self._fenced()
        steps = list(steps)
        for step in steps:  # noqa: UP028  a list takes no rows
            yield step
        yield states.TransactionsMoved()

    def _fenced(self) -> sql.Transaction[None]:
        if self._fence is not None:
            yield from self._fence()


def _first_gap(rows: Sequence[sql.Row], lowest: int) -> int:
    """The lowest nonce from `lowest` on that is not in the rows, which are in order."""
    for (nonce,) in rows:
        if nonce != lowest:
            break
        lowest += 1
    return lowest


def _waiting(
    request: SendRequest, chain_id: int | None, signed: models.SignedTransaction | None, due_at_ms: int
) -> StoredTransaction:
    state = models.TransactionState.QUEUED if signed is None else models.TransactionState.SIGNED
    return StoredTransaction(request, chain_id, state, signed, 0, due_at_ms, None)


def _values_of(stored: StoredTransaction) -> tuple[sql.Value, ...]:
    request = stored.request
    signature: tuple[sql.Value, ...] = (None, None, None)
    if stored.signed is not None:
        signature = stored.signed[1:]
    state = (stored.chain_id, stored.state, *signature, stored.next_attempt_at_ms)
    return (*request[:4], *request.caller, *state)


def _read_one(rows: Sequence[sql.Row]) -> StoredTransaction | None:
    return _read(rows[0]) if rows else None


def _read_all(rows: Sequence[sql.Row]) -> Sequence[StoredTransaction]:
    return [_read(row) for row in rows]


def _read(row: sql.Row) -> StoredTransaction:
    transaction_id, sender, params, asked_at_ms, *caller = row[:7]
    chain_id, state, nonce, transaction_hash, raw, attempts, due_at_ms, error = row[7:]
    request = SendRequest(transaction_id, sender, params, asked_at_ms, models.Caller(*caller))
    signed = None if nonce is None else models.SignedTransaction(chain_id, nonce, transaction_hash, raw)
    return StoredTransaction(
        request, chain_id, models.TransactionState(state), signed, attempts, due_at_ms, error
    )


# Transactions of every state for the operator, page by page.

_ROWS = """
id, transaction_id, sender, params, caller, asked_at_ms, state, chain_id, nonce, transaction_hash, attempts,
next_attempt_at_ms, error, settled_at_ms
"""

# The parameters may be large, and a page has many: only the shown part of them is taken.
PAGE = f"""
SELECT id, transaction_id, sender,
       json_extract(CAST(params AS TEXT), '$.to'),
       CASE WHEN json_type(CAST(params AS TEXT)) = 'object'
            THEN coalesce(json_extract(CAST(params AS TEXT), '$.value'), '0x0') END,
       CASE WHEN json_type(CAST(params AS TEXT)) = 'text' AND length(params) <= ?5 THEN params END,
       caller, asked_at_ms, state, chain_id, nonce, transaction_hash, attempts, next_attempt_at_ms, error,
       settled_at_ms
FROM (SELECT {_ROWS} FROM wallet_transactions WHERE id < ?1 ORDER BY id DESC LIMIT ?2) AS latest
WHERE state = coalesce(?3, state) ORDER BY id DESC LIMIT ?4
"""
PAGE_REST = "SELECT id FROM wallet_transactions WHERE id < ? ORDER BY id DESC LIMIT 1 OFFSET ?"

ROWS_PER_PAGE = 10_000
"""The most rows that are read for a page."""

_BEYOND_ALL = 2**63 - 1
_SMALL_RAW_BYTES = 16_384


class ListedTransaction(NamedTuple):
    """A transaction without its data; times are milliseconds since the Unix epoch. `to` and `value` are as
    requested, None if it came signed: then `raw` is the JSON text of the signed bytes, if that is short.
    """

    number: int
    transaction_id: TransactionId
    sender: Address
    to: Any
    value: Any
    raw: bytes | None
    client: str
    asked_at_ms: int
    state: models.TransactionState
    chain_id: int | None
    nonce: int | None
    transaction_hash: str | None
    attempts: int
    next_attempt_at_ms: int
    error: str | None
    settled_at_ms: int | None


class TransactionPage(NamedTuple):
    """Transactions, newest first, perhaps none. More may follow after the number `rest`; None at the end."""

    transactions: Sequence[ListedTransaction]
    rest: int | None


class TransactionListing:
    """Reads pages of transactions."""

    def __init__(self, database: sql.Database, rows_per_page: int = ROWS_PER_PAGE) -> None:
        self.database = database
        self._rows_per_page = rows_per_page

    @sql.reading
    def page(
        self, state: models.TransactionState | None, before: int | None, limit: int
    ) -> sql.Transaction[TransactionPage]:
        """The transactions with smaller numbers, in one state or in any."""
        begin, window = _BEYOND_ALL if before is None else before, self._rows_per_page
        rows = yield sql.Statement(PAGE, (begin, window, state, limit + 1, _SMALL_RAW_BYTES))
        listed = (ListedTransaction(*row) for row in rows)
        found = [each._replace(state=models.TransactionState(each.state)) for each in listed]
        if len(found) > limit:
            return TransactionPage(found[:limit], found[limit - 1].number)
        following = yield sql.Statement(PAGE_REST, (begin, window - 1))
        return TransactionPage(found, following[0][0] if following else None)
