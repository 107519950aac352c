"""VAPID (RFC 8292): the short-lived token by which this server identifies itself to push services."""

import re
from collections import OrderedDict
from dataclasses import dataclass
from urllib.parse import urlsplit

from bridge_server.kernel import base64url
from bridge_server.kernel.fields import http_url
from bridge_server.push.jwt import es256
from bridge_server.push.keys import raw_public_key, read_private_key

LIFETIME_SECONDS = 12 * 3_600
"""Half of the allowed 24 hours (RFC 8292, section 2), so that clocks may differ by 12 hours."""

_RENEWED_BEFORE_SECONDS = 3_600
_REMEMBERED_AUDIENCES = 256
_MAIL = re.compile(r"mailto:[^\s@<>?]+@([^\s@<>?]+)")
_UNREACHABLE = re.compile(r"(.*\.)?(localhost|local|invalid|test|example|internal)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Token:
    authorization: str
    issued_at_ms: int


class VapidIdentity:
    """Makes and caches the Authorization header for each push service.

    `subject` is a contact of this server's operator: `mailto:` and an address, or an https URL. Raises
    ValueError if the key or the subject is malformed. Not thread-safe.
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
            "exp": now_seconds + LIFETIME_SECONDS,
            "sub": self._subject,
        }
        return f"vapid t={es256({'typ': 'JWT'}, claims, self._key)}, k={self.public_key}"


def checked_subject(text: str) -> str:
    """Return the subject if push services accept it; raise ValueError otherwise.

    Apple's service refuses every message whose subject names a host without public access.
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


def _is_fresh(token: _Token, now_ms: int) -> bool:
    """Whether the token may still be used. After the clock was set back it may last longer than allowed."""
    age_seconds = (now_ms - token.issued_at_ms) / 1_000
    return 0 <= age_seconds < LIFETIME_SECONDS - _RENEWED_BEFORE_SECONDS
