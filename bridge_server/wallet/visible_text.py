"""Words for a person's eyes: texts in which nothing hides, exact amounts, calls of known contracts."""

import re
from collections.abc import Callable
from functools import cache
from typing import NamedTuple, TypeAlias
from unicodedata import east_asian_width

from bridge_server.ethereum.address import checksummed, hex_of
from bridge_server.ethereum.keccak import keccak256
from bridge_server.kernel.instants import rfc3339

_CONTINUED = "… "
_SHORTEST = 8  # of a line that is broken after a space

# Characters that Unicode calls printable but that leave no mark: fillers, joiners, variation selectors and
# blanks. Everything else that is unseen (controls, terminal escapes, marks of direction, characters without
# width) is not printable.
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0"
    "\U00013441\U00013442\U00016fe4\U0001d159\U000e0100-\U000e01ef]"
)


def visible(text: str) -> str:
    """The text on one line, with its unseen characters as `<U+202E>`."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        each if each.isprintable() and _BLANK.match(each) is None else f"<U+{ord(each):04X}>" for each in text
    )


def folded(text: str, columns: int) -> list[str]:
    """The lines of a visible text, of at most so many columns, broken after a space where there is one. A
    terminal that had to break them itself would begin with the rest where only labels begin.
    """
    lines, start, mark = [], 0, ""
    while (end := _end_of_line(text, start, columns - len(mark))) < len(text):
        cut = text.rfind(" ", start + _SHORTEST, end) + 1 or end
        lines.append(mark + text[start:cut])
        start, mark = cut, _CONTINUED
    return [*lines, mark + text[start:]]


def _end_of_line(text: str, start: int, columns: int) -> int:
    """The end of the part that fits; characters of East Asia take two columns."""
    for position in range(start, min(len(text), start + columns + 1)):
        columns -= 2 if east_asian_width(text[position]) in "WF" else 1
        if columns < 0:
            return position
    return len(text)


# Amounts of wei in words, exactly.

_WEI_DIGITS_OF_ETHER = 18
_WEI_DIGITS_OF_GWEI = 9

# No supply of a token is as large: a greater allowance counts as unlimited. Some tokens count in 96 bits.
_UNLIMITED_FROM = 2**128
_UNLIMITED_OF_96_BITS = 2**96 - 1

_INSTANTS = range(1_000_000_000, 100_000_000_000)  # seconds, from 2001 to the year 5138


def ether(wei: int) -> str:
    """`1.5 ether (1500000000000000000 wei)`."""
    return f"{_scaled(wei, _WEI_DIGITS_OF_ETHER)} ether ({wei} wei)" if wei else "0 ether"


def gwei(wei: int) -> str:
    """`1.5 gwei`."""
    return f"{_scaled(wei, _WEI_DIGITS_OF_GWEI)} gwei"


def is_unlimited(allowance: int) -> bool:
    """Whether an allowance of so many units of a token has no end in practice."""
    return allowance >= _UNLIMITED_FROM or allowance == _UNLIMITED_OF_96_BITS


def instant(seconds: int) -> str:
    """The number, and the time that it is when it is one in seconds since 1970."""
    return f"{seconds} ({rfc3339(seconds * 1000)})" if seconds in _INSTANTS else str(seconds)


def _scaled(number: int, digits: int) -> str:
    whole, rest = divmod(number, 10**digits)
    return f"{whole}.{rest:0{digits}}".rstrip("0").rstrip(".")


# Calls of contracts that a person should understand before they sign: tokens and their allowances.
#
# A call's data are a selector, which is the beginning of its signature's hash, and 32 bytes for each argument
# (Solidity's ABI). The author of a contract may mean anything by a function's name. The words here are the
# meaning that the standards give it (ERC-20, ERC-721, ERC-1155, EIP-2612).

Argument: TypeAlias = tuple[str, str]
"""An argument as its name and value."""

_SELECTOR_BYTES = 4
_WORD_BYTES = 32
_ADDRESS_BYTES = 20

_ALLOWANCE = "the spender can take this token from the account, up to the amount, at any time"
_UNLIMITED = "UNLIMITED: the spender can take all of this token that the account has or will have"
_ALL_TOKENS = "the operator can take EVERY token of this contract from the account, at any time"


class KnownCall(NamedTuple):
    """A function: its declaration, as Solidity has it, and its meaning in words."""

    declaration: str
    meaning: str
    warning: Callable[[list[int]], str | None] = lambda words: None

    @property
    def arguments(self) -> list[list[str]]:
        """The type and the name of each argument."""
        return [argument.split() for argument in self.declaration[:-1].partition("(")[2].split(", ")]

    @property
    def signature(self) -> str:
        """Its name and the types of its arguments."""
        return f"{self.declaration.partition('(')[0]}({','.join(kind for kind, _ in self.arguments)})"


class ReadCall(NamedTuple):
    """A call in words. With a `fault` in its arguments they are not to be relied on."""

    signature: str
    meaning: str
    arguments: list[Argument]
    warning: str | None = None
    fault: str | None = None


def read_call(data: bytes) -> ReadCall | None:
    """The call that the data are, if it is a known one."""
    known = _by_selector().get(data[:_SELECTOR_BYTES])
    if known is None:
        return None
    arguments, wanted = data[_SELECTOR_BYTES:], known.arguments
    heads = len(wanted) * _WORD_BYTES
    if len(arguments) < heads:
        return _unreadable(known, f"it has {len(arguments)} bytes of arguments, and needs {heads}")
    words = [arguments[start : start + _WORD_BYTES] for start in range(0, heads, _WORD_BYTES)]
    try:
        shown = [(name, _READERS[kind](name, word)) for (kind, name), word in zip(wanted, words, strict=True)]
    except ValueError as error:
        return _unreadable(known, str(error))
    if len(arguments) > heads and not known.signature.endswith("bytes)"):
        shown.append(("and", f"{len(arguments) - heads} bytes more, which the call does not need"))
    numbers = [int.from_bytes(word) for word in words]
    return ReadCall(known.signature, known.meaning, shown, known.warning(numbers))


def _unreadable(known: KnownCall, fault: str) -> ReadCall:
    return ReadCall(known.signature, known.meaning, [], fault=fault)


def _read_address(name: str, word: bytes) -> str:
    if any(word[:-_ADDRESS_BYTES]):
        raise ValueError(f"{name} is no address: {hex_of(word)}")
    return checksummed(hex_of(word[-_ADDRESS_BYTES:]))


def _read_bool(name: str, word: bytes) -> str:
    number = int.from_bytes(word)
    if number > 1:
        raise ValueError(f"{name} is neither true nor false: {hex_of(word)}")
    return "true" if number else "false"


def _read_number(name: str, word: bytes) -> str:
    number = int.from_bytes(word)
    return instant(number) if name == "deadline" else str(number)


def _allowance(position: int) -> Callable[[list[int]], str | None]:
    def warning(words: list[int]) -> str | None:
        if words[position] == 0:
            return None
        return _UNLIMITED if is_unlimited(words[position]) else _ALLOWANCE

    return warning


_READERS: dict[str, Callable[[str, bytes], str]] = {
    "address": _read_address,
    "bool": _read_bool,
    "uint256": _read_number,
    "uint8": _read_number,
    "bytes32": lambda name, word: hex_of(word),
    "bytes": lambda name, word: "(in the data below)",
}

_KNOWN = (
    KnownCall("transfer(address to, uint256 amount)", "send a token (ERC-20)"),
    KnownCall(
        "approve(address spender, uint256 amount)",
        "let another spend a token (ERC-20), or, with a token's number for the amount, take it (ERC-721)",
        _allowance(1),
    ),
    KnownCall(
        "increaseAllowance(address spender, uint256 added)",
        "let another spend more of a token (ERC-20)",
        _allowance(1),
    ),
    KnownCall(
        "decreaseAllowance(address spender, uint256 subtracted)", "let another spend less of a token (ERC-20)"
    ),
    KnownCall(
        "transferFrom(address from, address to, uint256 amount)",
        "send a token of somebody who allowed it (ERC-20), or a single one, by its number (ERC-721)",
    ),
    KnownCall(
        "permit(address owner, address spender, uint256 value, uint256 deadline, "
        "uint8 v, bytes32 r, bytes32 s)",
        "let another spend the owner's token, by the owner's signature (EIP-2612)",
        _allowance(2),
    ),
    KnownCall(
        "setApprovalForAll(address operator, bool approved)",
        "let another take all tokens, or no longer (ERC-721, ERC-1155)",
        lambda words: _ALL_TOKENS if words[1] else None,
    ),
    KnownCall(
        "safeTransferFrom(address from, address to, uint256 token)", "send a token by its number (ERC-721)"
    ),
    KnownCall(
        "safeTransferFrom(address from, address to, uint256 token, bytes data)",
        "send a token by its number (ERC-721)",
    ),
    KnownCall(
        "safeTransferFrom(address from, address to, uint256 token, uint256 amount, bytes data)",
        "send a token by its number (ERC-1155)",
    ),
)


@cache
def _by_selector() -> dict[bytes, KnownCall]:
    """The known calls by the first bytes of their data, which are a hash."""
    return {keccak256(known.signature.encode())[:_SELECTOR_BYTES]: known for known in _KNOWN}
