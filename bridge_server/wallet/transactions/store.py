"""Transactions that were asked for, in SQL."""

from collections.abc import Callable, Iterable, Mapping, Sequence

from bridge_server.kernel.errors import ConflictError
from bridge_server.storage.database import (
    Database,
    Row,
    Statement,
    Step,
    Transaction,
    Value,
    adding_transaction,
    scalar,
    transaction,
)
from bridge_server.wallet.models import (
    Address,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
    TransactionState,
)
from bridge_server.wallet.transactions import sql
from bridge_server.wallet.transactions.events import TransactionsOwed, TransactionsPostponed

_LIVE = (TransactionState.SIGNED, TransactionState.SENT)

# Owed from now on, or a reason to look at what other accounts have sent.
_TOLD = (TransactionState.SIGNED, TransactionState.FORGOTTEN)


class TransactionStore:
    """Transactions that were asked for, durable from the moment that a method returns.

    A commit that makes one owed (queued or signed) publishes `TransactionsOwed`.
    """

    def __init__(self, database: Database) -> None:
        self.database = database

    @transaction
    def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], SignedTransaction],
        due_at_ms: int,
    ) -> Transaction[StoredTransaction]:
        """Reserve a nonce, sign with it and store the signed bytes, in one transaction.

        `nonce` None takes the lowest from `lowest_nonce` on that none of the account's live transactions
        (signed or sent) has; a given one may replace. `sign` is called in another thread, and may be called
        again; what it raises is raised, and nothing is stored. A request that is queued already becomes the
        signed one; raises ConflictError when it is queued no longer.
        """
        if self.database.is_full and not (yield Statement(sql.GET, (request.transaction_id,))):
            self.database.require_room()
        chosen = nonce
        if chosen is None:
            rows = yield Statement(sql.LIVE_NONCES, (chain_id, request.sender, lowest_nonce))
            chosen = _first_gap(rows, lowest_nonce)
        stored = _signed(request, sign(chosen), due_at_ms)
        ((changed,),) = yield Statement(sql.UPSERT, _values(stored))
        if not changed:
            raise ConflictError("The transaction is queued no longer.")
        yield TransactionsOwed(due_at_ms)
        return stored

    @adding_transaction
    def keep(
        self, request: SendRequest, chain_id: int | None, signed: SignedTransaction | None, due_at_ms: int
    ) -> Transaction[StoredTransaction]:
        """Keep what is to be sent: queued as it was asked for, or signed already (raw transactions)."""
        stored = _queued(request, chain_id, due_at_ms)
        if signed is not None:
            stored = _signed(request, signed, due_at_ms)
        yield Statement(sql.UPSERT, _values(stored))
        yield TransactionsOwed(due_at_ms)
        return stored

    async def next_nonce(self, chain_id: int, sender: Address, lowest_nonce: int) -> int:
        """The nonce that `reserve` would take, without taking it."""
        rows = await self.database.read(sql.LIVE_NONCES, (chain_id, sender, lowest_nonce))
        return _first_gap(rows, lowest_nonce)

    async def get(self, transaction_id: TransactionId) -> StoredTransaction | None:
        """What has become of one."""
        return _one(await self.database.read(sql.GET, (transaction_id,)))

    @transaction
    def settle_sent(self, transaction_id: TransactionId, now_ms: int) -> Transaction[None]:
        """The node has it: it is sent, and others of its account with the same nonce are replaced."""
        rows = yield Statement(sql.SETTLE_SENT, (transaction_id,))
        for *place, transaction_hash in rows:
            error = f"Transaction {transaction_hash} has its nonce."
            yield Statement(sql.REPLACE_OTHERS, (error, now_ms, *place, transaction_hash))

    async def settle_refused(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        """The node calls it invalid: its nonce is free."""
        await self._write([Statement(sql.SETTLE_REFUSED, (error, now_ms, transaction_id))])

    async def change(
        self, stored: Sequence[StoredTransaction], state: TransactionState, error: str | None, now_ms: int
    ) -> None:
        """These are in the state now, for the reason given, but for those that have left the one that they
        were read in. What becomes signed is due now, and what is forgotten is announced as if it were.
        """
        settled_at_ms = None if state in _LIVE else now_ms
        await self._write(
            [
                Statement(
                    sql.CHANGE_STATE,
                    (state, error, now_ms, settled_at_ms, each.request.transaction_id, each.state),
                )
                for each in stored
            ]
            + ([TransactionsOwed(now_ms)] if state in _TOLD else [])
        )

    async def postpone(
        self, due_at_ms: Mapping[TransactionId, int], error: str, *, is_attempt: bool = True
    ) -> None:
        """These did not reach the node, for the reason given; the next attempts are due then.

        Publishes `TransactionsPostponed` with the first of these times.
        """
        await self._write(
            [
                Statement(sql.POSTPONE, (int(is_attempt), moment_ms, error, transaction_id))
                for transaction_id, moment_ms in due_at_ms.items()
            ]
            + [TransactionsPostponed(moment_ms) for moment_ms in sorted(due_at_ms.values())[:1]]
        )

    async def owing(self, due_at_ms: int) -> Sequence[Address]:
        """The accounts of which something that is owed is due until then."""
        rows = await self.database.read(sql.OWING, (due_at_ms,))
        return list({Address(sender): None for (sender,) in rows})

    async def owed(self, sender: Address) -> Mapping[TransactionId, int]:
        """All that the account owes, due or not, in the order in which it must be sent: by nonce, then as
        asked for; with the number of attempts.
        """
        rows = await self.database.read(sql.OWED, (sender,))
        return {TransactionId(transaction_id): attempts for transaction_id, attempts in rows}

    async def next_due(self) -> int | None:
        """When the next of what is owed is due; None when nothing is owed."""
        due_at_ms: int | None
        ((due_at_ms,),) = await self.database.read(sql.NEXT_DUE)
        return due_at_ms

    async def senders(self, chain_id: int) -> Sequence[Address]:
        """The accounts of which something is signed, sent or mined."""
        rows = await self.database.read(sql.SENDERS, (chain_id,))
        return [Address(sender) for (sender,) in rows]

    async def lowest_sent(self, chain_id: int) -> Mapping[Address, int]:
        """The accounts of which something is sent, with the lowest nonce of that."""
        rows = await self.database.read(sql.LOWEST_SENT, (chain_id,))
        return {Address(sender): nonce for sender, nonce in rows}

    async def followed(self, chain_id: int, sender: Address, from_nonce: int) -> Sequence[StoredTransaction]:
        """What is signed, sent or mined with this nonce or a higher one, by nonce."""
        return _all(await self.database.read(sql.FOLLOWED, (chain_id, sender, from_nonce)))

    async def newest(self, sender: Address | None = None) -> StoredTransaction | None:
        """The newest one, of an account if one is named."""
        if sender is None:
            return _one(await self.database.read(sql.NEWEST))
        return _one(await self.database.read(sql.NEWEST_OF_SENDER, (sender,)))

    async def with_params(self, sender: Address, params: bytes, limit: int) -> Sequence[StoredTransaction]:
        """What the account was asked to send with these params, newest first."""
        return _all(await self.database.read(sql.WITH_PARAMS, (sender, params, limit)))

    async def with_hash(self, transaction_hash: str, limit: int) -> Sequence[StoredTransaction]:
        """Those with this hash (DATA in lower case), newest first."""
        return _all(await self.database.read(sql.WITH_HASH, (transaction_hash, limit)))

    async def waiting(self, sender: Address | None, limit: int) -> Sequence[StoredTransaction]:
        """What is owed, of an account if one is named, as asked for."""
        return _all(await self.database.read(sql.WAITING, (sender, limit)))

    @transaction
    def sweep(self, before_ms: int, limit: int) -> Transaction[int]:
        """Delete what was mined, replaced, refused or forgotten before then; returns how many."""
        return scalar(int, (yield Statement(sql.SWEEP, (before_ms, limit))))

    @transaction
    def _write(self, steps: Iterable[Step]) -> Transaction[None]:
        steps = list(steps)
        for step in steps:  # noqa: UP028  a list takes no rows
            yield step


def _first_gap(rows: Sequence[Row], lowest: int) -> int:
    """The lowest nonce that is not among those in the rows, which are in order and begin with it at best."""
    for (nonce,) in rows:
        if nonce != lowest:
            break
        lowest += 1
    return lowest


def _queued(request: SendRequest, chain_id: int | None, due_at_ms: int) -> StoredTransaction:
    return StoredTransaction(request, chain_id, TransactionState.QUEUED, None, 0, due_at_ms, None)


def _signed(request: SendRequest, signed: SignedTransaction, due_at_ms: int) -> StoredTransaction:
    return StoredTransaction(request, signed.chain_id, TransactionState.SIGNED, signed, 0, due_at_ms, None)


def _values(stored: StoredTransaction) -> tuple[Value, ...]:
    request, signed, caller = stored.request, stored.signed, stored.request.caller
    signature: tuple[Value, ...] = (None, None, None)
    if signed is not None:
        signature = (signed.nonce, signed.transaction_hash, signed.raw)
    return (
        request.transaction_id,
        request.sender,
        request.params,
        request.asked_at_ms,
        caller.address,
        caller.origin,
        caller.request_id,
        stored.chain_id,
        stored.state,
        *signature,
        stored.next_attempt_at_ms,
    )


def _one(rows: Sequence[Row]) -> StoredTransaction | None:
    return _transaction(rows[0]) if rows else None


def _all(rows: Sequence[Row]) -> Sequence[StoredTransaction]:
    return [_transaction(row) for row in rows]


def _transaction(row: Row) -> StoredTransaction:
    transaction_id, sender, params, asked_at_ms, address, origin, request_id, *rest = row
    chain_id, state, nonce, transaction_hash, raw, attempts, next_attempt_at_ms, error = rest
    caller = Caller(address, origin, request_id)
    signed = None
    if nonce is not None:
        signed = SignedTransaction(chain_id, nonce, transaction_hash, raw)
    return StoredTransaction(
        request=SendRequest(
            TransactionId(transaction_id),
            Address(sender),
            params,
            asked_at_ms,
            caller,
        ),
        chain_id=chain_id,
        state=TransactionState(state),
        signed=signed,
        attempts=attempts,
        next_attempt_at_ms=next_attempt_at_ms,
        error=error,
    )
