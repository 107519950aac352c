"""Verification of VAPID, as a push service does it (RFC 8292)."""

import re
from base64 import urlsafe_b64decode
from typing import Any

from Crypto.PublicKey import ECC

from bridge_server.testing.jwt_check import verified

_LONGEST_SECONDS = 24 * 3_600
_HEADER = re.compile(r"vapid +t=([\w.-]+) *, *k=([\w-]+)", re.IGNORECASE | re.ASCII)
_SUBJECT = re.compile(r"mailto:[^@\s]+@[^@\s]+\.[^@\s]+|https://[^/\s]+\.[^\s]+")


class BadVapidError(Exception):
    """The VAPID header of a request is not valid. The text says why."""


def verified_key(authorization: str | None, audience: str, now_seconds: float) -> str:
    """Verify an Authorization header; returns its public key as base64url. Raises BadVapidError."""
    matched = _HEADER.fullmatch(authorization or "")
    if matched is None:
        raise BadVapidError("the Authorization header is not «vapid t=…, k=…»")
    token, key = matched.groups()
    try:
        _, claims = verified(token, _public_key(key))
        _check(claims, audience, now_seconds)
    except ValueError as error:
        raise BadVapidError(f"invalid JWT: {error}") from None
    return key


def _public_key(text: str) -> ECC.EccKey:
    point = urlsafe_b64decode(text + "=" * (-len(text) % 4))
    return ECC.import_key(point, curve_name="P-256")


def _check(claims: dict[str, Any], audience: str, now_seconds: float) -> None:
    expires_at = claims.get("exp")
    if claims.get("aud") != audience:
        raise ValueError("the audience is another server")
    if not isinstance(expires_at, int) or not 0 < expires_at - now_seconds <= _LONGEST_SECONDS:
        raise ValueError("it has expired, or lasts longer than 24 hours")
    if not isinstance(claims.get("sub"), str) or not _SUBJECT.fullmatch(claims["sub"]):
        raise ValueError("the subject is neither mailto: nor an https URL")
