"""Verifies JSON Web Tokens, with another library than the one that the server signs with."""

import json
from base64 import urlsafe_b64decode
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from cryptography.hazmat.primitives.hashes import SHA256

PublicKey = rsa.RSAPublicKey | ec.EllipticCurvePublicKey


def verified(token: str, key: PublicKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """The header and the claims of a token that the key's owner signed. Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("a token has three parts")
    header, claims, signature = (_bytes(part) for part in parts)
    _verify(f"{parts[0]}.{parts[1]}".encode(), signature, key)
    fields = _object(header), _object(claims)
    expected = "RS256" if isinstance(key, rsa.RSAPublicKey) else "ES256"
    if fields[0].get("alg") != expected:
        raise ValueError(f"alg must be {expected}")
    return fields


def _verify(text: bytes, signature: bytes, key: PublicKey) -> None:
    try:
        if isinstance(key, rsa.RSAPublicKey):
            key.verify(signature, text, padding.PKCS1v15(), SHA256())
            return
        if len(signature) != 64:
            raise ValueError("the signature must be r and s, 32 bytes each")
        numbers = int.from_bytes(signature[:32]), int.from_bytes(signature[32:])
        key.verify(encode_dss_signature(*numbers), text, ec.ECDSA(SHA256()))
    except InvalidSignature:
        raise ValueError("the signature does not fit") from None


def _bytes(part: str) -> bytes:
    if "=" in part:
        raise ValueError("base64url in tokens has no padding")
    return urlsafe_b64decode(part + "=" * (-len(part) % 4))


def _object(text: bytes) -> dict[str, Any]:
    value = json.loads(text)
    if not isinstance(value, dict):
        raise ValueError("a JSON object is needed")
    return value
