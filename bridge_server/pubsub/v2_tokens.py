"""The identity of clients: JSON Web Tokens (RFC 7519), signed with the client's own Ed25519 key (RFC 8037).
The issuer is the key as a did:key: multibase `z`, base58btc, multicodec 0xed01. Tokens of Rust clients have
no `exp` unless the program sets one.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from hashlib import sha256
from importlib import import_module
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson
from aiohttp import web

from bridge_server.kernel.base64url import decode
from bridge_server.kernel.clock import Clock
from bridge_server.pubsub.v2_models import ClientKey, InvalidTokenError, ProjectNotAllowedError

DID_PREFIX = "did:key:"

_MULTICODEC = b"\xed\x01"
_KEY_BYTES = 32
_BASE58 = {
    letter: value for value, letter in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
}
_KEY_CHARACTERS = 48  # `z` and base58btc of 34 bytes that begin with 0xed
_LONGEST_TOKEN = 4_096
_LEEWAY_SECONDS = 120
_USUAL_LIFE_SECONDS = 86_400
_LONGEST_LIFE_SECONDS = 7 * 86_400
_MOST_REMEMBERED = 4_096
_DEFAULT_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}

# The keys of small order, without the bit of their sign: everybody can sign for them (RFC 8032, 5.1).
_KEYS_OF_SMALL_ORDER = frozenset(
    bytes.fromhex(key)
    for key in (
        "0000000000000000000000000000000000000000000000000000000000000000",
        "0100000000000000000000000000000000000000000000000000000000000000",
        "ecffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff7f",
        "26e8958fc2b227b045c3f489f2ef98f0d5dfac05d3c63339b13802886d53fc05",
        "c7176a703d4dd84fba3c0b760d10670f2a2053fa2c39ccc64ec7fd7792ac037a",
    )
)

_RequireSignature: TypeAlias = Callable[[bytes, bytes, bytes], None]
"""Raises ValueError unless the owner of the public key has signed this, with this signature."""


class _Admitted(NamedTuple):
    """The client of a token, and its times in seconds since the Unix epoch."""

    client: ClientKey
    issued_at: float
    expires_at: float

    def holds_at(self, now: float) -> bool:
        """Whether the token is in force, by clocks that may differ a little."""
        return self.issued_at - _LEEWAY_SECONDS <= now < self.expires_at + _LEEWAY_SECONDS


class ClientTokens:
    """Checks tokens. It remembers admitted ones, because a client connects with its token again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._admitted: OrderedDict[bytes, _Admitted] = OrderedDict()
        """By the digests of the token and of the audience that it was checked for."""
        self._require_signature: _RequireSignature | None = None

    async def client_of(self, token: str, audience: str | None) -> ClientKey:
        """The client that signed the token, for the URL `audience` if given. Raises InvalidTokenError."""
        if len(token) > _LONGEST_TOKEN or not token.isascii():
            raise InvalidTokenError
        digest = sha256(f"{token} {audience}".encode()).digest()
        admitted, now = self._admitted.get(digest), self._clock.now_ms() / 1000
        if admitted is None:
            admitted = _checked(token, audience, now, await self._signatures())
            self._admitted[digest] = admitted
            if len(self._admitted) > _MOST_REMEMBERED:
                self._admitted.popitem(last=False)
        elif not admitted.holds_at(now):
            del self._admitted[digest]
            raise InvalidTokenError
        return admitted.client

    async def _signatures(self) -> _RequireSignature:
        """The check of Ed25519 signatures (RFC 8032), which raises ValueError. Loading elliptic curves takes
        up to a tenth of a second: only for a first client of generation 2.x, and in a thread.
        """
        if self._require_signature is None:
            eddsa = await asyncio.to_thread(import_module, "Crypto.Signature.eddsa")

            def require_signature(key: bytes, signed: bytes, signature: bytes) -> None:
                eddsa.new(eddsa.import_public_key(key), "rfc8032").verify(signed, signature)

            self._require_signature = require_signature
        return self._require_signature


def public_key(client: str) -> bytes:
    """The 32 bytes of a client's public key. Raises ValueError."""
    if len(client) != _KEY_CHARACTERS or client[0] != "z":
        raise ValueError("is no did:key of an Ed25519 key")
    number = 0
    try:
        for letter in client[1:]:
            number = number * 58 + _BASE58[letter]
        key = number.to_bytes(len(_MULTICODEC) + _KEY_BYTES)
    except (KeyError, OverflowError):
        raise ValueError("is no base58btc of 34 bytes") from None
    if not key.startswith(_MULTICODEC):
        raise ValueError("is no Ed25519 key")
    key = key.removeprefix(_MULTICODEC)
    if key[:-1] + bytes([key[-1] & 0x7F]) in _KEYS_OF_SMALL_ORDER:
        raise ValueError("is a key of small order")
    return key


def _checked(token: str, audience: str | None, now: float, require_signature: _RequireSignature) -> _Admitted:
    """The values of a token whose audience, times and signature are right. Raises InvalidTokenError."""
    signed, _, signature = token.rpartition(".")
    header, _, claims = signed.partition(".")
    try:
        _require_algorithm(_json_object(header))
        values = _json_object(claims)
        _require_audience(values.get("aud"), audience)
        found = _admitted(values)
        if not found.holds_at(now):
            raise ValueError("does not hold at this time")
        require_signature(public_key(found.client), signed.encode(), decode(signature))
    except ValueError:
        raise InvalidTokenError from None
    return found


def _json_object(part: str) -> Mapping[str, object]:
    value = orjson.loads(decode(part))
    if not isinstance(value, dict):
        raise ValueError("is no JSON object")
    return value


def _require_algorithm(header: Mapping[str, object]) -> None:
    kind = header.get("typ", "JWT")
    if header.get("alg") != "EdDSA" or not isinstance(kind, str) or kind.upper() != "JWT" or "crit" in header:
        raise ValueError("is no JWT of EdDSA")


def _require_audience(audience: object, wanted: str | None) -> None:
    if audience is not None and not isinstance(audience, str):
        raise ValueError("aud is no text")
    if wanted is not None and (audience is None or not _is_same_place(audience, wanted)):
        raise ValueError("aud is another server")


def _admitted(values: Mapping[str, object]) -> _Admitted:
    issuer, issued_at, expires_at = values.get("iss"), _time(values.get("iat")), values.get("exp")
    if not isinstance(issuer, str) or not issuer.startswith(DID_PREFIX):
        raise ValueError("iss is no did:key")
    until = issued_at + _USUAL_LIFE_SECONDS if expires_at is None else _time(expires_at)
    if not issued_at < until <= issued_at + _LONGEST_LIFE_SECONDS:
        raise ValueError("exp is not after iat, or more than 7 days after it")
    return _Admitted(ClientKey(issuer.removeprefix(DID_PREFIX)), issued_at, until)


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is no time")
    return float(value)


def _is_same_place(audience: str, url: str) -> bool:
    """Whether host and port are equal; http counts as ws, and path and query do not count."""
    return (place := _place(audience)) is not None and place == _place(url)


def _place(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return None if parts.hostname is None or port is None else (parts.hostname, port)


# Handshakes of generation 2.x: the token and the project of a client.

_BEARER = "bearer "


class ClientAdmission:
    """Checks tokens and projects. `audience_of` is the URL that tokens have to be for; None if that is not
    checked. An empty set of `projects` allows every one.
    """

    def __init__(
        self, tokens: ClientTokens, audience_of: Callable[[web.Request], str | None], projects: frozenset[str]
    ) -> None:
        self._tokens = tokens
        self._audience_of = audience_of
        self._projects = projects

    async def client(self, request: web.Request) -> ClientKey:
        """The client that connects. Raises InvalidTokenError."""
        token = _token(request)
        if token is None:
            raise InvalidTokenError
        return await self._tokens.client_of(token, self._audience_of(request))

    def require_project(self, request: web.Request) -> None:
        """Raise ProjectNotAllowedError unless the project may connect."""
        if self._projects and request.query.get("projectId") not in self._projects:
            raise ProjectNotAllowedError


def has_token(request: web.Request) -> bool:
    """Whether the request is made as clients of generation 2.x make it."""
    return _token(request) is not None


def _token(request: web.Request) -> str | None:
    authorization = request.headers.get("Authorization", "")
    if authorization.lower().startswith(_BEARER):
        return authorization[len(_BEARER) :].strip()
    return request.query.get("auth")
