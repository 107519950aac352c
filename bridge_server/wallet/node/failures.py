"""Failures of the node: the meaning of its errors, and failures that a test orders."""

import asyncio
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

import orjson

from bridge_server.wallet.models import NodeError, NoNodeError

_SERVER_ERROR = -32_000
_OK = 200

# Each kind of node has its own words: geth, erigon, reth, nethermind, besu, openethereum, anvil, and earlier
# versions of them. These say that it has the transaction already.
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


# Failures of the node that a test orders: the node is not asked, or asked later.


class NodeFailure(NamedTuple):
    """A failure of one request: it is delayed, and then fails with a JSON-RPC error of the message `answer`,
    with an HTTP status, or, with `drop`, without an answer. A mere delay lets it reach the node.
    """

    delay_ms: int = 0
    drop: bool = False
    status: int | None = None
    answer: str | None = None


FailureOf: TypeAlias = Callable[[Sequence[str]], NodeFailure | None]
"""The failure that strikes the next request, which calls these methods."""


async def ordered_answer(body: bytes, failure_of: FailureOf) -> tuple[int, bytes] | None:
    """The status and the body that take the place of the node's; None when the node is to be asked. Raises
    NoNodeError.
    """
    document = orjson.loads(body)
    calls = document if isinstance(document, list) else [document]
    failure = failure_of([call["method"] for call in calls])
    if failure is None:
        return None
    if failure.delay_ms:
        await asyncio.sleep(failure.delay_ms / 1_000)
    if failure.drop:
        raise NoNodeError("The node cannot be reached: a test has ordered it.")
    if failure.answer is not None:
        answers = [_error(call, failure.answer) for call in calls]
        return failure.status or _OK, orjson.dumps(answers if isinstance(document, list) else answers[0])
    return None if failure.status is None else (failure.status, b"")


def _error(call: dict[str, Any], message: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": call["id"], "error": {"code": _SERVER_ERROR, "message": message}}
