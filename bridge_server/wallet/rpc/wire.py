"""JSON of the wallet's methods (docs/protocol.md, D): parameters to values, failures to errors."""

from collections.abc import Sequence
from contextlib import suppress
from typing import Annotated, Any, Literal, NotRequired

import structlog
from pydantic import Field, WithJsonSchema

from bridge_server.ethereum.address import HexError, address_of, data_of
from bridge_server.ethereum.typed_data import TypedData, TypedDataError, read_typed_data
from bridge_server.kernel import errors
from bridge_server.wallet import models
from bridge_server.wallet.models import Address, Caller, InvalidParamsError
from bridge_server.wallet.parameters import Params, arguments, chain_id, checked, text
from bridge_server.web.bodies import parse_value
from bridge_server.web.json_rpc import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND, MOST_VALUES, RpcError
from bridge_server.web.shapes import TypedDict

_MOST_CALLS = 100

CallName = Annotated[
    str | float | None, WithJsonSchema({"type": ["string", "number", "null"], "examples": [1]})
]


class RpcCallShape(TypedDict):
    """A call. Without an id it is a notification, which gets no response."""

    jsonrpc: Literal["2.0"]
    id: NotRequired[CallName]
    method: str
    params: NotRequired[list[Any] | dict[str, Any]]


class RpcFailureAnswer(TypedDict):
    """The failure of a call."""

    code: int
    message: str
    data: NotRequired[Any]


class RpcResultAnswer(TypedDict):
    """The response to a call that succeeded."""

    jsonrpc: Literal["2.0"]
    id: CallName
    result: Any


class RpcErrorAnswer(TypedDict):
    """The response to a call that failed."""

    jsonrpc: Literal["2.0"]
    id: CallName
    error: RpcFailureAnswer


RpcBody: Any = RpcCallShape | Annotated[list[RpcCallShape], Field(min_length=1, max_length=_MOST_CALLS)]
RpcAnswer: Any = RpcResultAnswer | RpcErrorAnswer | list[RpcResultAnswer | RpcErrorAnswer]

_ORDER = " personal_sign takes [message, account]; eth_sign and eth_signTypedData take the account first."
_SEE_ACCOUNTS = "eth_accounts"


def read_personal_sign(params: Params) -> tuple[bytes, Address, str | None]:
    """The message, the account, and the passphrase if there is one."""
    message, account, passphrase = arguments("personal_sign", params, 2, "message", "account", "passphrase?")
    return (
        message_of(message, "params[0]"),
        _signer(account, "params[1]", message),
        None if passphrase is None else text(passphrase, "params[2]"),
    )


def read_eth_sign(params: Params) -> tuple[bytes, Address]:
    """The message and the account."""
    account, message = arguments("eth_sign", params, 2, "account", "message")
    return message_of(message, "params[1]"), _signer(account, "params[0]", message)


def read_sign_typed_data(method: str, params: Params) -> tuple[Address, TypedData, Any]:
    """The account, the typed data, and the JSON object that it was read from (a string is parsed)."""
    account, sent = arguments(method, params, 2, "account", "typed data")
    signer = _signer(account, "params[0]", sent)
    document = parse_value(sent.encode(), "params[1]", MOST_VALUES) if isinstance(sent, str) else sent
    try:
        return signer, read_typed_data(document), document
    except TypedDataError as error:
        raise InvalidParamsError(f"params[1]: {error}.") from None


def read_chain(method: str, params: Params) -> int:
    """The chain in `[{chainId, ...}]`, which names a chain and perhaps describes it."""
    [chain] = arguments(method, params, 1, "{chainId}")
    if not isinstance(chain, dict):
        raise InvalidParamsError("params[0] must be an object {chainId}.")
    return checked(chain_id, chain.get("chainId"), "params[0].chainId")


def read_permissions(method: str, params: Params) -> None:
    """Refuse all but `[{"eth_accounts": {}}]`: there is no other permission to have."""
    [wanted] = arguments(method, params, 1, f"{{{_SEE_ACCOUNTS}: {{}}}}")
    if not isinstance(wanted, dict) or wanted.keys() != {_SEE_ACCOUNTS}:
        raise InvalidParamsError(
            f'params[0] must be {{"{_SEE_ACCOUNTS}": {{}}}}, the only permission that this wallet knows.'
        )


def permissions(caller: Caller, accounts: Sequence[Address]) -> list[dict[str, Any]]:
    """The permission to see these accounts (EIP-2255)."""
    caveats = [{"type": "restrictReturnedAccounts", "value": accounts}]
    invoker = caller.origin or caller.address
    return [{"invoker": invoker, "parentCapability": _SEE_ACCOUNTS, "caveats": caveats}]


def message_of(value: object, place: str) -> bytes:
    """The bytes of a message, which is DATA."""
    return checked(data_of, value, place, " Of a text, send the UTF-8 bytes.")


def _signer(account: object, place: str, message: object) -> Address:
    """The account to sign with. When the parameters seem to be swapped, the error names their order."""
    try:
        return Address(address_of(account))
    except HexError as error:
        hint = ""
        with suppress(HexError):
            address_of(message)
            hint = _ORDER
        raise InvalidParamsError(f"{place} {error}.{hint}") from None


# Failures as JSON-RPC errors: the one table from kinds of failure to codes.
#
# The codes are defined by EIP-1474, EIP-1193 and EIP-3326.

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

CODE_OF_KIND: dict[type[errors.BridgeError], int] = {
    errors.InvalidInputError: INVALID_PARAMS,
    errors.TooLargeError: INVALID_PARAMS,
    errors.UnsupportedMediaError: INVALID_PARAMS,
    errors.NotAuthenticatedError: UNAUTHORIZED,
    errors.ForbiddenError: UNAUTHORIZED,
    models.SignatureRejectedError: USER_REJECTED,
    errors.NotFoundError: RESOURCE_NOT_FOUND,
    errors.GoneError: RESOURCE_NOT_FOUND,
    models.MethodNotFoundError: METHOD_NOT_FOUND,
    errors.ConflictError: INVALID_STATE,
    models.WrongChainError: CHAIN_DISCONNECTED,
    models.UnrecognizedChainError: UNRECOGNIZED_CHAIN,
    models.TransactionRefusedError: TRANSACTION_REJECTED,
    errors.LimitError: LIMIT_EXCEEDED,
    errors.UnavailableError: RESOURCE_UNAVAILABLE,
    errors.TooSlowError: RESOURCE_UNAVAILABLE,
    errors.UpstreamError: RESOURCE_UNAVAILABLE,
    models.NoNodeError: DISCONNECTED,
    models.NoChainError: DISCONNECTED,
}

log = structlog.get_logger()


def rpc_error_of(error: Exception, method: str, request_id: str) -> RpcError:
    """The error object for a failure in a method. An unexpected exception is logged, and not described."""
    if isinstance(error, models.NodeError):
        return RpcError(error.rpc_code, error.detail, error.data, error.has_data)
    if isinstance(error, models.TransactionRefusedError):
        return RpcError(TRANSACTION_REJECTED, error.detail, error.data, has_data=error.data is not None)
    if isinstance(error, errors.BridgeError):
        nearest = next(kind for kind in type(error).__mro__ if kind in CODE_OF_KIND)
        return RpcError(CODE_OF_KIND[nearest], error.detail)
    log.error("rpc_call_failed", exc_info=error, method=method, request_id=request_id)
    return RpcError(INTERNAL_ERROR, "The server failed. The request id finds the reason in its log.")
