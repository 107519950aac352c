"""Key pairs by which push services know this server (VAPID, RFC 8292)."""

from collections.abc import Callable
from dataclasses import dataclass, field

from Crypto.PublicKey import ECC

from bridge_server.kernel import base64url

PRIVATE_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class VapidKeys:
    """A pair in the spelling in which it is pasted: base64url of the raw keys.

    `public_key`, 65 bytes, is what a web page gives to `pushManager.subscribe` as `applicationServerKey`;
    `private_key`, 32 bytes, is this server's setting.
    """

    public_key: str
    private_key: str = field(repr=False)


def new_vapid_keys(random_bytes: Callable[[int], bytes]) -> VapidKeys:
    """A fresh pair. Devices are bound to the pair that they subscribed with, so it is made once."""
    key = ECC.generate(curve="P-256", randfunc=random_bytes)
    private = int(key.d).to_bytes(PRIVATE_KEY_BYTES, "big")
    return VapidKeys(base64url.encode(raw_public_key(key)), base64url.encode(private))


def read_private_key(text: str) -> ECC.EccKey:
    """The key of a pair's private half. Raises ValueError, which does not quote the text."""
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
    """The public half as an uncompressed point, 65 bytes of which the first is 4."""
    point = key.public_key().export_key(format="raw")
    assert isinstance(point, bytes)
    return point
