"""A client's identity at a relay: an Ed25519 key, its did:key, and the token that proves it.

Sources: the did:key method (W3C), RFC 7519, RFC 8037; `signJWT` of the published @walletconnect/relay-auth.
"""

from secrets import token_hex

import orjson
from Crypto.PublicKey import ECC
from Crypto.Signature import eddsa

from bridge_server.kernel import base64url

_MULTICODEC_ED25519 = bytes.fromhex("ed01")
_BASE58 = "123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz"
_HEADER = {"alg": "EdDSA", "typ": "JWT"}
_TOKEN_SECONDS = 24 * 3_600


class ClientId:
    """The identity of a client, which a relay recognizes on every connection."""

    def __init__(self, seed: bytes | None = None) -> None:
        self._key = (
            ECC.generate(curve="Ed25519") if seed is None else ECC.construct(curve="Ed25519", seed=seed)
        )
        public: bytes = self._key.public_key().export_key(format="raw")
        self.did = "did:key:z" + base58(_MULTICODEC_ED25519 + public)

    def token(self, relay_url: str, now_s: int) -> str:
        """A JSON Web Token for a connection to the relay, valid for a day."""
        claims = {
            "iss": self.did,
            "sub": token_hex(32),
            "aud": relay_url,
            "iat": now_s,
            "exp": now_s + _TOKEN_SECONDS,
        }
        signed = ".".join(base64url.encode(orjson.dumps(part)) for part in (_HEADER, claims))
        signature = eddsa.new(self._key, "rfc8032").sign(signed.encode())
        return f"{signed}.{base64url.encode(signature)}"


def base58(data: bytes) -> str:
    """The bytes in base58btc, without the prefix of multibase."""
    number, digits = int.from_bytes(data), ""
    while number:
        number, digit = divmod(number, len(_BASE58))
        digits = _BASE58[digit] + digits
    zeros = len(data) - len(data.lstrip(b"\0"))
    return _BASE58[0] * zeros + digits
