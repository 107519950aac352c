"""Ed25519 signatures (RFC 8032).

This module is imported with the first client of generation 2.x: its imports (elliptic curves) take up to a
tenth of a second, and a server without such clients does not need them.
"""

from Crypto.Signature import eddsa


def require_signature(public_key: bytes, signed: bytes, signature: bytes) -> None:
    """Raise ValueError unless the owner of the key has signed this."""
    eddsa.new(eddsa.import_public_key(public_key), "rfc8032").verify(signed, signature)
