"""The committed vectors, and transactions as JSON-RPC spells them made into ours."""

import json
from pathlib import Path
from typing import Any

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import (
    AccessListEntry,
    AccessListTransaction,
    FeeMarketTransaction,
    LegacyTransaction,
    Transaction,
)

NUMBERS = {"chainId", "nonce", "gas", "value", "gasPrice", "maxPriorityFeePerGas", "maxFeePerGas"}
FOLDER = Path(__file__).parents[1] / "vectors"


def vectors(name: str) -> list[dict[str, Any]]:
    """The vectors of a file."""
    content = json.loads((FOLDER / name).read_text("utf-8"))
    return list(content["vectors"])


def raw_bytes(text: str) -> bytes:
    """The bytes of a string of `0x` and hexadecimal digits."""
    return bytes.fromhex(text.removeprefix("0x"))


def key_of(vector: dict[str, Any]) -> SigningKey:
    """The vector's private key."""
    return SigningKey(raw_bytes(vector["key"]))


def transaction_of(spelled: dict[str, Any]) -> Transaction:
    """A transaction of type 0, 1 or 2 out of its members."""
    number = {name: int(value, 16) for name, value in spelled.items() if name in NUMBERS and value}
    rest = {
        "chain_id": number["chainId"],
        "nonce": number["nonce"],
        "gas": number["gas"],
        "to": spelled["to"],
        "value": number["value"],
        "data": raw_bytes(spelled["data"] if "data" in spelled else spelled["input"]),
    }
    if spelled["type"] == "0x0":
        return LegacyTransaction(**rest, gas_price=number["gasPrice"])
    rest["access_list"] = tuple(
        AccessListEntry(entry["address"], tuple(map(raw_bytes, entry["storageKeys"])))
        for entry in spelled["accessList"]
    )
    if spelled["type"] == "0x1":
        return AccessListTransaction(**rest, gas_price=number["gasPrice"])
    return FeeMarketTransaction(
        **rest,
        max_priority_fee_per_gas=number["maxPriorityFeePerGas"],
        max_fee_per_gas=number["maxFeePerGas"],
    )
