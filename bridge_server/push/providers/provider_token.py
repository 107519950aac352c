"""The token with which a provider shows APNs who it is: an ES256 JWT of its own making.

https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
"""

from dataclasses import dataclass, field

from Crypto.PublicKey import ECC
from Crypto.PublicKey.ECC import EccKey

from bridge_server.kernel.clock import Clock
from bridge_server.push.jwt import es256

# Apple refuses a token that is older than 60 minutes, and one that comes within 20 minutes of the last.
_WINDOW_MS = 40 * 60_000
_LEAST_AGE_MS = 20 * 60_000
_WHERE = "it is the AuthKey_….p8 file of the Apple developer account, with its first and last line"


@dataclass(frozen=True, slots=True, eq=False)
class ProviderToken:
    """A bearer token, and when this process made it, which may be later than what it says itself."""

    text: str = field(repr=False)
    made_at_ms: int


class ProviderTokens:
    """The one provider token that all requests share, also those of other processes with the same key.

    It says that it was issued when the current window of 40 minutes began, and its signature is
    deterministic: whoever makes it within the window makes the same, which is no update to Apple.
    """

    def __init__(self, key: EccKey, key_id: str, team_id: str, clock: Clock) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._token: ProviderToken | None = None
        self._replaced_at_ms: int | None = None

    def current(self) -> ProviderToken:
        """The token, renewed with every window, but not before it has served 20 minutes.

        So it never gets as old as 60 minutes. Also renewed when the clock was set back to before it was made.
        """
        if self._token is None or not self._serves(self._token):
            now_ms = self._clock.now_ms()
            self._token = self._made(now_ms, issued_at_ms=now_ms - now_ms % _WINDOW_MS)
        return self._token

    def replaced(self, refused: ProviderToken) -> ProviderToken | None:
        """Another token than the one that Apple calls expired; None when it is too early for yet another.

        It says that it was issued now, and serves 20 minutes and until the window is over, as any does.
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
    """The private key in the text of a .p8 file. Raises ValueError, which quotes nothing of it."""
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
