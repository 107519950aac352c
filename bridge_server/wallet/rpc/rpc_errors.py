"""Failures as JSON-RPC errors: the one table from kinds of failure to codes.

The codes are defined by EIP-1474, EIP-1193 and EIP-3326.
"""

import structlog

from bridge_server.kernel.errors import (
    BridgeError,
    ConflictError,
    ForbiddenError,
    GoneError,
    InvalidInputError,
    LimitError,
    NotAuthenticatedError,
    NotFoundError,
    TooLargeError,
    TooSlowError,
    UnavailableError,
    UnsupportedMediaError,
    UpstreamError,
)
from bridge_server.wallet.errors import (
    MethodNotFoundError,
    NoChainError,
    NodeError,
    NoNodeError,
    SignatureRejectedError,
    TransactionRefusedError,
    UnrecognizedChainError,
    WrongChainError,
)
from bridge_server.web.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, RpcError

INVALID_STATE = -32000
RESOURCE_NOT_FOUND = -32001
RESOURCE_UNAVAILABLE = -32002
TRANSACTION_REJECTED = -32003
LIMIT_EXCEEDED = -32005
USER_REJECTED = 4001
UNAUTHORIZED = 4100
DISCONNECTED = 4900
CHAIN_DISCONNECTED = 4901
UNRECOGNIZED_CHAIN = 4902

CODE_OF_KIND: dict[type[BridgeError], int] = {
    InvalidInputError: INVALID_PARAMS,
    TooLargeError: INVALID_PARAMS,
    UnsupportedMediaError: INVALID_PARAMS,
    NotAuthenticatedError: UNAUTHORIZED,
    ForbiddenError: UNAUTHORIZED,
    SignatureRejectedError: USER_REJECTED,
    NotFoundError: RESOURCE_NOT_FOUND,
    GoneError: RESOURCE_NOT_FOUND,
    MethodNotFoundError: METHOD_NOT_FOUND,
    ConflictError: INVALID_STATE,
    WrongChainError: CHAIN_DISCONNECTED,
    UnrecognizedChainError: UNRECOGNIZED_CHAIN,
    TransactionRefusedError: TRANSACTION_REJECTED,
    LimitError: LIMIT_EXCEEDED,
    UnavailableError: RESOURCE_UNAVAILABLE,
    TooSlowError: RESOURCE_UNAVAILABLE,
    UpstreamError: RESOURCE_UNAVAILABLE,
    NoNodeError: DISCONNECTED,
    NoChainError: DISCONNECTED,
}

log = structlog.get_logger()


def code_of(error: BridgeError) -> int:
    """The JSON-RPC code of a failure, by the nearest kind that the table knows; a node's own stays."""
    if isinstance(error, NodeError):
        return error.rpc_code
    return next(CODE_OF_KIND[kind] for kind in type(error).__mro__ if kind in CODE_OF_KIND)


def rpc_error_of(error: Exception, method: str, request_id: str) -> RpcError:
    """The error object for a failure in a method.

    An unexpected exception is logged, and the error object has no detail of it.
    """
    if isinstance(error, NodeError):
        return RpcError(error.rpc_code, error.detail, error.data, error.has_data)
    if isinstance(error, TransactionRefusedError):
        return RpcError(TRANSACTION_REJECTED, error.detail, error.data, has_data=error.data is not None)
    if isinstance(error, BridgeError):
        return RpcError(code_of(error), error.detail)
    log.error("rpc_call_failed", exc_info=error, method=method, request_id=request_id)
    return RpcError(INTERNAL_ERROR, "The server failed. The request id finds the reason in its log.")
