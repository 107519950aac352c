"""Transactions as rows of their table, and back."""

from collections.abc import Sequence

from bridge_server.storage.database import Row, Value
from bridge_server.wallet.models import (
    Address,
    Caller,
    SendRequest,
    SignedTransaction,
    StoredTransaction,
    TransactionId,
    TransactionState,
)


def queued_transaction(request: SendRequest, chain_id: int | None, due_at_ms: int) -> StoredTransaction:
    return StoredTransaction(request, chain_id, TransactionState.QUEUED, None, 0, due_at_ms, None)


def signed_transaction(request: SendRequest, signed: SignedTransaction, due_at_ms: int) -> StoredTransaction:
    return StoredTransaction(request, signed.chain_id, TransactionState.SIGNED, signed, 0, due_at_ms, None)


def values_of(stored: StoredTransaction) -> tuple[Value, ...]:
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


def read_one(rows: Sequence[Row]) -> StoredTransaction | None:
    return _read(rows[0]) if rows else None


def read_all(rows: Sequence[Row]) -> Sequence[StoredTransaction]:
    return [_read(row) for row in rows]


def _read(row: Row) -> StoredTransaction:
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
