"""News of the chain in the calls of clients: it was set back, or a transaction is in a block."""

import re

from bridge_server.wallet.errors import NodeError
from bridge_server.wallet.models import RpcCall
from bridge_server.wallet.node.answers import Answer

# Methods of development nodes that give them another history, or take back transactions.
_SETS_BACK = re.compile(
    r"(?:anvil|hardhat)_(?:reset|revert|loadState|setNonce|drop(?:All)?Transactions?|removePoolTransactions)"
    r"|(?:anvil|hardhat)_(?:rollback|reorg)|evm_revert|evm_setAccountNonce|debug_setHead"
)

# Methods whose answers name the block of a transaction.
_NAMES_BLOCK = frozenset({"eth_getTransactionReceipt", "eth_getTransactionByHash"})
_BLOCK_NUMBER = re.compile(rb'"blockNumber"\s*:\s*"')


def sets_back(call: RpcCall) -> bool:
    """Whether the call is meant to set the chain back."""
    return _SETS_BACK.fullmatch(call.method) is not None


def has_set_back(call: RpcCall, answer: Answer) -> bool:
    """Whether the call has set the chain back; evm_revert answers false without such a snapshot."""
    is_done = not isinstance(answer, NodeError) and answer != b"false"
    return is_done and sets_back(call)


def mined_hash(call: RpcCall, answer: Answer) -> str | None:
    """The hash of the call, if the answer names its block."""
    if call.method not in _NAMES_BLOCK or isinstance(answer, NodeError):
        return None
    if not isinstance(call.params, list) or len(call.params) != 1:
        return None
    (transaction_hash,) = call.params
    is_mined = _BLOCK_NUMBER.search(answer) is not None
    return transaction_hash.lower() if is_mined and isinstance(transaction_hash, str) else None
