"""The meaning of a node's error when it does not take a transaction. Each kind of node has its own words."""

import re

from bridge_server.wallet.errors import NodeError

# geth, erigon, reth, nethermind, besu, openethereum, anvil, and earlier versions of them.
_KNOWN = re.compile(
    r"already ?known|\bknown transaction|already (?:been )?imported|same hash"
    r"|already (?:in|exists in) (?:the )?(?:mem|tx|transaction )?pool",
    re.IGNORECASE,
)
# The node cannot take it now; nothing is said of the transaction itself.
_PASSING_CODES = frozenset({-32603, -32005, -32002, 429})
_PASSING = re.compile(
    r"pool is full|pool limit|queue is full|txpool.*overflow|timed? ?out|too many requests|rate limit"
    r"|syncing|not synced|try again|temporarily|unavailable|internal error|overloaded|shutting down",
    re.IGNORECASE,
)
# These are about the transaction, whatever code comes with them: besu's -32005 is too much gas.
_INVALID = re.compile(
    r"nonce|underpriced|insufficient|intrinsic|gas ?limit|gas ?price|fee|balance|signature|chain ?id|invalid"
    r"|exceeds|rlp|revert|size|sender",
    re.IGNORECASE,
)
# These may pass: the account gets funds, the base fee falls, the transaction with its nonce goes.
_PRICE = re.compile(
    r"underpriced|insufficient ?(?:funds|balance)|account balance|fee ?too ?low|base ?fee|gas ?price"
    r"|(?:fee|tip)\b.*\b(?:low|less|below|minimum)|could not replace",
    re.IGNORECASE,
)


def says_known(error: NodeError) -> bool:
    """Whether the node has the transaction already."""
    return _KNOWN.search(error.detail) is not None


def says_not_now(error: NodeError) -> bool:
    """Whether the node may take the transaction at another time, unchanged."""
    if _PASSING.search(error.detail):
        return True
    return error.rpc_code in _PASSING_CODES and _INVALID.search(error.detail) is None


def says_not_at_this_price(error: NodeError) -> bool:
    """Whether an invalid transaction is so only for its price or its account's funds, which change."""
    return _PRICE.search(error.detail) is not None
