"""Access tokens for a service account: a signed assertion is exchanged for a token that lives an hour.

https://developers.google.com/identity/protocols/oauth2/service-account (HTTP/REST) and RFC 7523, 2.1.
"""

import asyncio
from dataclasses import dataclass, field

import aiohttp
import structlog

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.failure_text import failure
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.jwt import rs256
from bridge_server.push.providers.answer import ServiceAnswer, read_answer
from bridge_server.push.providers.service_account import ServiceAccount

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"

_LIFETIME_SECONDS = 3_600
_RENEWED_BEFORE_SECONDS = 300
_SECOND_US = 1_000_000
_PAUSE_US = 10 * _SECOND_US
# Error codes of RFC 6749, 5.2, and of Google that mean that the credentials are not valid.
_CREDENTIAL_ERRORS = frozenset(
    {
        "access_denied",
        "account_disabled",
        "admin_policy_enforced",
        "deleted_client",
        "disabled_client",
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "org_internal",
        "unauthorized_client",
    }
)

log = structlog.get_logger()


@dataclass(frozen=True, slots=True, eq=False)
class AccessToken:
    """A bearer token with the times of its renewal and its expiry, on the elapsed clock."""

    text: str = field(repr=False)
    renew_at_us: int
    expires_at_us: int


class AccessTokens:
    """The access token that all requests share. It is renewed before it expires, by one request at a time."""

    def __init__(
        self, account: ServiceAccount, endpoint: str, session: aiohttp.ClientSession, clock: Clock
    ) -> None:
        self._account = account
        self._endpoint = endpoint
        self._session = session
        self._clock = clock
        self._token: AccessToken | None = None
        self._renewal: asyncio.Task[AccessToken | Outcome] | None = None
        self._pause_until_us = 0

    async def close(self) -> None:
        """Cancel a renewal in flight."""
        if self._renewal is not None:
            self._renewal.cancel()
            await asyncio.wait([self._renewal])

    async def current(self) -> AccessToken | Outcome:
        """A valid token, or an outcome that says why there is none.

        In its last minutes a token is still used while the next one is fetched in the background, so that a
        short failure of the token endpoint delays no push.
        """
        token, elapsed_us = self._token, self._clock.elapsed_us()
        if token is None or elapsed_us >= token.expires_at_us:
            return await _result(self._renewed())
        if elapsed_us >= token.renew_at_us and elapsed_us >= self._pause_until_us:
            self._renewed()
        return token

    async def replaced(self, refused: AccessToken) -> AccessToken | Outcome:
        """A token other than the refused one; concurrent requests share the fetch."""
        if self._token is refused:
            self._token = None
        return await self.current()

    def _renewed(self) -> asyncio.Task[AccessToken | Outcome]:
        if self._renewal is None or self._renewal.done():
            self._renewal = asyncio.create_task(self._renew(), name="access token")
        return self._renewal

    async def _renew(self) -> AccessToken | Outcome:
        token = await self._fetch()
        if isinstance(token, Outcome):
            self._pause_until_us = self._clock.elapsed_us() + _PAUSE_US
            log.warning("access_token_refused", reason=token.reason)
        else:
            self._token = token
        return token

    async def _fetch(self) -> AccessToken | Outcome:
        form = {"grant_type": GRANT_TYPE, "assertion": self._assertion()}
        try:
            async with self._session.post(self._endpoint, data=form, allow_redirects=False) as response:
                answer = await read_answer(response, self._clock.now_ms())
            return _granted(answer, self._clock.elapsed_us())
        except Exception as error:  # any error is retried with the next push
            return Outcome(Verdict.FAILED, f"no access token: {failure(error)}"[:200])

    def _assertion(self) -> str:
        now = self._clock.now_ms() // 1_000
        key_id = self._account.private_key_id
        return rs256(
            {"typ": "JWT"} if key_id is None else {"typ": "JWT", "kid": key_id},
            {
                "iss": self._account.client_email,
                "scope": SCOPE,
                "aud": self._account.token_uri,
                "iat": now,
                "exp": now + _LIFETIME_SECONDS,
            },
            self._account.private_key,
        )


async def _result(renewal: asyncio.Task[AccessToken | Outcome]) -> AccessToken | Outcome:
    """Wait for a renewal without cancelling it, because other requests may wait for it too."""
    await asyncio.wait([renewal])
    return Outcome(Verdict.FAILED, "the provider was closed") if renewal.cancelled() else renewal.result()


def _granted(answer: ServiceAnswer, elapsed_us: int) -> AccessToken | Outcome:
    text = answer.document.get("access_token")
    if answer.taken and isinstance(text, str) and text.isascii() and text.isprintable() and text:
        lifetime = _lifetime_seconds(answer.document.get("expires_in"))
        early = min(_RENEWED_BEFORE_SECONDS, lifetime / 2)
        renew_at_us = elapsed_us + round((lifetime - early) * _SECOND_US)
        return AccessToken(text, renew_at_us, elapsed_us + lifetime * _SECOND_US)
    error = answer.document.get("error")
    if isinstance(error, str) and error in _CREDENTIAL_ERRORS and 400 <= answer.status < 500:
        reason = f"Google refuses the service account: {error}{_HINTS.get(error, '')}"
        return Outcome(Verdict.BLOCKED, reason, answer.status)
    return Outcome(
        Verdict.FAILED,
        f"no access token: the token endpoint answered {answer.status}",
        answer.status,
        answer.retry_after_seconds,
        about_lane=True,  # without a token no message can be sent
    )


def _lifetime_seconds(value: object) -> int:
    return value if isinstance(value, int) and 0 < value <= 86_400 else _LIFETIME_SECONDS


_HINTS = {
    "invalid_grant": " (the key was deleted, the account is gone, or this machine's clock is wrong)",
    "unauthorized_client": " (the account may not use Firebase Cloud Messaging)",
}
