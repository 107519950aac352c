"""The OpenRPC document of the wallet (https://spec.open-rpc.org): every method, made from its row."""

from typing import Any

from bridge_server.version import NAME, REPOSITORY, VERSION
from bridge_server.wallet.rpc.described_method import DescribedMethod, MethodParameter
from bridge_server.wallet.rpc.described_methods import METHODS
from bridge_server.wallet.rpc.described_shapes import SHAPES
from bridge_server.wallet.rpc.rpc_errors import (
    CHAIN_DISCONNECTED,
    DISCONNECTED,
    INVALID_STATE,
    LIMIT_EXCEEDED,
    RESOURCE_NOT_FOUND,
    RESOURCE_UNAVAILABLE,
    TRANSACTION_REJECTED,
    UNAUTHORIZED,
    UNRECOGNIZED_CHAIN,
    USER_REJECTED,
)
from bridge_server.web.json_rpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    PARSE_ERROR,
)

OPENRPC = "1.3.2"
"""The version of the specification."""

MEANING_OF_CODE: dict[int, str] = {
    PARSE_ERROR: "The body is not JSON",
    INVALID_REQUEST: "The request is not a JSON-RPC 2.0 request",
    METHOD_NOT_FOUND: "There is no such method, and the node is not asked for it",
    INVALID_PARAMS: "A parameter is not valid; the message names its place",
    INTERNAL_ERROR: "The server failed; the log has the reason by the request id",
    INVALID_STATE: "The state of the thing forbids the call",
    RESOURCE_NOT_FOUND: "There is no such thing",
    RESOURCE_UNAVAILABLE: "The server cannot answer the call now",
    TRANSACTION_REJECTED: "The node refused the transaction, in its words",
    LIMIT_EXCEEDED: "A limit is used up for now",
    USER_REJECTED: "The request was rejected, or not approved in time",
    UNAUTHORIZED: "The account is locked or unknown, or the passphrase is wrong",
    DISCONNECTED: "There is no node, or the chain is not known",
    CHAIN_DISCONNECTED: "The node is on another chain",
    UNRECOGNIZED_CHAIN: "The wallet does not go to another chain",
}
"""The meaning of each error code that the wallet answers (EIP-1474, EIP-1193, EIP-3326)."""

_DESCRIPTION = (
    "JSON-RPC 2.0 at POST /rpc: signatures, transactions and accounts of the wallet. Parameters go by "
    "position. Any other method is forwarded to the node of the setting node_url, except those that sign, "
    "send or handle keys, which are the error -32601. A caller sends the setting rpc_token as a bearer token."
)
_EVERY_METHOD = (INVALID_PARAMS, INTERNAL_ERROR)


def openrpc_document() -> dict[str, Any]:
    """The document, as JSON values."""
    return {
        "openrpc": OPENRPC,
        "info": {
            "title": f"{NAME}: wallet",
            "version": VERSION,
            "description": _DESCRIPTION,
            "license": {"name": "MIT", "url": f"{REPOSITORY}/blob/main/LICENSE"},
        },
        "servers": [{"name": NAME, "url": "/rpc"}],
        "methods": [_method(row) for row in METHODS],
        "components": {"schemas": SHAPES},
        "externalDocs": {"description": "The wallet's pages on this server", "url": "/docs/wallet"},
    }


def _method(row: DescribedMethod) -> dict[str, Any]:
    codes = (*_EVERY_METHOD, *row.errors)
    return {
        "name": row.name,
        "tags": [{"name": row.tag}],
        "summary": row.summary,
        "paramStructure": "by-position",
        "params": [_parameter(each) for each in row.parameters],
        "result": {"name": row.result_name, "schema": row.result},
        "errors": [{"code": code, "message": MEANING_OF_CODE[code]} for code in codes],
        "examples": [_example(row)],
    }


def _parameter(parameter: MethodParameter) -> dict[str, Any]:
    described: dict[str, Any] = {
        "name": parameter.name,
        "required": parameter.required,
        "schema": parameter.schema,
    }
    return {**described, "summary": parameter.summary} if parameter.summary else described


def _example(row: DescribedMethod) -> dict[str, Any]:
    values = zip(row.parameters, row.example, strict=False)  # parameters at the end may be left out
    return {
        "name": row.name,
        "params": [{"name": parameter.name, "value": value} for parameter, value in values],
        "result": {"name": row.result_name, "value": row.example_result},
    }
