"""Addresses with the checksum in their capitals (EIP-55), and hexadecimal as JSON-RPC spells it (EIP-1474).

DATA are bytes, a QUANTITY is a whole number; both begin with `0x`, and letters may have any case. The text of
an error names the rule and not the place, so that a caller can put the place in front of it.
"""

import re

from bridge_server.ethereum.keccak import keccak256

_DIGITS = 40
_CASE_BIT = 0x20

# From a digit of the hash: the case bit where it makes the address's digit a capital (8 to f), else nothing.
_CAPITAL_FROM_8 = bytes.maketrans(b"0123456789abcdef", bytes(8) + bytes([_CASE_BIT]) * 8)

ADDRESS_BYTES = 20

_PREFIX = "0x"
_QUANTITY = re.compile(r"0x(?:0|[1-9a-fA-F][0-9a-fA-F]{0,63})")
_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")


def checksummed(lower_case_address: str) -> str:
    """Spell an address, `0x` and 40 digits in lower case, with its checksum."""
    digits = lower_case_address[2:].encode()
    capitals = keccak256(digits).hex()[:_DIGITS].encode().translate(_CAPITAL_FROM_8)
    return f"0x{_clear_case(digits, capitals).decode()}"


def is_valid_checksum(address: str) -> bool:
    """Whether the capitals of an address are its checksum, or there is none: all letters in one case."""
    digits = address[2:]
    lower_case_digits = digits.lower()
    return digits in (lower_case_digits, digits.upper()) or checksummed(f"0x{lower_case_digits}") == address


def address_of_public_key(public_key: bytes) -> str:
    """The account of a key, with its checksum; `public_key` is uncompressed: 65 bytes from 0x04 on."""
    return checksummed(f"0x{keccak256(public_key[1:])[-_DIGITS // 2 :].hex()}")


def _clear_case(digits: bytes, capitals: bytes) -> bytes:
    """Turn letters into capitals where there is a case bit, all forty at once. In ASCII a letter differs from
    its capital by 0x20, and from a decimal digit by having 0x40: shifted by one, that bit selects the
    letters.
    """
    number = int.from_bytes(digits)
    letters = number >> 1
    return (number ^ (letters & int.from_bytes(capitals))).to_bytes(_DIGITS)


class HexError(ValueError):
    """The value breaks a rule; the text continues a sentence that begins with the value's place."""


def data_of(text: object, size: int | None = None) -> bytes:
    """The bytes that DATA stand for; raises HexError, also when there are not `size` of them."""
    if not isinstance(text, str) or not text.startswith(_PREFIX):
        raise _no_data(size)
    try:
        data = bytes.fromhex(text[2:])
    except ValueError:
        raise _no_data(size) from None
    if 2 + 2 * len(data) != len(text):  # fromhex skips spaces
        raise _no_data(size)
    if size is not None and len(data) != size:
        raise HexError(f"must have {size} bytes ({2 + 2 * size} characters with 0x), and has {len(data)}")
    return data


def quantity_of(text: object) -> int:
    """The number that a QUANTITY stands for, below 2^256; raises HexError."""
    if not isinstance(text, str) or _QUANTITY.fullmatch(text) is None:
        raise HexError(
            "must be a QUANTITY: a string of 0x and 1 to 64 hexadecimal digits without leading zeros, "
            "such as 0x41; zero is 0x0"
        )
    return int(text, 16)


def address_of(text: object) -> str:
    """The address in lower case; raises HexError, also for capitals that are a wrong checksum (EIP-55)."""
    if not isinstance(text, str) or _ADDRESS.fullmatch(text) is None:
        raise HexError("must be an address: a string of 0x and 40 hexadecimal digits")
    if not is_valid_checksum(text):
        raise HexError(
            "has a wrong checksum in its capitals (EIP-55): it may be mistyped. "
            f"With the right one it is {checksummed(text.lower())}"
        )
    return text.lower()


def hex_of(data: bytes) -> str:
    """Bytes as DATA."""
    return _PREFIX + data.hex()


def quantity(number: int) -> str:
    """A number from 0 on as a QUANTITY."""
    return hex(number)


def _no_data(size: int | None) -> HexError:
    digits = "two hexadecimal digits for each byte" if size is None else f"{2 * size} hexadecimal digits"
    return HexError(f"must be DATA: a string of 0x and {digits}")
