"""wallet_getQueuedTransaction and wallet_getQueuedTransactions: the states of requests."""

from collections.abc import Sequence
from typing import Any

import orjson

from bridge_server.ethereum.hex_data import hex_of, quantity
from bridge_server.wallet import parameters
from bridge_server.wallet.errors import InvalidParamsError
from bridge_server.wallet.models import Address, Caller, StoredTransaction, TransactionId
from bridge_server.wallet.rpc.method_table import MethodTable
from bridge_server.wallet.transactions.requests import params_text, read_signed, read_transaction
from bridge_server.wallet.transactions.store import TransactionStore

_NEWEST = "wallet_getQueuedTransaction"
_WAITING = "wallet_getQueuedTransactions"

_LISTED = 1_000

_ADDRESS_CHARACTERS = 42
_HASH_CHARACTERS = 66


class QueuedTransactions:
    """Looks up transactions by account, id, hash or the parameter of the request."""

    def __init__(self, store: TransactionStore) -> None:
        self._store = store
        self.table = MethodTable({_NEWEST: self.newest, _WAITING: self.waiting})

    async def newest(self, params: parameters.Params, _: Caller) -> dict[str, Any] | None:
        """wallet_getQueuedTransaction [which?]: the newest transaction that matches, or None.

        `which` is an account, the id or the hash of a transaction, or the parameter of the send. Raises
        InvalidParamsError.
        """
        [which] = parameters.arguments(_NEWEST, params, 0, "which?")
        if _names_account(which):
            found = await self._store.newest(_account(which))
        else:
            found = next(iter(await self._matching(which, 1)), None)
        return None if found is None else write_queued(found)

    async def waiting(self, params: parameters.Params, _: Caller) -> list[dict[str, Any]]:
        """wallet_getQueuedTransactions [which?]: all that match, in the order of the requests.

        An account, or None for all accounts, matches only transactions that the node does not have yet.
        Raises InvalidParamsError.
        """
        [which] = parameters.arguments(_WAITING, params, 0, "which?")
        if _names_account(which):
            found = await self._store.waiting(_account(which), _LISTED)
        else:
            found = (await self._matching(which, _LISTED))[::-1]
        return [write_queued(each) for each in found]

    async def _matching(self, which: Any, limit: int) -> Sequence[StoredTransaction]:
        """The transactions with the id, the hash or the parameter, newest first."""
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
    """Whether this is an account, or None, which stands for all accounts."""
    return which is None or (
        isinstance(which, str) and which[:2] == "0x" and len(which) == _ADDRESS_CHARACTERS
    )


def _account(which: Any) -> Address | None:
    return None if which is None else parameters.address(which, "params[0]")


def write_queued(stored: StoredTransaction) -> dict[str, Any]:
    """A stored transaction as JSON."""
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
