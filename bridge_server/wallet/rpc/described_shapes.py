"""The shapes of the wallet's parameters and results, as JSON Schemas that the OpenRPC document names."""

from typing import Any, TypeAlias

from bridge_server.wallet.models import TransactionState

Schema: TypeAlias = dict[str, Any]


def shape(name: str) -> Schema:
    """A reference to one of SHAPES."""
    assert name in SHAPES, name
    return {"$ref": f"#/components/schemas/{name}"}


def _hex(digits: str, title: str) -> Schema:
    return {"title": title, "type": "string", "pattern": f"^0x{digits}$"}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _named(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


_QUANTITY = "(0|[1-9a-fA-F][0-9a-fA-F]{0,63})"
_TRANSACTION: dict[str, Schema] = {
    "from": _named("Address"),
    "to": {**_named("Address"), "description": "May be missing only for the creation of a contract."},
    "data": {**_named("Data"), "description": "The call, or without `to` the code of the contract."},
    "input": {**_named("Data"), "description": "Another name of `data`."},
    "gas": {**_named("Quantity"), "description": "90,000 when it is left out."},
    "gasPrice": {**_named("Quantity"), "description": "The node's price when it is left out."},
    "maxFeePerGas": {**_named("Quantity"), "description": "EIP-1559."},
    "maxPriorityFeePerGas": {**_named("Quantity"), "description": "EIP-1559."},
    "value": {**_named("Quantity"), "description": "In wei; 0 when it is left out."},
    "nonce": {
        **_named("Quantity"),
        "description": "The account's next when it is left out; a pending transaction with it is replaced.",
    },
    "chainId": {**_named("Quantity"), "description": "The wallet's; another is refused."},
    "accessList": {
        "type": "array",
        "description": "EIP-2930.",
        "items": _object(
            ["address", "storageKeys"],
            address=_named("Address"),
            storageKeys={"type": "array", "items": _named("Hash")},
        ),
    },
    "type": {**_named("Quantity"), "description": "EIP-2718: 0x0, 0x1 or 0x2."},
}

SHAPES: dict[str, Schema] = {
    "Address": _hex("[0-9a-fA-F]{40}", "Address, 20 bytes; mixed case must be a valid checksum (EIP-55)"),
    "Data": _hex("([0-9a-fA-F]{2})*", "DATA: bytes in hexadecimal"),
    "Hash": _hex("[0-9a-fA-F]{64}", "DATA, 32 bytes"),
    "Quantity": _hex(_QUANTITY, "QUANTITY: a whole number in hexadecimal without leading zeros"),
    "Signature": _hex("[0-9a-f]{130}", "r, s and v of 27 or 28: 65 bytes"),
    "Transaction": {"type": "object", "required": ["from"], "properties": _TRANSACTION},
    "TypedData": _object(
        ["types", "primaryType", "domain", "message"],
        types={
            "type": "object",
            "additionalProperties": {
                "type": "array",
                "items": _object(["name", "type"], name={"type": "string"}, type={"type": "string"}),
            },
        },
        primaryType={"type": "string"},
        domain={"type": "object"},
        message={"type": "object"},
    ),
    "QueuedTransaction": {
        "type": "object",
        "required": [
            "id", "state", "from", "hash", "nonce", "chainId", "transaction", "error", "attempts",
        ],
        "properties": {
            "id": {"type": "string"},
            "state": {"type": "string", "enum": [state.value for state in TransactionState]},
            "from": _named("Address"),
            "hash": {"anyOf": [_named("Hash"), {"type": "null"}]},
            "nonce": {"anyOf": [_named("Quantity"), {"type": "null"}]},
            "chainId": {"anyOf": [_named("Quantity"), {"type": "null"}]},
            "transaction": {"description": "The parameter of the send, as it came."},
            "error": {"type": ["string", "null"]},
            "attempts": {"type": "integer", "minimum": 0},
        },
    },
    "Permission": _object(
        ["invoker", "parentCapability", "caveats"],
        invoker={"type": "string"},
        parentCapability={"const": "eth_accounts"},
        caveats={
            "type": "array",
            "items": _object(["type", "value"], type={"type": "string"}, value={"type": "array"}),
        },
    ),
    "PermissionRequest": _object(["eth_accounts"], eth_accounts={"type": "object"}),
    "Chain": _object(["chainId"], chainId=_named("Quantity")),
}  # fmt: skip
"""The schemas by name."""

NOTHING: Schema = {"type": "null"}
TEXT: Schema = {"type": "string"}
TRUTH: Schema = {"type": "boolean"}


def listed(items: Schema) -> Schema:
    """An array of these."""
    return {"type": "array", "items": items}


def perhaps(value: Schema) -> Schema:
    """The value, or null."""
    return {"anyOf": [value, NOTHING]}
