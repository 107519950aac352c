"""The OpenRPC document of the wallet (https://spec.open-rpc.org): every method, made from its row."""

from dataclasses import field
from typing import Any, TypeAlias

from bridge_server.kernel.values import dataclass
from bridge_server.kernel.version import NAME, REPOSITORY, USER_AGENT, VERSION
from bridge_server.wallet.models import TransactionState
from bridge_server.wallet.rpc import wire
from bridge_server.web import json_rpc

# The shapes of the wallet's parameters and results, as JSON Schemas that the OpenRPC document names.

OPENRPC = "1.3.2"
"""The version of the specification."""

Schema: TypeAlias = dict[str, Any]


NOTHING: Schema = {"type": "null"}
TEXT: Schema = {"type": "string"}
TRUTH: Schema = {"type": "boolean"}


def listed(items: Schema) -> Schema:
    """An array of these."""
    return {"type": "array", "items": items}


def perhaps(value: Schema) -> Schema:
    """The value, or null."""
    return {"anyOf": [value, NOTHING]}


def shape(name: str) -> Schema:
    """A reference to one of SHAPES."""
    return {"$ref": f"#/components/schemas/{name}"}


def _hex(digits: str, title: str) -> Schema:
    return {"title": title, "type": "string", "pattern": f"^0x{digits}$"}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


_NONCE = "The account's next when it is left out; a pending transaction with it is replaced."
_QUANTITY = "(0|[1-9a-fA-F][0-9a-fA-F]{0,63})"
_TRANSACTION_SHAPE: dict[str, Schema] = {
    "from": shape("Address"),
    "to": {**shape("Address"), "description": "May be missing only for the creation of a contract."},
    "data": {**shape("Data"), "description": "The call, or without `to` the code of the contract."},
    "input": {**shape("Data"), "description": "Another name of `data`."},
    "gas": {**shape("Quantity"), "description": "90,000 when it is left out."},
    "gasPrice": {**shape("Quantity"), "description": "The node's price when it is left out."},
    "maxFeePerGas": {**shape("Quantity"), "description": "EIP-1559."},
    "maxPriorityFeePerGas": {**shape("Quantity"), "description": "EIP-1559."},
    "value": {**shape("Quantity"), "description": "In wei; 0 when it is left out."},
    "nonce": {**shape("Quantity"), "description": _NONCE},
    "chainId": {**shape("Quantity"), "description": "The wallet's; another is refused."},
    "accessList": {
        "type": "array",
        "description": "EIP-2930.",
        "items": _object(
            ["address", "storageKeys"], address=shape("Address"), storageKeys=listed(shape("Hash"))
        ),
    },
    "type": {**shape("Quantity"), "description": "EIP-2718: 0x0, 0x1 or 0x2."},
}

SHAPES: dict[str, Schema] = {
    "Address": _hex("[0-9a-fA-F]{40}", "Address, 20 bytes; mixed case must be a valid checksum (EIP-55)"),
    "Data": _hex("([0-9a-fA-F]{2})*", "DATA: bytes in hexadecimal"),
    "Hash": _hex("[0-9a-fA-F]{64}", "DATA, 32 bytes"),
    "Quantity": _hex(_QUANTITY, "QUANTITY: a whole number in hexadecimal without leading zeros"),
    "Signature": _hex("[0-9a-f]{130}", "r, s and v of 27 or 28: 65 bytes"),
    "Transaction": {"type": "object", "required": ["from"], "properties": _TRANSACTION_SHAPE},
    "TypedData": _object(
        ["types", "primaryType", "domain", "message"],
        types={
            "type": "object",
            "additionalProperties": listed(_object(["name", "type"], name=TEXT, type=TEXT)),
        },
        primaryType=TEXT,
        domain={"type": "object"},
        message={"type": "object"},
    ),
    "QueuedTransaction": {
        "type": "object",
        "required": ["id", "state", "from", "hash", "nonce", "chainId", "transaction", "error", "attempts"],
        "properties": {
            "id": TEXT,
            "state": {"type": "string", "enum": [state.value for state in TransactionState]},
            "from": shape("Address"),
            "hash": perhaps(shape("Hash")),
            "nonce": perhaps(shape("Quantity")),
            "chainId": perhaps(shape("Quantity")),
            "transaction": {"description": "The parameter of the send, as it came."},
            "error": {"type": ["string", "null"]},
            "attempts": {"type": "integer", "minimum": 0},
        },
    },
    "Permission": _object(
        ["invoker", "parentCapability", "caveats"],
        invoker=TEXT,
        parentCapability={"const": "eth_accounts"},
        caveats=listed(_object(["type", "value"], type=TEXT, value={"type": "array"})),
    ),
    "PermissionRequest": _object(["eth_accounts"], eth_accounts={"type": "object"}),
    "Chain": _object(["chainId"], chainId=shape("Quantity")),
}  # fmt: skip
"""The schemas by name."""

# A method of the wallet described: the parts of its OpenRPC object.


@dataclass(frozen=True, slots=True)
class MethodParameter:
    """A parameter of a method, by its place."""

    name: str
    schema: Schema
    summary: str = ""
    required: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedMethod:
    """A method. `example` has the parameters' values; `varies`: the result differs from call to call."""

    name: str
    tag: str
    summary: str
    parameters: tuple[MethodParameter, ...] = ()
    result_name: str
    result: Schema
    errors: tuple[int, ...] = ()
    example: list[Any] = field(default_factory=list)
    example_result: Any
    varies: bool = False


# The values of the examples in the OpenRPC document; keys and passphrases are published ones.

ALICE = "0xf39fd6e51aad88f6f4ce6ab8827279cfffb92266"
BOB = "0x70997970c51812dc3a010c7d01b50e0d17dc79c8"
IMPORTED = "0x9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f"
IMPORTED_KEY = "0x" + "46" * 32
HELLO = "0x68656c6c6f"
HELLO_SIGNED = (
    "0xf16ea9a3478698f695fd1401bfe27e9e4a7e8e3da94aa72b021125e31fa899cc"
    "573c48ea3fe1d4ab61a9db10c19032026e3ed2dbccba5a178235ac27f94504311c"
)
SEND = {"from": ALICE, "to": BOB, "value": "0x1"}
COMPLETE = {**SEND, "nonce": "0x0", "gasPrice": "0x1"}
TYPED_DATA = {
    "types": {
        "EIP712Domain": [{"name": "name", "type": "string"}],
        "Greeting": [{"name": "contents", "type": "string"}],
    },
    "primaryType": "Greeting",
    "domain": {"name": "Example"},
    "message": {"contents": "Hello"},
}
TYPED_DATA_SIGNED = (
    "0xe5b2d271810cb6854cb5720e7348c3586ed51c573f1b25966c85d4c1f9a73312"
    "742ac128a69bb8c04224c3161a3cd6eec0e8b7388508b8ad8641a3231a2e08511b"
)
SIGNED_TRANSACTION = (
    "0xf862800183015f909470997970c51812dc3a010c7d01b50e0d17dc79c8018082f4f6"
    "a03369fcbb2e5f7692b7852952f3cce56e66bbc4468a96991047a42d827fb7e0d4"
    "a0058a966c5a07386ef6b2e7429645431880cbc4cbfe6d7308827feb25d71214c8"
)
ZERO_HASH = "0x" + "00" * 32
PERMISSION = {
    "invoker": "127.0.0.1",
    "parentCapability": "eth_accounts",
    "caveats": [{"type": "restrictReturnedAccounts", "value": [ALICE]}],
}
QUEUED = {
    "id": "019a0000-0000-7000-8000-000000000000",
    "state": "queued",
    "from": ALICE,
    "hash": None,
    "nonce": None,
    "chainId": "0x7a69",
    "transaction": SEND,
    "error": "The node cannot be reached.",
    "attempts": 1,
}


# The wallet's methods described: one row for each method that `POST /rpc` answers itself.
#
# The rows are in the order in which their examples work on a new wallet with the development accounts: an
# account is imported before it is unlocked. A test calls each example.

_SIGNING = (wire.UNAUTHORIZED, wire.USER_REJECTED, wire.RESOURCE_UNAVAILABLE)
_CHAIN = (wire.DISCONNECTED, wire.CHAIN_DISCONNECTED)
_SENDING = (*_SIGNING, wire.INVALID_STATE, wire.TRANSACTION_REJECTED, *_CHAIN)


_ACCOUNT = MethodParameter("account", shape("Address"), "An account of the wallet.")
_MESSAGE = MethodParameter("message", shape("Data"), "The bytes of the message; of a text its UTF-8.")
_PASSPHRASE = MethodParameter("passphrase", TEXT, "The passphrase of the account's key file.")
_OPENING = MethodParameter("passphrase", TEXT, "Opens a locked account.", required=False)
_TRANSACTION = MethodParameter("transaction", shape("Transaction"))
_WHICH = MethodParameter(
    "which",
    {"anyOf": [TEXT, shape("Transaction"), NOTHING]},
    "An account, an id, a hash, a signed transaction, or the parameter of the send.",
    required=False,
)
_SECONDS = MethodParameter(
    "seconds", perhaps({"type": "integer", "minimum": 0}),
    "300 when it is left out; 0 is until the server stops.", required=False,
)  # fmt: skip
_NAMED_CHAIN = MethodParameter("chain", shape("Chain"), "Members beside chainId are ignored.")
_SEE_ACCOUNTS = MethodParameter("permission", shape("PermissionRequest"))


def _typed_data(name: str, summary: str) -> DescribedMethod:
    document = MethodParameter(
        "typedData", {"anyOf": [shape("TypedData"), TEXT]}, "The typed data, or its JSON as a string."
    )
    return DescribedMethod(
        name=name, tag="sign", summary=summary, parameters=(_ACCOUNT, document),
        result_name="signature", result=shape("Signature"), errors=(*_SIGNING, *_CHAIN),
        example=[ALICE, TYPED_DATA], example_result=TYPED_DATA_SIGNED,
    )  # fmt: skip


def _accounts(name: str, summary: str) -> DescribedMethod:
    return DescribedMethod(
        name=name, tag="accounts", summary=summary, result_name="accounts", result=listed(shape("Address")),
        example_result=[ALICE, BOB], varies=True,
    )  # fmt: skip


def _to_chain(name: str, summary: str) -> DescribedMethod:
    return DescribedMethod(
        name=name, tag="chain", summary=summary, parameters=(_NAMED_CHAIN,), result_name="nothing",
        result=NOTHING, errors=(wire.UNRECOGNIZED_CHAIN, *_CHAIN), example=[{"chainId": "0x7a69"}],
        example_result=None,
    )  # fmt: skip


METHODS: tuple[DescribedMethod, ...] = (
    DescribedMethod(
        name="personal_sign", tag="sign",
        summary="Sign a message behind its prefix (EIP-191). The message comes first.",
        parameters=(_MESSAGE, _ACCOUNT, _OPENING), result_name="signature", result=shape("Signature"),
        errors=_SIGNING, example=[HELLO, ALICE], example_result=HELLO_SIGNED,
    ),
    DescribedMethod(
        name="eth_sign", tag="sign",
        summary="Sign a message behind its prefix (EIP-191). The account comes first.",
        parameters=(_ACCOUNT, _MESSAGE), result_name="signature", result=shape("Signature"),
        errors=_SIGNING, example=[ALICE, HELLO], example_result=HELLO_SIGNED,
    ),
    _typed_data("eth_signTypedData", "Sign typed data (EIP-712)."),
    _typed_data("eth_signTypedData_v3", "Another name of eth_signTypedData."),
    _typed_data("eth_signTypedData_v4", "Another name of eth_signTypedData."),
    DescribedMethod(
        name="personal_ecRecover", tag="sign", summary="Find the account that has signed a message.",
        parameters=(_MESSAGE, MethodParameter("signature", shape("Data"), "65 bytes.")),
        result_name="account", result=shape("Address"), example=[HELLO, HELLO_SIGNED], example_result=ALICE,
    ),
    DescribedMethod(
        name="eth_signTransaction", tag="transactions",
        summary="Sign a transaction without sending it. Its nonce is not reserved.",
        parameters=(_TRANSACTION,), result_name="signed transaction", result=shape("Data"), errors=_SENDING,
        example=[COMPLETE], example_result=SIGNED_TRANSACTION,
    ),
    DescribedMethod(
        name="eth_sendTransaction", tag="transactions",
        summary="Sign, store and send a transaction. The zero hash means that it is stored, and sent as "
        "soon as the node can be reached: do not send it again, ask wallet_getQueuedTransaction.",
        parameters=(_TRANSACTION,), result_name="hash", result=shape("Hash"), errors=_SENDING,
        example=[SEND], example_result=ZERO_HASH, varies=True,
    ),
    DescribedMethod(
        name="eth_sendRawTransaction", tag="transactions",
        summary="Store and send a transaction that is signed. The answer is as of eth_sendTransaction.",
        parameters=(MethodParameter("signed", shape("Data"), "The signed transaction."),),
        result_name="hash", result=shape("Hash"), errors=_SENDING,
        example=[SIGNED_TRANSACTION], example_result=ZERO_HASH, varies=True,
    ),
    DescribedMethod(
        name="wallet_getQueuedTransaction", tag="transactions",
        summary="The state and hash of the newest transaction that matches, or null.",
        parameters=(_WHICH,), result_name="transaction", result=perhaps(shape("QueuedTransaction")),
        example=[SEND], example_result=QUEUED, varies=True,
    ),
    DescribedMethod(
        name="wallet_getQueuedTransactions", tag="transactions",
        summary="Transactions that match, oldest first; of an account those that the node does not have yet.",
        parameters=(_WHICH,), result_name="transactions", result=listed(shape("QueuedTransaction")),
        example=[ALICE], example_result=[QUEUED], varies=True,
    ),
    _accounts("eth_accounts", "The accounts of the wallet."),
    _accounts("eth_requestAccounts", "Another name of eth_accounts (EIP-1102)."),
    _accounts("personal_listAccounts", "Another name of eth_accounts."),
    DescribedMethod(
        name="personal_newAccount", tag="accounts",
        summary="Make an account with a key file; it starts locked.",
        parameters=(_PASSPHRASE,), result_name="account", result=shape("Address"),
        errors=(wire.UNAUTHORIZED,), example=["open sesame"], example_result=IMPORTED, varies=True,
    ),
    DescribedMethod(
        name="personal_importRawKey", tag="accounts",
        summary="Make a key file of a private key; the account starts locked.",
        parameters=(MethodParameter("key", TEXT, "32 bytes in hexadecimal; 0x may be missing."), _PASSPHRASE),
        result_name="account", result=shape("Address"), errors=(wire.INVALID_STATE,),
        example=[IMPORTED_KEY, "open sesame"], example_result=IMPORTED,
    ),
    DescribedMethod(
        name="personal_unlockAccount", tag="accounts", summary="Open an account's key for a time.",
        parameters=(_ACCOUNT, _PASSPHRASE, _SECONDS), result_name="unlocked", result=TRUTH,
        errors=(wire.UNAUTHORIZED, wire.INVALID_STATE),
        example=[IMPORTED, "open sesame", 60], example_result=True,
    ),
    DescribedMethod(
        name="personal_lockAccount", tag="accounts", summary="Close an account's key.",
        parameters=(_ACCOUNT,), result_name="locked", result=TRUTH, errors=(wire.UNAUTHORIZED,),
        example=[IMPORTED], example_result=True,
    ),
    DescribedMethod(
        name="eth_chainId", tag="chain", summary="The wallet's chain.", result_name="chain",
        result=shape("Quantity"), errors=_CHAIN, example_result="0x7a69",
    ),
    DescribedMethod(
        name="net_version", tag="chain",
        summary="The wallet's chain, in decimal digits.", result_name="chain",
        result={"type": "string", "pattern": "^[0-9]+$"}, errors=_CHAIN, example_result="31337",
    ),
    _to_chain("wallet_switchEthereumChain", "Null for the wallet's chain, else the error 4902 (EIP-3326)."),
    _to_chain("wallet_addEthereumChain", "Null for the wallet's chain, else the error 4902 (EIP-3085)."),
    DescribedMethod(
        name="web3_clientVersion", tag="server", summary="Name and version of the server.",
        result_name="version", result=TEXT, example_result=USER_AGENT, varies=True,
    ),
    DescribedMethod(
        name="wallet_getPermissions", tag="accounts",
        summary="The permission to see the accounts, which every caller has (EIP-2255).",
        result_name="permissions", result=listed(shape("Permission")),
        example_result=[PERMISSION], varies=True,
    ),
    DescribedMethod(
        name="wallet_requestPermissions", tag="accounts",
        summary="Answers as wallet_getPermissions, for the permission to see the accounts.",
        parameters=(_SEE_ACCOUNTS,), result_name="permissions", result=listed(shape("Permission")),
        example=[{"eth_accounts": {}}], example_result=[PERMISSION], varies=True,
    ),
    DescribedMethod(
        name="wallet_revokePermissions", tag="accounts",
        summary="Changes nothing: dapps call it when they disconnect.", parameters=(_SEE_ACCOUNTS,),
        result_name="nothing", result=NOTHING, example=[{"eth_accounts": {}}], example_result=None,
    ),
    DescribedMethod(
        name="rpc.discover", tag="server", summary="This document (OpenRPC).", result_name="document",
        result={"type": "object", "required": ["openrpc", "info", "methods"]},
        example_result={"openrpc": "1.3.2", "info": {"title": "Bridge Server: wallet"}, "methods": []},
        varies=True,
    ),
)  # fmt: skip
"""Every method, in the order of the document."""


MEANING_OF_CODE: dict[int, str] = {
    json_rpc.PARSE_ERROR: "The body is not JSON",
    json_rpc.INVALID_REQUEST: "The request is not a JSON-RPC 2.0 request",
    json_rpc.METHOD_NOT_FOUND: "There is no such method, and the node is not asked for it",
    json_rpc.INVALID_PARAMS: "A parameter is not valid; the message names its place",
    json_rpc.INTERNAL_ERROR: "The server failed; the log has the reason by the request id",
    wire.INVALID_STATE: "The state of the thing forbids the call",
    wire.RESOURCE_NOT_FOUND: "There is no such thing",
    wire.RESOURCE_UNAVAILABLE: "The server cannot answer the call now",
    wire.TRANSACTION_REJECTED: "The node refused the transaction, in its words",
    wire.LIMIT_EXCEEDED: "A limit is used up for now",
    wire.USER_REJECTED: "The request was rejected, or not approved in time",
    wire.UNAUTHORIZED: "The account is locked or unknown, or the passphrase is wrong",
    wire.DISCONNECTED: "There is no node, or the chain is not known",
    wire.CHAIN_DISCONNECTED: "The node is on another chain",
    wire.UNRECOGNIZED_CHAIN: "The wallet does not go to another chain",
}
"""The meaning of each error code that the wallet answers (EIP-1474, EIP-1193, EIP-3326)."""

_DESCRIPTION = (
    "JSON-RPC 2.0 at POST /rpc: signatures, transactions and accounts of the wallet. Parameters go by "
    "position. Any other method is forwarded to the node of the setting node_url, except those that sign, "
    "send or handle keys and those of the relay (irn_, iridium_, wc_), which are the error -32601. A caller "
    "sends the setting rpc_token as a bearer token."
)
_EVERY_METHOD = (json_rpc.INVALID_PARAMS, json_rpc.INTERNAL_ERROR)


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
        "params": [
            {"name": each.name, "required": each.required, "schema": each.schema}
            | ({"summary": each.summary} if each.summary else {})
            for each in row.parameters
        ],
        "result": {"name": row.result_name, "schema": row.result},
        "errors": [{"code": code, "message": MEANING_OF_CODE[code]} for code in codes],
        "examples": [_example(row)],
    }


def _example(row: DescribedMethod) -> dict[str, Any]:
    values = zip(row.parameters, row.example, strict=False)  # parameters at the end may be left out
    return {
        "name": row.name,
        "params": [{"name": parameter.name, "value": value} for parameter, value in values],
        "result": {"name": row.result_name, "value": row.example_result},
    }
