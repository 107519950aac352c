"""The Apple Push Notification service (APNs), over HTTP/2 with a provider token that this server signs.

https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
"""

import asyncio
import re
from dataclasses import field
from typing import Self

from Crypto.PublicKey.ECC import EccKey

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.guarded_client import Outcome, Verdict, judge_error
from bridge_server.push.keys import ApnsSettings, es256, signing_key
from bridge_server.push.models import PushNotice
from bridge_server.push.providers import messages
from bridge_server.push.providers.http2 import Headers, Http2Client, Http2Error, client_tls
from bridge_server.push.providers.provider import ServiceAnswer, service_answer

# Apple documents no size; most tokens have 32 bytes, some kinds have more.
_TOKEN = re.compile(r"(?:[0-9A-Fa-f]{2}){16,128}")

# APNs refuses a token older than 60 minutes, and a new token within 20 minutes of the last.
_WINDOW_MS = 40 * 60_000
_LEAST_AGE_MS = 20 * 60_000


@dataclass(frozen=True, slots=True, eq=False)
class ProviderToken:
    """The JWT by which this server authenticates to APNs, and the time at which this process made it. The
    time can be later than the `iat` of the token. Source:
    https://developer.apple.com/documentation/usernotifications/establishing-a-token-based-connection-to-apns
    """

    text: str = field(repr=False)
    made_at_ms: int


class ApnsProvider:
    """The provider for one app. Use it as an async context manager."""

    def __init__(self, settings: ApnsSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        self._tokens = ProviderTokens(signing_key(settings.key), settings.key_id, settings.team_id, clock)
        self._client: Http2Client | None = None
        self._proven = False

    async def __aenter__(self) -> Self:
        url = self._settings.url
        tls = client_tls(self._settings.ca_file)
        self._client = Http2Client(url.host or "", url.port or 443, tls, self._settings.timeout_seconds)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._client is not None:
            await self._client.close()
            self._client = None

    def checked_token(self, token: str) -> str:
        """The device token with its letters in lower case. Raises ValueError."""
        if not _TOKEN.fullmatch(token):
            raise ValueError("an APNs device token is its bytes in hexadecimal: 32 to 256 digits, usually 64")
        return token.lower()

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once; if APNs calls the provider token expired, try once more with a new one."""
        try:
            body, limit = messages.apns_payload(notice), messages.APNS_PAYLOAD_LIMIT_BYTES
            if len(body) > limit:
                return Outcome(Verdict.REFUSED, f"the payload has {len(body)} bytes, and APNs takes {limit}")
            if not _TOKEN.fullmatch(token):
                return Outcome(Verdict.GONE, "it is not an APNs device token")
            async with asyncio.timeout(self._settings.timeout_seconds):
                outcome = await self._attempt(f"/3/device/{token}", notice, body)
        except Http2Error as error:
            return Outcome(Verdict.FAILED, str(error))
        except Exception as error:  # a faulty service must not stop other pushes
            return judge_error(error)
        self._proven = self._proven or outcome.verdict is Verdict.DELIVERED
        return outcome

    async def _attempt(self, path: str, notice: PushNotice, body: bytes) -> Outcome:
        fields = messages.apns_headers(notice, self._settings.topic, self._clock.now_ms())
        provider_token = self._tokens.current()
        answer = await self._send(path, fields, body, provider_token)
        if messages.says_expired(answer):
            fresh = self._tokens.replaced(provider_token)
            if fresh is not None:
                answer = await self._send(path, fields, body, fresh)
        return messages.judge_apns(answer, proven=self._proven)

    async def _send(self, path: str, fields: Headers, body: bytes, token: ProviderToken) -> ServiceAnswer:
        assert self._client is not None, "the provider is not open"
        answer = await self._client.request(
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", self._settings.url.authority),
                (":path", path),
                ("authorization", f"bearer {token.text}"),
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                *fields,
            ],
            body,
        )
        retry_after = answer.headers.get("retry-after")
        return service_answer(answer.status, retry_after, answer.body, self._clock.now_ms())


class ProviderTokens:
    """The provider token that all requests share. Its `iat` is the start of the current window of 40 minutes,
    and its signature is deterministic: all processes with the key make one token, and APNs sees no update.
    """

    def __init__(self, key: EccKey, key_id: str, team_id: str, clock: Clock) -> None:
        self._key = key
        self._key_id = key_id
        self._team_id = team_id
        self._clock = clock
        self._token: ProviderToken | None = None
        self._replaced_at_ms: int | None = None

    def current(self) -> ProviderToken:
        """The current token: renewed in a window if 20 minutes old, and when the clock was set back."""
        now_ms = self._clock.now_ms()
        if self._token is None or not _serves(self._token, now_ms):
            self._token = self._made(now_ms, issued_at_ms=now_ms - now_ms % _WINDOW_MS)
        return self._token

    def replaced(self, refused: ProviderToken) -> ProviderToken | None:
        """A token with an `iat` of now for an expired one; None within 20 minutes of the last replacement."""
        token = self.current()
        if token.text != refused.text:
            return token
        now_ms = self._clock.now_ms()
        if self._replaced_at_ms is not None and 0 <= now_ms - self._replaced_at_ms < _LEAST_AGE_MS:
            return None
        self._token = self._made(now_ms, issued_at_ms=now_ms)
        self._replaced_at_ms = now_ms
        return self._token

    def _made(self, now_ms: int, *, issued_at_ms: int) -> ProviderToken:
        claims: dict[str, str | int] = {"iss": self._team_id, "iat": issued_at_ms // 1_000}
        return ProviderToken(es256({"kid": self._key_id}, claims, self._key), now_ms)


def _serves(token: ProviderToken, now_ms: int) -> bool:
    is_of_this_window = token.made_at_ms // _WINDOW_MS == now_ms // _WINDOW_MS
    return now_ms >= token.made_at_ms and (is_of_this_window or now_ms - token.made_at_ms < _LEAST_AGE_MS)
