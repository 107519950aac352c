"""JSON Web Tokens (RFC 7519) with the signatures RS256 and ES256."""

from collections.abc import Callable, Mapping

import orjson
from Crypto.Hash import SHA256
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from Crypto.Signature import DSS, pkcs1_15

from bridge_server.kernel import base64url


def rs256(header: Mapping[str, str], claims: Mapping[str, str | int], key: RsaKey) -> str:
    """A token signed with RSA and SHA-256 (RFC 7518, 3.3); `alg` is added to the header."""
    return _signed("RS256", header, claims, lambda text: pkcs1_15.new(key).sign(SHA256.new(text)))


def es256(header: Mapping[str, str], claims: Mapping[str, str | int], key: EccKey) -> str:
    """A token signed with ECDSA on P-256 and SHA-256 (RFC 7518, 3.4); `alg` is added to the header.

    The signature is r and s, 32 bytes each, not their DER encoding. It is deterministic (RFC 6979): equal
    claims give equal tokens.
    """
    signer = DSS.new(key, "deterministic-rfc6979", "binary")
    return _signed("ES256", header, claims, lambda text: signer.sign(SHA256.new(text)))


def _signed(
    algorithm: str,
    header: Mapping[str, str],
    claims: Mapping[str, str | int],
    signature: Callable[[bytes], bytes],
) -> str:
    parts = orjson.dumps({"alg": algorithm, **header}), orjson.dumps(dict(claims))
    text = ".".join(base64url.encode(part) for part in parts)
    return f"{text}.{base64url.encode(signature(text.encode()))}"
