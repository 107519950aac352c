"""Secrets of 256 random bits, of which only the SHA-256 is stored, and ids that nobody can guess."""

import hmac
import os
import re
from collections.abc import Callable, MutableMapping, Sequence
from hashlib import sha256
from typing import Any

from bridge_server.kernel import base64url

_SECRET_BYTES = 32
_VERSION_BITS = 0xF << 76
_VARIANT_BITS = 0x3 << 62
_VARIANT_DIGITS = {f"{digit:x}": f"{0x8 | digit & 0x3:x}" for digit in range(16)}


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret in 43 characters of URL-safe Base64."""
    return base64url.encode(random_bytes(_SECRET_BYTES))


def digest(secret: str) -> bytes:
    """The digest under which a secret is stored."""
    return sha256(secret.encode(errors="surrogateescape")).digest()


class ChangingToken:
    """Passes a token, compared in constant time, and the previous one while its bearers change to the new."""

    def __init__(self, token: str, previous: str | None = None) -> None:
        self._digests: list[bytes] = []
        self.replace(token, previous)

    def __call__(self, token: str) -> bool:
        return is_one_of(digest(token), self._digests)

    def replace(self, token: str, previous: str | None) -> None:
        """Pass these from now on, and no other."""
        self._digests = [digest(each) for each in (token, previous) if each is not None]


def is_one_of(sent: bytes, digests: Sequence[bytes]) -> bool:
    """Whether a secret's digest is one of these; takes as long for each of them."""
    matches = [hmac.compare_digest(sent, known) for known in digests]
    return any(matches)


# Secrets in the log.

_NAME_OF_A_SECRET = re.compile(
    r"secret|token|password|passphrase|private|authorization|payload|body", re.IGNORECASE
)
_REDACTED = "[redacted]"


def redact(_: object, __: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace the values of fields whose names suggest a secret or a payload: a processor of structlog."""
    for name in event:
        if _NAME_OF_A_SECRET.search(name):
            event[name] = _REDACTED
    return event


class IdMaker:
    """Makes UUIDs (RFC 9562) that nobody can guess: knowing an id is the right to use the thing."""

    def __init__(self, random_bytes: Callable[[int], bytes] = os.urandom) -> None:
        self._random_bytes = random_bytes

    def random_uuid(self) -> str:
        """A version 4 UUID: 122 random bits."""
        return _spell(int.from_bytes(self._random_bytes(16)), version=4)

    def ordered_uuid(self, now_ms: int) -> str:
        """A version 7 UUID: 48 bits of time, then 74 random ones, for inserts side by side in an index."""
        # As `_spell` with version 7, whose bits stand in whole digits, but without 128-bit numbers.
        time, digits = f"{now_ms:012x}", self._random_bytes(10).hex()
        variant = _VARIANT_DIGITS[digits[4]]
        return f"{time[:8]}-{time[8:]}-7{digits[1:4]}-{variant}{digits[5:8]}-{digits[8:]}"


def _spell(bits: int, version: int) -> str:
    bits = bits & ~_VERSION_BITS | version << 76
    bits = bits & ~_VARIANT_BITS | 0x2 << 62
    digits = f"{bits:032x}"
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"
