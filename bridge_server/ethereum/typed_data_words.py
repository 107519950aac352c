"""Typed data (EIP-712): the word of 32 bytes that stands for a value, for all types but structs and arrays.

For each type, only spellings are accepted that all verifiers read alike. So a bool is no number, bytes are
never padded, and text is not taken for bytes.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

from bridge_server.ethereum.hex_data import HexError, address_of, data_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.typed_data_errors import MemberError, shown

Encoder: TypeAlias = Callable[[Any], bytes]
"""Makes the word of a value, as parsed from JSON. Raises MemberError for a value of another type."""

WORD_BYTES = 32
ZERO_WORD = bytes(WORD_BYTES)

_ONE_WORD = (1).to_bytes(WORD_BYTES)
_WORD_MASK = (1 << 8 * WORD_BYTES) - 1  # turns a negative number into its two's complement
_CACHED_ADDRESSES = 4_096

_NUMBER = re.compile(r"-?[0-9]{1,78}|0x[0-9a-fA-F]{1,64}")  # 78 digits have 2**256


def _bool(value: object) -> bytes:
    if value is True:
        return _ONE_WORD
    if value is False:
        return ZERO_WORD
    raise MemberError(f"must be a bool, true or false, and is {shown(value)}")


def _string(value: object) -> bytes:
    if type(value) is not str:
        raise MemberError(f"must be a string, and is {shown(value)}")
    try:
        return keccak256(value.encode())
    except UnicodeEncodeError:
        raise MemberError(
            "must be a string, and has half of a surrogate pair, which UTF-8 cannot spell"
        ) from None


def _bytes(value: object) -> bytes:
    return keccak256(_data_of(value))


def _fixed_bytes(size: int) -> Encoder:
    padding = bytes(WORD_BYTES - size)
    return lambda value: _data_of(value, size) + padding


def _data_of(value: object, size: int | None = None) -> bytes:
    try:
        return data_of(value, size)
    except HexError as error:
        raise MemberError(str(error)) from None


def _address(value: object) -> bytes:
    text = value if isinstance(value, str) else ""  # no address either, but a key for the cache
    try:
        return _address_word(text)
    except HexError as error:
        raise MemberError(str(error)) from None


@lru_cache(_CACHED_ADDRESSES)
def _address_word(text: str) -> bytes:
    """A few addresses come again and again: their checksums are verified once."""
    return bytes.fromhex(address_of(text)[2:]).rjust(WORD_BYTES, b"\0")


def _integer(name: str, lowest: int, highest: int, limits: str) -> Encoder:
    def encode(value: Any) -> bytes:
        number = value if type(value) is int else _number_of(value, name)
        if not lowest <= number <= highest:
            raise MemberError(f"must be of type {name}, {limits}, and is {shown(value)}")
        return (number & _WORD_MASK).to_bytes(WORD_BYTES)

    return encode


def _number_of(value: object, name: str) -> int:
    if type(value) is float:
        raise MemberError(
            f"must be of type {name}, and is {value}, a number with a fraction or of more than 64 bits: "
            "write an integer, a large one as a string"
        )
    if type(value) is not str or not _NUMBER.fullmatch(value):
        raise MemberError(
            f"must be of type {name}: an integer, or a string with its decimal digits or with 0x and its "
            f"hexadecimal ones, not {shown(value)}"
        )
    return int(value, 16 if value.startswith("0x") else 10)


def _unsigned(bits: int) -> Encoder:
    return _integer(f"uint{bits}", 0, (1 << bits) - 1, f"from 0 to 2^{bits} - 1")


def _signed(bits: int) -> Encoder:
    half = 1 << bits - 1
    return _integer(f"int{bits}", -half, half - 1, f"from -2^{bits - 1} to 2^{bits - 1} - 1")


_BITS = range(8, 257, 8)
_USUAL_BITS = 256

WORD_ENCODERS: Mapping[str, Encoder] = {
    "bool": _bool,
    "address": _address,
    "string": _string,
    "bytes": _bytes,
    **{f"bytes{size}": _fixed_bytes(size) for size in range(1, WORD_BYTES + 1)},
    **{f"uint{bits}": _unsigned(bits) for bits in _BITS},
    **{f"int{bits}": _signed(bits) for bits in _BITS},
    "uint": _unsigned(_USUAL_BITS),
    "int": _signed(_USUAL_BITS),
}
"""The encoders by type. EIP-712 knows no fixed-point numbers and no functions. `uint`, `int` are not in it:
wallets and verifiers take them for 256 bits, and spell them in the type's hash as they came."""
