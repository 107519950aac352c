"""The identity of clients: JSON Web Tokens (RFC 7519), signed with the client's own Ed25519 key (RFC 8037).

The issuer is the key itself as a did:key: multibase `z`, base58btc, multicodec 0xed01.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import NamedTuple, TypeAlias
from urllib.parse import urlsplit

import orjson

from bridge_server.kernel.base64url import decode
from bridge_server.kernel.clock import Clock
from bridge_server.pubsub.irn.errors import InvalidTokenError
from bridge_server.pubsub.irn.models import ClientKey

DID_PREFIX = "did:key:"

_MULTICODEC = b"\xed\x01"
_KEY_BYTES = 32
_BASE58 = {
    letter: value for value, letter in enumerate("123456789ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz")
}
_KEY_CHARACTERS = 48  # `z` and base58btc of 34 bytes that begin with 0xed
_LONGEST_TOKEN = 4_096
_LEEWAY_SECONDS = 120
_MOST_REMEMBERED = 4_096
_DEFAULT_PORTS = {"ws": 80, "http": 80, "wss": 443, "https": 443}


_RequireSignature: TypeAlias = Callable[[bytes, bytes, bytes], None]
"""Raises ValueError unless the owner of the public key has signed this, with this signature."""


class _Claims(NamedTuple):
    client: ClientKey
    audience: object
    issued_at: float
    expires_at: float | None


class ClientTokens:
    """Checks tokens. A token that was checked is remembered: a client connects with it again and again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._checked: OrderedDict[str, _Claims] = OrderedDict()
        self._require_signature: _RequireSignature | None = None

    async def client_of(self, token: str, audience: str | None) -> ClientKey:
        """The client that signed the token; for `audience`, a URL, unless that is None.

        Raises InvalidTokenError.
        """
        claims = self._checked.get(token)
        if claims is None:
            claims = _checked(token, await self._signatures())
            self._checked[token] = claims
            if len(self._checked) > _MOST_REMEMBERED:
                self._checked.popitem(last=False)
        now = self._clock.now_ms() / 1000
        is_in_time = claims.issued_at <= now + _LEEWAY_SECONDS and (
            claims.expires_at is None or now - _LEEWAY_SECONDS < claims.expires_at
        )
        if not is_in_time or (audience is not None and not _is_same_place(claims.audience, audience)):
            raise InvalidTokenError
        return claims.client

    async def _signatures(self) -> _RequireSignature:
        """The check of signatures. Its module is loaded beside the event loop, which goes on meanwhile."""
        if self._require_signature is None:
            module = await asyncio.to_thread(import_module, "bridge_server.pubsub.irn.signatures")
            self._require_signature = module.require_signature
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
    return key.removeprefix(_MULTICODEC)


def _checked(token: str, require_signature: _RequireSignature) -> _Claims:
    """The claims of a token with a right signature. Its times and its audience are not looked at."""
    signed, _, signature = token.rpartition(".")
    header, _, claims = signed.partition(".")
    if len(token) > _LONGEST_TOKEN or not token.isascii():
        raise InvalidTokenError
    try:
        _require_algorithm(_json_object(header))
        found = _claims(_json_object(claims))
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


def _claims(values: Mapping[str, object]) -> _Claims:
    issuer, issued_at, expires_at = values.get("iss"), values.get("iat"), values.get("exp")
    if not isinstance(issuer, str) or not issuer.startswith(DID_PREFIX):
        raise ValueError("iss is no did:key")
    client = ClientKey(issuer.removeprefix(DID_PREFIX))
    return _Claims(
        client, values.get("aud"), _time(issued_at), None if expires_at is None else _time(expires_at)
    )


def _time(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError("is no time")
    return float(value)


def _is_same_place(audience: object, url: str) -> bool:
    """Whether host and port are equal; http counts as ws, and path and query do not count."""
    return isinstance(audience, str) and (place := _place(audience)) is not None and place == _place(url)


def _place(url: str) -> tuple[str, int] | None:
    try:
        parts = urlsplit(url)
        port = parts.port or _DEFAULT_PORTS.get(parts.scheme)
    except ValueError:
        return None
    return None if parts.hostname is None or port is None else (parts.hostname, port)
