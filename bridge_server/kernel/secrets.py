"""Secrets and tokens: 256 random bits, of which only the SHA-256 is stored."""

import base64
import hmac
from collections.abc import Callable, Sequence
from hashlib import sha256

_SECRET_BYTES = 32


def new_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret in 43 characters of URL-safe Base64."""
    return base64.urlsafe_b64encode(random_bytes(_SECRET_BYTES)).rstrip(b"=").decode()


def digest(secret: str) -> bytes:
    """The digest under which a secret is stored."""
    return sha256(secret.encode(errors="surrogateescape")).digest()


class OneToken:
    """Passes exactly one token, compared in constant time."""

    def __init__(self, token: str) -> None:
        self._digests = [digest(token)]

    def __call__(self, token: str) -> bool:
        return is_one_of(token, self._digests)


class ChangingToken:
    """Passes a token, compared in constant time, and the previous one while its bearers change to the new."""

    def __init__(self, token: str, previous: str | None) -> None:
        self._digests: list[bytes] = []
        self.replace(token, previous)

    def __call__(self, token: str) -> bool:
        return is_one_of(token, self._digests)

    def replace(self, token: str, previous: str | None) -> None:
        """Pass these from now on, and no other."""
        self._digests = [digest(each) for each in (token, previous) if each is not None]


def is_one_of(secret: str, digests: Sequence[bytes]) -> bool:
    """Whether the secret has one of the digests; takes as long for each of them."""
    sent = digest(secret)
    matches = [hmac.compare_digest(sent, known) for known in digests]
    return any(matches)
