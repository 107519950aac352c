"""The wallet's endpoints in OpenAPI. Its methods are in the OpenRPC document (docs/protocol.md, D)."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field, WithJsonSchema

from bridge_server.web.shapes import ABSENT, AnswerShape, DescribedAnswer, Operation

_MOST_CALLS = 100

CallName = Annotated[
    str | float | None, WithJsonSchema({"type": ["string", "number", "null"], "examples": [1]})
]


class RpcCallShape(AnswerShape):
    """A call. Without an id it is a notification, which gets no response."""

    jsonrpc: Literal["2.0"]
    id: CallName = ABSENT
    method: str
    params: list[Any] | dict[str, Any] = ABSENT


class RpcFailureAnswer(AnswerShape):
    """The failure of a call."""

    code: int
    message: str
    data: Any = ABSENT


class RpcResultAnswer(AnswerShape):
    """The response to a call that succeeded."""

    jsonrpc: Literal["2.0"]
    id: CallName
    result: Any


class RpcErrorAnswer(AnswerShape):
    """The response to a call that failed."""

    jsonrpc: Literal["2.0"]
    id: CallName
    error: RpcFailureAnswer


RPC_OPERATIONS: Mapping[str, Operation] = {
    "rpc": Operation(
        tag="Wallet",
        summary="Call methods of the wallet",
        text="JSON-RPC 2.0, one call or a batch of at most 100, whose order is kept. Methods that the wallet "
        "does not have go to the Ethereum node. Failures are JSON-RPC errors with status 200: -32700 and "
        "-32600 to -32603, -32000 to -32005 (EIP-1474), 4001 rejected, 4100 locked, 4900 no node, 4901 "
        "another chain, 4902 unknown chain. A call may take as long as a person needs to approve it.",
        answers=(
            DescribedAnswer(
                200,
                "The responses; an error is one, too.",
                RpcResultAnswer | RpcErrorAnswer | list[RpcResultAnswer | RpcErrorAnswer],
            ),
            DescribedAnswer(204, "There were only notifications."),
        ),
        body=RpcCallShape | Annotated[list[RpcCallShape], Field(min_length=1, max_length=_MOST_CALLS)],
        body_example={"jsonrpc": "2.0", "id": 1, "method": "eth_accounts", "params": []},
        needs_database=False,
    ),
    "openrpc": Operation(
        tag="Wallet",
        summary="The wallet's methods",
        text="The OpenRPC document: each method with its parameters, result, errors and an example. "
        "The method `rpc.discover` answers it, too.",
        answers=(
            DescribedAnswer(200, "The document.", dict[str, Any]),
            DescribedAnswer(304, "It has not changed since the ETag of If-None-Match."),
        ),
        needs_database=False,
    ),
}
