"""Vectors of typed data: the chosen cases, random types and values, and common non-standard forms."""

from collections.abc import Iterator
from random import Random
from typing import Any

from any_typed_data import any_typed_data
from eth_account import Account  # type: ignore[import-not-found]
from eth_account.messages import encode_typed_data  # type: ignore[import-not-found]
from keys import DEVELOPMENT_KEY, any_key
from typed_data_cases import CASES, LENIENT_CASES, MAIL

RANDOM = 200


def typed_data_vectors() -> Iterator[dict[str, Any]]:
    """All of them signed with some key."""
    chance = Random("typed data")
    for name, typed_data in CASES.items():
        yield vector(name, typed_data, any_key(chance))
    for number in range(RANDOM):
        yield vector(f"any {number}", any_typed_data(chance), any_key(chance))
    for name, typed_data in LENIENT_CASES.items():
        yield vector(name, typed_data, any_key(chance))
    yield vector("the standard's Mail, of a development account", MAIL, DEVELOPMENT_KEY)


def vector(name: str, typed_data: dict[str, Any], key: str) -> dict[str, Any]:
    """The vector: the typed data, its digest and its signature."""
    signed = Account.sign_message(encode_typed_data(full_message=typed_data), key)
    return {
        "name": name,
        "key": key,
        "typed_data": typed_data,
        "digest": f"0x{signed.message_hash.hex()}",
        "signature": f"0x{signed.signature.hex()}",
    }
