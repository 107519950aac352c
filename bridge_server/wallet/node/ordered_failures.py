"""Failures of the node that a test orders: the node is not asked, or asked later."""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import orjson

from bridge_server.wallet.errors import NoNodeError

_SERVER_ERROR = -32_000
_OK = 200


@dataclass(frozen=True, slots=True)
class NodeFailure:
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
    """The status and the body that take the place of the node's; None when the node is to be asked.

    Raises NoNodeError.
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
