"""Amounts of wei in words, exactly."""

from bridge_server.kernel.instants import rfc3339

_WEI_DIGITS_OF_ETHER = 18
_WEI_DIGITS_OF_GWEI = 9

# No supply of a token is as large: a greater allowance is meant as unlimited. Some tokens count in 96 bits.
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
