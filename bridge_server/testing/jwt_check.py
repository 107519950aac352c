"""Verification of JSON Web Tokens, as push services do it."""

import json
from base64 import urlsafe_b64decode
from typing import Any, TypeAlias

from Crypto.Hash import SHA256
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from Crypto.Signature import DSS, pkcs1_15

PublicKey: TypeAlias = RsaKey | EccKey


def verified(token: str, key: PublicKey) -> tuple[dict[str, Any], dict[str, Any]]:
    """Verify a token with a public key; returns its header and claims. Raises ValueError."""
    parts = token.split(".")
    if len(parts) != 3:
        raise ValueError("a token has three parts")
    header, claims, signature = (_bytes(part) for part in parts)
    _verify(f"{parts[0]}.{parts[1]}".encode(), signature, key)
    fields = _object(header), _object(claims)
    expected = "RS256" if isinstance(key, RsaKey) else "ES256"
    if fields[0].get("alg") != expected:
        raise ValueError(f"alg must be {expected}")
    return fields


def _verify(text: bytes, signature: bytes, key: PublicKey) -> None:
    try:
        if isinstance(key, RsaKey):
            pkcs1_15.new(key).verify(SHA256.new(text), signature)
        else:
            DSS.new(key, "fips-186-3", "binary").verify(SHA256.new(text), signature)
    except ValueError:
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
