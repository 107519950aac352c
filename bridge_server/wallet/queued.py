"""Which transaction a client asks about, and what it is told (wallet_getQueuedTransaction)."""

import json
from typing import Any

import orjson

from bridge_server.ethereum.hex_data import quantity
from bridge_server.ethereum.raw_transactions import RawTransaction, RawTransactionError, read_raw_transaction
from bridge_server.wallet import wire
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address, Caller, StoredTransaction, TransactionId
from bridge_server.wallet.requests import read_transaction
from bridge_server.wallet.store import TransactionStore

_LISTED = 1_000
_SWEEP_SLICE = 500

_ADDRESS_CHARACTERS = 42
_HASH_CHARACTERS = 66


def params_text(value: Any) -> bytes:
    """The parameter of a send as JSON: the same for the same parameter, whatever the order of its members.

    Integers may have any size.
    """
    return json.dumps(value, ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode()


class QueuedTransactions:
    """Tells of transactions, those that are done until `kept_ms` after that."""

    def __init__(self, store: TransactionStore, kept_ms: int) -> None:
        self._store = store
        self._kept_ms = kept_ms

    async def newest(self, params: wire.Params, _: Caller) -> dict[str, Any] | None:
        """wallet_getQueuedTransaction [which?]: the newest transaction asked for that matches, or None.

        `which` is an account, the id or the hash of a transaction, or the parameter of the send. Raises
        InvalidParamsError.
        """
        [which] = wire.arguments("wallet_getQueuedTransaction", params, 0, "which?")
        found = await self._find(which)
        return None if found is None else write_queued(found)

    async def waiting(self, params: wire.Params, _: Caller) -> list[dict[str, Any]]:
        """wallet_getQueuedTransactions [account?]: what the node does not have yet, as it was asked for.

        Raises InvalidParamsError.
        """
        [account] = wire.arguments("wallet_getQueuedTransactions", params, 0, "account?")
        sender = None if account is None else wire.address(account, "params[0]")
        return [write_queued(each) for each in await self._store.waiting(sender, _LISTED)]

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what was done long ago; returns how many."""
        return await self._store.sweep(now_ms - self._kept_ms, _SWEEP_SLICE)

    async def _find(self, which: Any) -> StoredTransaction | None:
        if which is None:
            return await self._store.newest()
        if isinstance(which, dict):
            return await self._store.newest(read_transaction(which).sender, params_text(which))
        if not isinstance(which, str):
            raise InvalidParamsError(
                "params[0] must be an account, the id or hash of a transaction, or the parameter of its send."
            )
        if not which.startswith("0x"):
            return await self._store.get(TransactionId(which))
        if len(which) == _ADDRESS_CHARACTERS:
            return await self._store.newest(wire.address(which, "params[0]"))
        if len(which) == _HASH_CHARACTERS:
            return await self._store.with_hash(which.lower())
        return await self._store.newest(Address(read_signed(which).sender), params_text(which))


def read_signed(value: Any) -> RawTransaction:
    """Read the parameter of eth_sendRawTransaction; raises InvalidParamsError."""
    try:
        return read_raw_transaction(wire.data(value, "params[0]"))
    except RawTransactionError as error:
        raise InvalidParamsError(f"params[0] is not a signed transaction: {error}.") from None


def write_queued(stored: StoredTransaction) -> dict[str, Any]:
    """A transaction that was asked for, as JSON."""
    signed = stored.signed
    return {
        "id": stored.request.transaction_id,
        "state": stored.state,
        "from": stored.request.sender,
        "hash": None if signed is None else signed.transaction_hash,
        "nonce": None if signed is None else quantity(signed.nonce),
        "chainId": None if stored.chain_id is None else quantity(stored.chain_id),
        "transaction": orjson.Fragment(stored.request.params),
        "error": stored.error,
        "attempts": stored.attempts,
    }
