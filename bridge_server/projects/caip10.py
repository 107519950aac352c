"""Account ids of CAIP-10: `namespace:reference:address`, such as `eip155:1:0xab16…`.

Neither the chain nor the letter case of the address distinguishes Ethereum accounts (`eip155`): one private
key controls the address on every chain. Ids of other namespaces are compared exactly.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from bridge_server.ethereum.address import checksummed, is_valid_checksum

_ETHEREUM = "eip155:"
_ADDRESS_CHARACTERS = 42

_ACCOUNT = re.compile(
    r"eip155:[0-9]{1,32}:(0x[0-9a-fA-F]{40})"
    r"|(?!eip155:)[-a-z0-9]{3,8}:[-_a-zA-Z0-9]{1,32}:[-.%a-zA-Z0-9]{1,128}"
)

_ADDRESS = re.compile(r"0x[0-9a-fA-F]{40}")
_ETHEREUM_LINES = re.compile(r"(?:\neip155:[0-9]{1,32}+:0x.{40})++")
_DIGITS = b"0123456789abcdefABCDEF"
_BESIDE_DIGITS = b"\nip::x"  # all that such a line has besides hexadecimal digits


class Account(NamedTuple):
    """An account: `key` is equal for all of its account ids, `spelled` is the account id to show."""

    key: str
    spelled: str


@lru_cache(maxsize=65_536)
def account_key(text: str) -> str:
    """The account key of an account id: `eip155:0x…` in lower case without a chain; else the id itself.
    Raises ValueError if the text is not an account id or its checksum (EIP-55) is wrong. Results are cached,
    because a request can name hundreds of accounts and each checksum costs a hash.
    """
    key = unproven_account_key(text)
    if key.startswith(_ETHEREUM) and not is_valid_checksum(text[-_ADDRESS_CHARACTERS:]):
        raise ValueError("has a wrong checksum in its address (EIP-55): it may be mistyped")
    return key


def unproven_account_keys(texts: Sequence[str]) -> dict[str, str] | None:
    """The keys of Ethereum account ids, checksums unchecked, by one pattern; None if some text is none."""
    lines = "\n" + "\n".join(texts)
    if _ETHEREUM_LINES.fullmatch(lines) is None:
        return None
    beside_digits = lines.encode(errors="replace").translate(None, _DIGITS)
    if beside_digits != _BESIDE_DIGITS * len(texts):  # a text may have several lines, too
        return None
    return {text: _ETHEREUM + text[-_ADDRESS_CHARACTERS:].lower() for text in texts}


def unproven_account_key(text: str) -> str:
    """The key of an account id whose checksum is not checked. Raises ValueError for another text."""
    match = _ACCOUNT.fullmatch(text)
    if match is None:
        raise ValueError(_expectation(text))
    address = match[1]
    return text if address is None else _ETHEREUM + address.lower()


def parse_account(text: str) -> Account:
    """The account of an account id, shown with its checksum. Raises ValueError like `account_key`."""
    key = account_key(text)
    if not key.startswith(_ETHEREUM):
        return Account(key, key)
    chain_id = int(text.split(":")[1])
    return Account(key, f"{_ETHEREUM}{chain_id}:{checksummed(key.removeprefix(_ETHEREUM))}")


def ethereum_account(chain_id: int, address: str) -> Account:
    """The account of an address on a chain. Raises ValueError like `account_key`."""
    return parse_account(f"{_ETHEREUM}{chain_id}:{address}")


def account_of_key(key: str) -> Account:
    """The account of an account key. An Ethereum account is shown on the chain 1."""
    is_ethereum = key.startswith(_ETHEREUM)
    return ethereum_account(1, key.removeprefix(_ETHEREUM)) if is_ethereum else Account(key, key)


def _expectation(text: str) -> str:
    if _ADDRESS.fullmatch(text):
        return f"is an address: write {_ETHEREUM}1:{text}"
    if text.startswith(_ETHEREUM):
        return (
            "must be eip155, the chain id in decimal, and an address (0x and 40 hexadecimal digits), such as "
            "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
        )
    return (
        "must be an account id (CAIP-10): a namespace of 3 to 8 characters out of a-z 0-9 -, a reference of "
        "1 to 32 out of a-z A-Z 0-9 - _, an address of 1 to 128 out of a-z A-Z 0-9 - . %, joined by colons, "
        "such as eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
    )
