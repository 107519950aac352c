"""VAPID key pairs, which identify this server to push services (RFC 8292)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from Crypto.PublicKey import ECC

from bridge_server.kernel import base64url

PRIVATE_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class VapidKeys:
    """A key pair as base64url of the raw keys.

    A web page passes `public_key` (65 bytes) to `pushManager.subscribe` as `applicationServerKey`;
    `private_key` (32 bytes) is the setting `vapid_private_key`.
    """

    public_key: str
    private_key: str = field(repr=False)


def new_vapid_keys(random_bytes: Callable[[int], bytes]) -> VapidKeys:
    """Generate a key pair. Subscriptions stay bound to the pair with which they were made."""
    key = ECC.generate(curve="P-256", randfunc=random_bytes)
    private = int(key.d).to_bytes(PRIVATE_KEY_BYTES, "big")
    return VapidKeys(base64url.encode(raw_public_key(key)), base64url.encode(private))


def read_private_key(text: str) -> ECC.EccKey:
    """Read a private key in base64url. Raises ValueError, whose text does not quote the key."""
    try:
        raw = base64url.decode(text)
    except ValueError as error:
        raise ValueError(f"the VAPID private key {error}") from None
    if len(raw) != PRIVATE_KEY_BYTES:
        raise ValueError(
            f"the VAPID private key must hold {PRIVATE_KEY_BYTES} bytes, and holds {len(raw)}"
            + (" (the public key?)" if len(raw) == 65 else "")
        )
    try:
        return ECC.construct(curve="P-256", d=int.from_bytes(raw, "big"))
    except ValueError:
        raise ValueError("the VAPID private key is not a scalar of the curve P-256") from None


def raw_public_key(key: ECC.EccKey) -> bytes:
    """The public key as an uncompressed point: the byte 4, then x and y, 65 bytes in all."""
    point = key.public_key().export_key(format="raw")
    assert isinstance(point, bytes)
    return point
