"""Bytes as text that fits into URLs and JSON Web Tokens: base64url without padding (RFC 4648, section 5)."""

import base64
import binascii
import re

_ALPHABET = re.compile(r"[A-Za-z0-9_-]*={0,2}")


def encode(data: bytes) -> str:
    """The text, without padding."""
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decode(text: str) -> bytes:
    """The bytes; padding may be there or not. Raises ValueError, which does not quote the text."""
    if not _ALPHABET.fullmatch(text):
        raise ValueError("is not base64url: it holds other characters than A-Z a-z 0-9 - _")
    bare = text.rstrip("=")
    try:
        return base64.urlsafe_b64decode(bare + "=" * (-len(bare) % 4))
    except binascii.Error:
        raise ValueError("is not base64url: its length cannot be right") from None
