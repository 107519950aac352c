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
# The fields of a transaction of each type, as it is signed.
FIELDS: dict[int, list[Any]] = {
    0: [b"\x09", b"\x04", b"\x52\x08", TO_BYTES, b"\x01", b"data"],
    1: [b"\x01", b"\x09", b"\x04", b"\x52\x08", TO_BYTES, b"\x01", b"data", [[TO_BYTES, [bytes(32)]]]],
    2: [b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO_BYTES, b"\x01", b"data", [[TO_BYTES, []]]],
    3: [
        *(b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO_BYTES, b"\x01", b"data", []),
        *(b"\x05", [blob_hash(commitment) for commitment in COMMITMENTS]),
    ],
    4: [
        *(b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO_BYTES, b"\x01", b"data", []),
        [[b"", TO_BYTES, b"\x07", b"\x01", b"\x02", b"\x03"]],
    ],
}
NAMES = {
    0: ["nonce", "gas_price", "gas", "to", "value", "data"],
    1: ["chain_id", "nonce", "gas_price", "gas", "to", "value", "data", "access_list"],
    2: [
        *("chain_id", "nonce", "max_priority_fee_per_gas", "max_fee_per_gas"),
        *("gas", "to", "value", "data", "access_list"),
    ],
}
NAMES[3] = [*NAMES[2], "max_fee_per_blob_gas", "blob_versioned_hashes"]
NAMES[4] = [*NAMES[2], "authorization_list"]


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


def signed(kind: int, fields: list[Any], chain_id: int = 1) -> bytes:
    """These fields, whatever they are, with a signature that is good."""
    prefix = bytes([kind]) if kind else b""
    preimage = fields if kind else [*fields, rlp.number(chain_id), b"", b""]
    r, s, parity = SIGNER.sign_parity(keccak256(prefix + rlp.encode(preimage)))
    v = parity if kind else 35 + 2 * chain_id + parity
    return prefix + rlp.encode([*fields, rlp.number(v), rlp.number(r), rlp.number(s)])


def signed_for_every_chain() -> bytes:
    """A legacy transaction as all were before EIP-155."""
    r, s, parity = SIGNER.sign_parity(keccak256(rlp.encode(FIELDS[0])))
    return rlp.encode([*FIELDS[0], rlp.number(27 + parity), rlp.number(r), rlp.number(s)])


def changed(kind: int, name: str, value: Any) -> bytes:
    """A signed transaction with that value in that field."""
    fields = FIELDS[kind].copy()
    fields[NAMES[kind].index(name)] = value
    return signed(kind, fields)


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
