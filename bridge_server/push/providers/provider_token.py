"""Provider tokens: ES256 JWTs by which this server authenticates to APNs.

https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
"""

from dataclasses import dataclass, field

from Crypto.PublicKey import ECC
from Crypto.PublicKey.ECC import EccKey

from bridge_server.kernel.clock import Clock
from bridge_server.push.jwt import es256

# APNs refuses a token older than 60 minutes, and a new token within 20 minutes of the last.
_WINDOW_MS = 40 * 60_000
_LEAST_AGE_MS = 20 * 60_000
_WHERE = "it is the AuthKey_….p8 file of the Apple developer account, with its first and last line"


@dataclass(frozen=True, slots=True, eq=False)
class ProviderToken:
    """A bearer token and the time at which this process made it, which can be later than its `iat`."""

    text: str = field(repr=False)
    made_at_ms: int


class ProviderTokens:
    """The provider token that all requests share, also in other processes with the same key.

    Its `iat` is the start of the current window of 40 minutes, and its signature is deterministic. So every
    process makes the same token within a window, and APNs sees no update.
    """

    def __init__(self, key: EccKey, key_id: str, team_id: str, clock: Clock) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._token: ProviderToken | None = None
        self._replaced_at_ms: int | None = None

    def current(self) -> ProviderToken:
        """The current token. It is renewed in every window, but not before it is 20 minutes old.

        So it is always younger than 60 minutes. It is also renewed when the clock was set back.
        """
        if self._token is None or not self._serves(self._token):
            now_ms = self._clock.now_ms()
            self._token = self._made(now_ms, issued_at_ms=now_ms - now_ms % _WINDOW_MS)
        return self._token

    def replaced(self, refused: ProviderToken) -> ProviderToken | None:
        """A new token in place of a token that APNs calls expired; None within 20 minutes of the last
        replacement.

        Its `iat` is now. It is renewed by the same rule as any token.
        """
        token = self.current()
        if token.text != refused.text:
            return token
        now_ms = self._clock.now_ms()
        if self._replaced_at_ms is not None and 0 <= now_ms - self._replaced_at_ms < _LEAST_AGE_MS:
            return None
        self._token = self._made(now_ms, issued_at_ms=now_ms)
        self._replaced_at_ms = now_ms
        return self._token

    def _serves(self, token: ProviderToken) -> bool:
        now_ms = self._clock.now_ms()
        is_of_this_window = token.made_at_ms // _WINDOW_MS == now_ms // _WINDOW_MS
        return now_ms >= token.made_at_ms and (is_of_this_window or now_ms - token.made_at_ms < _LEAST_AGE_MS)

    def _made(self, now_ms: int, *, issued_at_ms: int) -> ProviderToken:
        claims: dict[str, str | int] = {"iss": self._team_id, "iat": issued_at_ms // 1_000}
        return ProviderToken(es256({"kid": self._key_id}, claims, self._key), now_ms)


def signing_key(pem: str) -> EccKey:
    """The private key in the text of a .p8 file. Raises ValueError, whose text does not quote the key."""
    if "-----BEGIN" not in pem:
        raise ValueError(f"the key must be a PEM text that begins with -----BEGIN PRIVATE KEY-----: {_WHERE}")
    try:
        key = ECC.import_key(pem)
    except (ValueError, IndexError, TypeError):
        raise ValueError(f"the key is no elliptic curve key in PEM: {_WHERE}") from None
    if not key.has_private():
        raise ValueError(f"the key is a public one; the private one is needed: {_WHERE}")
    if key.curve != "NIST P-256":
        raise ValueError(f"the key is on the curve {key.curve}, and APNs takes P-256: {_WHERE}")
    return key
