"""Which transaction a client asks about, and what it is told (wallet_getQueuedTransaction)."""

import json
from collections.abc import Sequence
from typing import Any

import orjson

from bridge_server.ethereum.hex_data import hex_of, quantity
from bridge_server.ethereum.raw_transactions import RawTransaction, RawTransactionError, read_raw_transaction
from bridge_server.wallet import parameters
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address, Caller, StoredTransaction, TransactionId
from bridge_server.wallet.transactions.requests import read_transaction
from bridge_server.wallet.transactions.store import TransactionStore

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

    async def newest(self, params: parameters.Params, _: Caller) -> dict[str, Any] | None:
        """wallet_getQueuedTransaction [which?]: the newest transaction asked for that matches, or None.

        `which` is an account, the id or the hash of a transaction, or the parameter of the send. Raises
        InvalidParamsError.
        """
        [which] = parameters.arguments("wallet_getQueuedTransaction", params, 0, "which?")
        if _names_account(which):
            found = await self._store.newest(_account(which))
        else:
            found = next(iter(await self._matching(which, 1)), None)
        return None if found is None else write_queued(found)

    async def waiting(self, params: parameters.Params, _: Caller) -> list[dict[str, Any]]:
        """wallet_getQueuedTransactions [which?]: all that match, as they were asked for.

        Of an account, or of all, that is what the node does not have yet; otherwise whatever has become of
        it. Raises InvalidParamsError.
        """
        [which] = parameters.arguments("wallet_getQueuedTransactions", params, 0, "which?")
        if _names_account(which):
            found = await self._store.waiting(_account(which), _LISTED)
        else:
            found = (await self._matching(which, _LISTED))[::-1]
        return [write_queued(each) for each in found]

    async def sweep(self, now_ms: int) -> int:
        """Delete a slice of what was done long ago; returns how many."""
        return await self._store.sweep(now_ms - self._kept_ms, _SWEEP_SLICE)

    async def _matching(self, which: Any, limit: int) -> Sequence[StoredTransaction]:
        """Those with the id, the hash or the parameter, newest first."""
        if isinstance(which, dict):
            return await self._store.with_params(read_transaction(which).sender, params_text(which), limit)
        if not isinstance(which, str):
            raise InvalidParamsError(
                "params[0] must be an account, the id or hash of a transaction, or the parameter of its send."
            )
        if not which.startswith("0x"):
            found = await self._store.get(TransactionId(which))
            return [] if found is None else [found]
        is_hash = len(which) == _HASH_CHARACTERS
        transaction_hash = which.lower() if is_hash else hex_of(read_signed(which).hash)
        return await self._store.with_hash(transaction_hash, limit)


def _names_account(which: Any) -> bool:
    """Whether it is an account, or None for all of them."""
    return which is None or (
        isinstance(which, str) and which[:2] == "0x" and len(which) == _ADDRESS_CHARACTERS
    )


def _account(which: Any) -> Address | None:
    return None if which is None else parameters.address(which, "params[0]")


def read_signed(value: Any) -> RawTransaction:
    """Read the parameter of eth_sendRawTransaction; raises InvalidParamsError."""
    try:
        return read_raw_transaction(parameters.data(value, "params[0]"))
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
