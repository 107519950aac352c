"""VAPID keys (RFC 8292) and the JSON Web Tokens (RFC 7519) that push services take."""

import re
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import field
from urllib.parse import urlsplit

import orjson
from Crypto.Hash import SHA256
from Crypto.PublicKey import ECC
from Crypto.PublicKey.ECC import EccKey
from Crypto.PublicKey.RSA import RsaKey
from Crypto.Signature import DSS, pkcs1_15

from bridge_server.kernel import base64url
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.values import dataclass

_PRIVATE_KEY_BYTES = 32
_PUBLIC_KEY_BYTES = 65

_LIFETIME_SECONDS = 12 * 3_600
"""Half of the allowed 24 hours (RFC 8292, section 2), so that clocks may differ by 12 hours."""

_RENEWED_BEFORE_SECONDS = 3_600
_REMEMBERED_AUDIENCES = 256
_MAIL = re.compile(r"mailto:[^\s@<>?]+@([^\s@<>?]+)")
_UNREACHABLE = re.compile(r"(.*\.)?(localhost|local|invalid|test|example|internal)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class VapidKeys:
    """A key pair as base64url of the raw keys. A web page passes `public_key` (65 bytes) to
    `pushManager.subscribe` as `applicationServerKey`; `private_key` (32 bytes) is the setting
    `vapid_private_key`.
    """

    public_key: str
    private_key: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class _Token:
    """A VAPID token, by which this server identifies itself to one push service, in its header."""

    authorization: str
    issued_at_ms: int


class VapidIdentity:
    """Makes and caches the Authorization header for each push service. `subject` is a contact of this
    server's operator: `mailto:` and an address, or an https URL. Raises ValueError if the key or the subject
    is malformed. Not thread-safe.
    """

    def __init__(self, private_key: str, subject: str) -> None:
        self._key = read_private_key(private_key)
        self.public_key = base64url.encode(raw_public_key(self._key))
        self._subject = checked_subject(subject)
        self._tokens: OrderedDict[str, _Token] = OrderedDict()

    def authorization(self, audience: str, now_ms: int) -> str:
        """The Authorization header for the push service with the origin `audience`."""
        token = self._tokens.pop(audience, None)
        if token is None or not _is_fresh(token, now_ms):
            token = _Token(self._sign(audience, now_ms // 1_000), now_ms)
        self._tokens[audience] = token
        if len(self._tokens) > _REMEMBERED_AUDIENCES:
            self._tokens.popitem(last=False)
        return token.authorization

    def _sign(self, audience: str, now_seconds: int) -> str:
        claims: dict[str, str | int] = {
            "aud": audience,
            "exp": now_seconds + _LIFETIME_SECONDS,
            "sub": self._subject,
        }
        return f"vapid t={es256({'typ': 'JWT'}, claims, self._key)}, k={self.public_key}"


def _is_fresh(token: _Token, now_ms: int) -> bool:
    """Whether the token may still be used. After the clock was set back it may last longer than allowed."""
    age_seconds = (now_ms - token.issued_at_ms) / 1_000
    return 0 <= age_seconds < _LIFETIME_SECONDS - _RENEWED_BEFORE_SECONDS


def checked_subject(text: str) -> str:
    """Return the subject if push services accept it; raise ValueError otherwise. Apple's service refuses
    every message whose subject names a host without public access.
    """
    mail = _MAIL.fullmatch(text)
    host = mail[1] if mail else _https_host(text)
    if "." not in host or _UNREACHABLE.fullmatch(host):
        raise ValueError(
            "the VAPID subject must name a host that can be reached from outside: Apple refuses others"
        )
    return text


def _https_host(text: str) -> str:
    try:
        parts = urlsplit(http_url(text))
    except ValueError:
        parts = None
    if parts is None or parts.scheme != "https":
        raise ValueError("the VAPID subject must be mailto: and an address, or an https URL")
    return parts.hostname or ""


def new_vapid_keys(random_bytes: Callable[[int], bytes]) -> VapidKeys:
    """Generate a key pair. Subscriptions stay bound to the pair with which they were made."""
    key = ECC.generate(curve="P-256", randfunc=random_bytes)
    private = int(key.d).to_bytes(_PRIVATE_KEY_BYTES, "big")
    return VapidKeys(base64url.encode(raw_public_key(key)), base64url.encode(private))


def read_private_key(text: str) -> ECC.EccKey:
    """Read a private key in base64url. Raises ValueError, whose text does not quote the key."""
    try:
        raw = base64url.decode(text)
    except ValueError as error:
        raise ValueError(f"the VAPID private key {error}") from None
    if len(raw) != _PRIVATE_KEY_BYTES:
        raise ValueError(
            f"the VAPID private key must hold {_PRIVATE_KEY_BYTES} bytes, and holds {len(raw)}"
            + (" (the public key?)" if len(raw) == _PUBLIC_KEY_BYTES else "")
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


def rs256(header: Mapping[str, str], claims: Mapping[str, str | int], key: RsaKey) -> str:
    """A token signed with RSA and SHA-256 (RFC 7518, 3.3); `alg` is added to the header."""
    return _signed("RS256", header, claims, lambda text: pkcs1_15.new(key).sign(SHA256.new(text)))


def es256(header: Mapping[str, str], claims: Mapping[str, str | int], key: EccKey) -> str:
    """A token signed with ECDSA on P-256 and SHA-256 (RFC 7518, 3.4); `alg` is added to the header. The
    signature is r and s, 32 bytes each, not their DER encoding. It is deterministic (RFC 6979): equal claims
    give equal tokens.
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
