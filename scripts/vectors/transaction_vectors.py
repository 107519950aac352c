"""Transactions of the three types: edges of every field, then any."""

from collections.abc import Iterator
from itertools import count
from random import Random
from typing import Any

from eth_account import Account  # type: ignore[import-not-found]
from eth_utils import to_checksum_address  # type: ignore[import-not-found]
from keys import any_key

MAX_UINT64 = 2**64 - 1
MAX_UINT256 = 2**256 - 1
MAX_CHAIN_ID = MAX_UINT64 // 2 - 36

EDGES: dict[str, tuple[int, ...]] = {
    "nonce": (0, 1, 0x7F, 0x80, 0xFF, 0x100, MAX_UINT64 - 1),
    "gas": (21_000, 30_000_000, MAX_UINT64),
    "value": (0, 1, 0x7F, 0x80, 10**18, 2**255, MAX_UINT256),
    "chainId": (1, 2, 46, 110, 111, 137, 1337, 11_155_111, 2**32, MAX_CHAIN_ID),
}
PRICES = (0, 1, 20 * 10**9, MAX_UINT256)
FEES = ((0, 0), (0, 1), (1, 1), (10**9, 30 * 10**9), (MAX_UINT256, MAX_UINT256), (0, MAX_UINT256))
DATA_LENGTHS = (0, 1, 2, 4, 54, 55, 56, 57, 68, 255, 256, 257, 1024)
SINGLE_BYTES = (b"\x00", b"\x7f", b"\x80", b"\xff")
RANDOM_OF_EACH_TYPE = 14


def transaction_vectors() -> Iterator[dict[str, Any]]:
    """Every transaction signed with some key."""
    chance = Random("transactions")
    for kind in (0, 1, 2):
        for name, transaction in named_transactions(chance, kind):
            key = any_key(chance)
            yield vector(f"type {kind}, {name}", transaction, key)
        yield short_number(chance, kind, "r")
        yield short_number(chance, kind, "s")


def named_transactions(chance: Random, kind: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """One transaction for every edge case with ordinary other fields; then random ones."""
    for field, edges in EDGES.items():
        for edge in edges:
            yield f"{field} {edge:#x}", ordinary(kind) | {field: edge}
    for prices in FEES if kind == 2 else PRICES:
        yield f"price {prices}", ordinary(kind) | priced(prices)
    for length in DATA_LENGTHS:
        yield f"{length} bytes of data", ordinary(kind) | {"data": chance.randbytes(length)}
    for byte in SINGLE_BYTES:
        yield f"data {byte.hex()}", ordinary(kind) | {"data": byte}
    yield "contract creation", ordinary(kind) | {"to": None, "data": chance.randbytes(300)}
    if kind:
        for shape in ((), (0,), (1,), (0, 0), (2, 0, 3), (1,) * 20, (40,)):
            yield f"access list {list(shape)}", ordinary(kind) | {"accessList": access_list(chance, shape)}
    for _ in range(RANDOM_OF_EACH_TYPE):
        yield "any", any_transaction(chance, kind)


def ordinary(kind: int) -> dict[str, Any]:
    """A transfer of the given type."""
    transaction = {
        "type": kind,
        "chainId": 1,
        "nonce": 9,
        "gas": 21_000,
        "to": "0x" + "35" * 20,
        "value": 10**18,
        "data": b"",
    }
    transaction |= priced((10**9, 30 * 10**9) if kind == 2 else 20 * 10**9)
    return transaction | ({"accessList": []} if kind else {})


def any_transaction(chance: Random, kind: int) -> dict[str, Any]:
    """A random transaction of a type."""
    tip, fee = sorted(number(chance, 96) for _ in range(2))
    transaction = {
        "type": kind,
        "chainId": 1 + number(chance, 40),
        "nonce": number(chance, 63),
        "gas": number(chance, 63),
        "to": None if chance.random() < 0.2 else any_address(chance),
        "value": number(chance, 256),
        "data": chance.randbytes(chance.randrange(1, 120)),
    }
    transaction |= priced((tip, fee) if kind == 2 else fee)
    shape = [chance.randrange(4) for _ in range(chance.randrange(4))]
    return transaction | ({"accessList": access_list(chance, shape)} if kind else {})


def priced(price: Any) -> dict[str, int]:
    """The members for the price of gas."""
    if isinstance(price, int):
        return {"gasPrice": price}
    tip, fee = price
    return {"maxPriorityFeePerGas": tip, "maxFeePerGas": fee}


def number(chance: Random, bits: int) -> int:
    """A number of any length up to that many bits, short ones as often as long ones."""
    return chance.getrandbits(chance.randrange(1, bits + 1))


def any_address(chance: Random) -> str:
    """An address in lower case."""
    return f"0x{chance.randbytes(20).hex()}"


def access_list(chance: Random, shape: Any) -> list[dict[str, Any]]:
    """As many entries as the shape has numbers, each with that many keys."""
    return [
        {
            "address": any_address(chance),
            "storageKeys": [f"0x{chance.randbytes(32).hex()}" for _ in range(keys)],
        }
        for keys in shape
    ]


def short_number(chance: Random, kind: int, which: str) -> dict[str, Any]:
    """A transaction whose r or s begins with a zero byte, which RLP drops."""
    key = any_key(chance)
    for nonce in count():
        transaction = ordinary(kind) | {"nonce": nonce}
        if getattr(signed(transaction, key), which) < 2**248:
            return vector(f"type {kind}, short {which}", transaction, key)
    raise AssertionError("unreachable")


def vector(name: str, transaction: dict[str, Any], key: str) -> dict[str, Any]:
    """The vector: the transaction in JSON-RPC and the signed result."""
    result = signed(transaction, key)
    return {
        "name": name,
        "key": key,
        "transaction": {member: spelled(value) for member, value in transaction.items()},
        "raw": f"0x{result.raw_transaction.hex()}",
        "hash": f"0x{result.hash.hex()}",
    }


def signed(transaction: dict[str, Any], key: str) -> Any:
    """Sign with eth-account, which requires checksums, no type for legacy transactions, and no null."""
    given = {member: value for member, value in transaction.items() if value is not None}
    if "to" in given:
        given["to"] = to_checksum_address(given["to"])
    if given["type"] == 0:
        del given["type"]
    return Account.sign_transaction(given, key)


def spelled(value: Any) -> Any:
    """QUANTITY for numbers, DATA for bytes."""
    if isinstance(value, int):
        return hex(value)
    return f"0x{value.hex()}" if isinstance(value, bytes) else value
