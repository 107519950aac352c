"""Addresses with the checksum that hides in their capitals (EIP-55).

An address is `0x` and 40 hexadecimal digits, everywhere in this module; whether it is one, the caller has
checked.
"""

from bridge_server.ethereum.keccak import keccak256

_DIGITS = 40
_CASE_BIT = 0x20

# From a digit of the hash: the case bit where it makes the address's digit a capital (8 to f), else nothing.
_CAPITAL_FROM_8 = bytes.maketrans(b"0123456789abcdef", bytes(8) + bytes([_CASE_BIT]) * 8)


def checksummed(lower_case_address: str) -> str:
    """Spell an address, given in lower case, with its checksum."""
    digits = lower_case_address[2:].encode()
    capitals = keccak256(digits).hex()[:_DIGITS].encode().translate(_CAPITAL_FROM_8)
    return f"0x{_clear_case(digits, capitals).decode()}"


def is_valid_checksum(address: str) -> bool:
    """Whether the capitals are the checksum's, or there is none: all letters in one case."""
    digits = address[2:]
    lower_case_digits = digits.lower()
    return digits in (lower_case_digits, digits.upper()) or checksummed(f"0x{lower_case_digits}") == address


def address_of_public_key(public_key: bytes) -> str:
    """The account of a key, with its checksum; `public_key` is uncompressed: 65 bytes from 0x04 on."""
    return checksummed(f"0x{keccak256(public_key[1:])[-_DIGITS // 2 :].hex()}")


def _clear_case(digits: bytes, capitals: bytes) -> bytes:
    """Turn letters into capitals where there is a case bit, all forty at once.

    In ASCII a letter differs from its capital by 0x20, and from a decimal digit by having 0x40: shifted by
    one, that bit selects the letters.
    """
    number = int.from_bytes(digits)
    letters = number >> 1
    return (number ^ (letters & int.from_bytes(capitals))).to_bytes(_DIGITS)
