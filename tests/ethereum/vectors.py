"""The committed vectors, and signed transactions of every type, good or with something wrong in them."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum import rlp
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import (
    AccessListEntry,
    AccessListTransaction,
    FeeMarketTransaction,
    LegacyTransaction,
    RawTransactionError,
    Transaction,
    blob_hash,
    read_raw_transaction,
)

NUMBERS = {
    **{name: name for name in ("nonce", "gas", "value")},
    "chainId": "chain_id",
    "gasPrice": "gas_price",
    "maxPriorityFeePerGas": "max_priority_fee_per_gas",
    "maxFeePerGas": "max_fee_per_gas",
}
FOLDER = Path(__file__).parents[1] / "vectors"
SIGNER = SigningKey(b"\x46" * 32)
TO_BYTES = b"\x35" * 20
COMMITMENTS = [b"\xc0" + bytes(47), b"\xc1" * 48]
_LAST = {"gas": b"\x52\x08", "to": TO_BYTES, "value": b"\x01", "data": b"data"}
_FIRST = {"chain_id": b"\x01", "nonce": b"\x09"}
_WITH_FEES = {**_FIRST, "max_priority_fee_per_gas": b"\x03", "max_fee_per_gas": b"\x04", **_LAST}
FIELDS: dict[int, dict[str, Any]] = {
    0: {"nonce": b"\x09", "gas_price": b"\x04", **_LAST},
    1: {**_FIRST, "gas_price": b"\x04", **_LAST, "access_list": [[TO_BYTES, [bytes(32)]]]},
    2: {**_WITH_FEES, "access_list": [[TO_BYTES, []]]},
    3: {
        **_WITH_FEES,
        "access_list": [],
        "max_fee_per_blob_gas": b"\x05",
        "blob_versioned_hashes": [blob_hash(commitment) for commitment in COMMITMENTS],
    },
    4: {
        **_WITH_FEES,
        "access_list": [],
        "authorization_list": [[b"", TO_BYTES, b"\x07", b"\x01", b"\x02", b"\x03"]],
    },
}
"""The fields of a transaction of each type, as it is signed."""


def vectors(name: str) -> list[dict[str, Any]]:
    """The vectors of a file."""
    return list(json.loads((FOLDER / name).read_text("utf-8"))["vectors"])


def tables(name: str) -> dict[str, list[Any]]:
    """The tables of a file: rows of values and of what is said of them."""
    content: dict[str, list[Any]] = json.loads((FOLDER / name).read_text("utf-8"))
    return content


def raw_bytes(text: str) -> bytes:
    """The bytes of a string of `0x` and hexadecimal digits."""
    return bytes.fromhex(text.removeprefix("0x"))


def key_of(vector: dict[str, Any]) -> SigningKey:
    """The vector's private key."""
    return SigningKey(raw_bytes(vector["key"]))


def transaction_of(spelled: dict[str, Any]) -> Transaction:
    """A transaction of type 0, 1 or 2 out of its members."""
    fields: dict[str, Any] = {NUMBERS[name]: int(spelled[name], 16) for name in NUMBERS if spelled.get(name)}
    fields |= {"to": spelled["to"], "data": raw_bytes(spelled.get("data") or spelled.get("input", "0x"))}
    if spelled["type"] == "0x0":
        return LegacyTransaction(**fields)
    entries = [(entry["address"], entry["storageKeys"]) for entry in spelled["accessList"]]
    lists = tuple(AccessListEntry(address, tuple(map(raw_bytes, keys))) for address, keys in entries)
    if spelled["type"] == "0x1":
        return AccessListTransaction(**fields, access_list=lists)
    fields.pop("gas_price", None)  # a node shows the price that was paid
    return FeeMarketTransaction(**fields, access_list=lists)


def signed(kind: int, fields: dict[str, Any]) -> bytes:
    """These fields, whatever they are, with a signature that is good; a legacy transaction is for chain 1."""
    prefix, values = bytes([kind]) if kind else b"", list(fields.values())
    preimage = values if kind else [*values, b"\1", b"", b""]
    r, s, parity = SIGNER.sign_parity(keccak256(prefix + rlp.encode(preimage)))
    v = parity if kind else 37 + parity
    return prefix + rlp.encode([*values, rlp.number(v), rlp.number(r), rlp.number(s)])


def signed_for_every_chain() -> bytes:
    """A legacy transaction as all were before EIP-155."""
    values = list(FIELDS[0].values())
    r, s, parity = SIGNER.sign_parity(keccak256(rlp.encode(values)))
    return rlp.encode([*values, rlp.number(27 + parity), rlp.number(r), rlp.number(s)])


def changed(kind: int, name: str, value: Any) -> bytes:
    """A signed transaction with that value in that field."""
    return signed(kind, {**FIELDS[kind], name: value})


def items_of(raw: bytes) -> list[Any]:
    """The items of a signed transaction."""
    return list(rlp.decode(raw if raw[0] >= 0xC0 else raw[1:]))


def with_items(raw: bytes, items: Sequence[rlp.Item]) -> bytes:
    """A signed transaction with other items, which were not signed."""
    return (b"" if raw[0] >= 0xC0 else raw[:1]) + rlp.encode(items)


def refused(raw: bytes, reason: str) -> None:
    """Assert that the transaction is refused for this reason."""
    with pytest.raises(RawTransactionError, match=reason):
        read_raw_transaction(raw)


def published_raw(spelled: dict[str, Any]) -> bytes:
    """The bytes of a transaction as a node describes it, put together by hand."""
    kind = int(spelled["type"], 16)

    def numbers(*names: str) -> list[rlp.Item]:
        return [rlp.number(int(spelled[name], 16)) for name in names]

    items = numbers("chainId", "nonce") if kind else numbers("nonce")
    items += numbers("gasPrice") if kind < 2 else numbers("maxPriorityFeePerGas", "maxFeePerGas")
    items += [*numbers("gas"), raw_bytes(spelled["to"] or "0x")]
    items += [*numbers("value"), raw_bytes(spelled["input"])]
    if kind:
        entries = [(entry["address"], entry["storageKeys"]) for entry in spelled["accessList"]]
        items.append([[raw_bytes(address), [*map(raw_bytes, keys)]] for address, keys in entries])
    if kind == 3:
        items += [*numbers("maxFeePerBlobGas"), [*map(raw_bytes, spelled["blobVersionedHashes"])]]
    if kind == 4:
        items.append([_authorization(given) for given in spelled["authorizationList"]])
    return (bytes([kind]) if kind else b"") + rlp.encode([*items, *numbers("v", "r", "s")])


def _authorization(spelled: dict[str, str]) -> list[bytes]:
    return [
        raw_bytes(value) if name == "address" else rlp.number(int(value, 16))
        for name, value in spelled.items()
    ]
