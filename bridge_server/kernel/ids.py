"""Ids that are capabilities: knowing an id is the right to use the thing, so ids must be unguessable."""

import os
from collections.abc import Callable

_VERSION_BITS = 0xF << 76
_VARIANT_BITS = 0x3 << 62


class IdMaker:
    """Makes UUIDs (RFC 9562) from a source of randomness that is handed in."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes

    def random_uuid(self) -> str:
        """A version 4 UUID: 122 random bits."""
        return _spell(int.from_bytes(self._random_bytes(16)), version=4)

    def ordered_uuid(self, now_ms: int) -> str:
        """A version 7 UUID: 48 bits of time, then 74 random bits.

        Ids of one moment lie side by side in an index, which keeps the inserts into a large table local.
        """
        return _spell(now_ms << 80 | int.from_bytes(self._random_bytes(10)), version=7)


def _spell(bits: int, version: int) -> str:
    bits = bits & ~_VERSION_BITS | version << 76
    bits = bits & ~_VARIANT_BITS | 0x2 << 62
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
