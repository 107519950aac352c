"""Transactions that were asked for, in SQL."""

from __future__ import annotations  # those of inner functions would be evaluated at every call

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import cast

from bridge_server.kernel.errors import ConflictError
from bridge_server.storage import wallet_sql as sql
from bridge_server.storage.database import Announcement, Database, Row, Statement, Transaction, Value
from bridge_server.wallet.models import (
    Address,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
    TransactionState,
)

_LIVE = (TransactionState.SIGNED, TransactionState.SENT)

# Owed from now on, or a reason to look at what other accounts have sent.
_TOLD = (TransactionState.SIGNED, TransactionState.FORGOTTEN)


class SqlTransactionStore:
    """Implements the wallet's store of transactions on any database that speaks the portable SQL."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def reserve(
        self,
        request: SendRequest,
        chain_id: int,
        nonce: int | None,
        lowest_nonce: int,
        sign: Callable[[int], SignedTransaction],
        due_at_ms: int,
    ) -> StoredTransaction:
        def work() -> Transaction[StoredTransaction]:
            if self._database.is_full and not (yield Statement(sql.GET, (request.transaction_id,))):
                self._database.require_room()
            chosen = nonce
            if chosen is None:
                rows = yield Statement(sql.LIVE_NONCES, (chain_id, request.sender, lowest_nonce))
                chosen = _first_gap(rows, lowest_nonce)
            stored = _signed(request, sign(chosen), due_at_ms)
            ((changed,),) = yield Statement(sql.UPSERT, _values(stored))
            if not changed:
                raise ConflictError("The transaction is queued no longer.")
            yield _due(due_at_ms)
            return stored

        return await self._database.transaction(work)

    async def keep(
        self, request: SendRequest, chain_id: int | None, signed: SignedTransaction | None, due_at_ms: int
    ) -> StoredTransaction:
        stored = _queued(request, chain_id, due_at_ms)
        if signed is not None:
            stored = _signed(request, signed, due_at_ms)

        def work() -> Transaction[StoredTransaction]:
            yield Statement(sql.UPSERT, _values(stored))
            yield _due(due_at_ms)
            return stored

        return await self._database.transaction(work, adds=True)

    async def next_nonce(self, chain_id: int, sender: Address, lowest_nonce: int) -> int:
        rows = await self._database.read(sql.LIVE_NONCES, (chain_id, sender, lowest_nonce))
        return _first_gap(rows, lowest_nonce)

    async def get(self, transaction_id: TransactionId) -> StoredTransaction | None:
        return _one(await self._database.read(sql.GET, (transaction_id,)))

    async def settle_sent(self, transaction_id: TransactionId, now_ms: int) -> None:
        def work() -> Transaction[None]:
            rows = yield Statement(sql.SETTLE_SENT, (transaction_id,))
            for *place, transaction_hash in rows:
                error = f"Transaction {cast(str, transaction_hash)} has its nonce."
                yield Statement(sql.REPLACE_OTHERS, (error, now_ms, *place, transaction_hash))

        await self._database.transaction(work)

    async def settle_refused(self, transaction_id: TransactionId, error: str, now_ms: int) -> None:
        await self._write([Statement(sql.SETTLE_REFUSED, (error, now_ms, transaction_id))])

    async def change(
        self, stored: Sequence[StoredTransaction], state: TransactionState, error: str | None, now_ms: int
    ) -> None:
        settled_at_ms = None if state in _LIVE else now_ms
        await self._write(
            [
                Statement(
                    sql.CHANGE_STATE,
                    (state, error, now_ms, settled_at_ms, each.request.transaction_id, each.state),
                )
                for each in stored
            ]
            + ([_due(now_ms)] if state in _TOLD else [])
        )

    async def postpone(
        self, due_at_ms: Mapping[TransactionId, int], error: str, *, is_attempt: bool = True
    ) -> None:
        await self._write(
            [
                Statement(sql.POSTPONE, (int(is_attempt), moment_ms, error, transaction_id))
                for transaction_id, moment_ms in due_at_ms.items()
            ]
            + [Announcement(("postponed", str(moment_ms))) for moment_ms in sorted(due_at_ms.values())[:1]]
        )

    async def owing(self, due_at_ms: int) -> Sequence[Address]:
        rows = await self._database.read(sql.OWING, (due_at_ms,))
        return list({Address(cast(str, sender)): None for (sender,) in rows})

    async def owed(self, sender: Address) -> Mapping[TransactionId, int]:
        rows = await self._database.read(sql.OWED, (sender,))
        return {
            TransactionId(cast(str, transaction_id)): cast(int, attempts) for transaction_id, attempts in rows
        }

    async def next_due(self) -> int | None:
        ((due_at_ms,),) = await self._database.read(sql.NEXT_DUE)
        return cast(int | None, due_at_ms)

    async def senders(self, chain_id: int) -> Sequence[Address]:
        rows = await self._database.read(sql.SENDERS, (chain_id,))
        return [Address(cast(str, sender)) for (sender,) in rows]

    async def lowest_sent(self, chain_id: int) -> Mapping[Address, int]:
        rows = await self._database.read(sql.LOWEST_SENT, (chain_id,))
        return {Address(cast(str, sender)): cast(int, nonce) for sender, nonce in rows}

    async def followed(self, chain_id: int, sender: Address, from_nonce: int) -> Sequence[StoredTransaction]:
        return _all(await self._database.read(sql.FOLLOWED, (chain_id, sender, from_nonce)))

    async def newest(self, sender: Address | None = None) -> StoredTransaction | None:
        if sender is None:
            return _one(await self._database.read(sql.NEWEST))
        return _one(await self._database.read(sql.NEWEST_OF_SENDER, (sender,)))

    async def with_params(self, sender: Address, params: bytes, limit: int) -> Sequence[StoredTransaction]:
        return _all(await self._database.read(sql.WITH_PARAMS, (sender, params, limit)))

    async def with_hash(self, transaction_hash: str, limit: int) -> Sequence[StoredTransaction]:
        return _all(await self._database.read(sql.WITH_HASH, (transaction_hash, limit)))

    async def waiting(self, sender: Address | None, limit: int) -> Sequence[StoredTransaction]:
        return _all(await self._database.read(sql.WAITING, (sender, limit)))

    async def sweep(self, before_ms: int, limit: int) -> int:
        def work() -> Transaction[int]:
            ((deleted,),) = yield Statement(sql.SWEEP, (before_ms, limit))
            return cast(int, deleted)

        return await self._database.transaction(work)

    async def _write(self, steps: Iterable[Statement | Announcement]) -> None:
        steps = list(steps)

        def work() -> Transaction[None]:
            for step in steps:  # noqa: UP028  a list takes no rows
                yield step

        await self._database.transaction(work)


def _due(due_at_ms: int) -> Announcement:
    return Announcement(("transactions", str(due_at_ms)))


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
    caller = Caller(cast(str, address), cast(str | None, origin), cast(str, request_id))
    signed = None
    if nonce is not None:
        signed = SignedTransaction(
            cast(int, chain_id), cast(int, nonce), cast(str, transaction_hash), cast(str, raw)
        )
    return StoredTransaction(
        request=SendRequest(
            TransactionId(cast(str, transaction_id)),
            Address(cast(str, sender)),
            cast(bytes, params),
            cast(int, asked_at_ms),
            caller,
        ),
        chain_id=cast(int | None, chain_id),
        state=TransactionState(cast(str, state)),
        signed=signed,
        attempts=cast(int, attempts),
        next_attempt_at_ms=cast(int, next_attempt_at_ms),
        error=cast(str | None, error),
    )
