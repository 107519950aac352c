"""FCM, HTTP v1: https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send"""

import asyncio
import re
from dataclasses import field
from typing import Self

import aiohttp
import orjson
import structlog
from aiohttp import hdrs

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.guarded_client import Outcome, Verdict, failure, judge_error
from bridge_server.push.keys import ServiceAccount, rs256
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.messages import fcm_message, is_unauthenticated, judge_fcm
from bridge_server.push.providers.provider import ServiceAnswer, read_answer

ENDPOINT = "https://fcm.googleapis.com"

SCOPE = "https://www.googleapis.com/auth/firebase.messaging"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"

_REGISTRATION_TOKEN = re.compile(r"[!-~]{1,4096}")
_IDLE_SECONDS = 60.0

_LIFETIME_SECONDS = 3_600
_RENEWED_BEFORE_SECONDS = 300
_SECOND_US = 1_000_000
_PAUSE_US = 10 * _SECOND_US
# Error codes of RFC 6749, 5.2, and of Google that mean that the credentials are not valid.
_CREDENTIAL_ERRORS = frozenset(
    ("access_denied", "account_disabled", "admin_policy_enforced", "deleted_client", "disabled_client",
     "invalid_client", "invalid_grant", "invalid_scope", "org_internal", "unauthorized_client")
)  # fmt: skip
_CREDENTIAL_HINTS = {
    "invalid_grant": " (the key was deleted, the account is gone, or this machine's clock is wrong)",
    "unauthorized_client": " (the account may not use Firebase Cloud Messaging)",
}

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class FcmSettings:
    """`token_endpoint` is by default the account's `token_uri`; `timeout_seconds` covers a whole attempt."""

    credentials: ServiceAccount
    endpoint: str = ENDPOINT
    token_endpoint: str | None = None
    timeout_seconds: float = 10.0


@dataclass(frozen=True, slots=True, eq=False)
class AccessToken:
    """A bearer token with the times of its renewal and its expiry, on the elapsed clock."""

    text: str = field(repr=False)
    renew_at_us: int
    expires_at_us: int


class FcmProvider:
    """The provider for the apps of one Firebase project. Use it as an async context manager."""

    def __init__(self, settings: FcmSettings, clock: Clock) -> None:
        self._settings = settings
        self._clock = clock
        account = settings.credentials
        self._url = f"{settings.endpoint.rstrip('/')}/v1/projects/{account.project_id}/messages:send"
        self._session: aiohttp.ClientSession | None = None
        self._access_tokens: AccessTokens | None = None
        self._proven = False

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(keepalive_timeout=_IDLE_SECONDS, limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
            trust_env=False,
        )
        account = self._settings.credentials
        endpoint = self._settings.token_endpoint or account.token_uri
        self._access_tokens = AccessTokens(account, endpoint, self._session, self._clock)
        return self

    async def __aexit__(self, *_: object) -> None:
        if self._access_tokens is not None:
            await self._access_tokens.close()
            self._access_tokens = None
        if self._session is not None:
            await self._session.close()
            self._session = None

    def checked_token(self, token: str) -> str:
        """The token, if it can be one of FCM, whose form Google does not document. Raises ValueError."""
        if not _REGISTRATION_TOKEN.fullmatch(token):
            raise ValueError(
                "an FCM registration token has 1 to 4096 printable ASCII characters, and no space"
            )
        return token

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once; if FCM refuses the access token, try once more with a new one."""
        try:
            body = orjson.dumps(fcm_message(token, notice, self._clock.now_ms()))
            async with asyncio.timeout(self._settings.timeout_seconds):
                outcome = await self._attempt(body)
        except Exception as error:  # a faulty service must not stop other pushes
            return judge_error(error)
        self._proven = self._proven or outcome.verdict is Verdict.DELIVERED
        return outcome

    async def _attempt(self, body: bytes) -> Outcome:
        assert self._access_tokens is not None, "the provider is not open"
        access = await self._access_tokens.current()
        if isinstance(access, Outcome):
            return access
        answer = await self._send(body, access)
        if is_unauthenticated(answer):
            access = await self._access_tokens.replaced(access)
            if isinstance(access, Outcome):
                return access
            answer = await self._send(body, access)
        return judge_fcm(answer, proven=self._proven)

    async def _send(self, body: bytes, access: AccessToken) -> ServiceAnswer:
        assert self._session is not None, "the provider is not open"
        headers = {hdrs.AUTHORIZATION: f"Bearer {access.text}", hdrs.CONTENT_TYPE: "application/json"}
        async with self._session.post(self._url, data=body, headers=headers, allow_redirects=False) as answer:
            return await read_answer(answer, self._clock.now_ms())


class AccessTokens:
    """The access token that all requests share. It is renewed before it expires, by one request at a time. An
    assertion that the service account has signed is exchanged for a token that lives an hour. Source:
    https://developers.google.com/identity/protocols/oauth2/service-account (HTTP/REST) and RFC 7523, 2.1.
    """

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
        """A valid token, or an outcome that says why there is none. In its last minutes a token is still used
        while the next is fetched in the background: a short failure of the token endpoint delays no push.
        """
        token, elapsed_us = self._token, self._clock.elapsed_us()
        if token is None or elapsed_us >= token.expires_at_us:
            renewal = self._renewed()
            await asyncio.wait([renewal])  # not cancelled with this request: others may wait for it, too
            if renewal.cancelled():
                return Outcome(Verdict.FAILED, "the provider was closed")
            return renewal.result()
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
        form = {"grant_type": GRANT_TYPE, "assertion": self._assertion()}
        try:
            async with self._session.post(self._endpoint, data=form, allow_redirects=False) as response:
                answer = await read_answer(response, self._clock.now_ms())
            token = _granted(answer, self._clock.elapsed_us())
        except Exception as error:  # any error is retried with the next push
            token = Outcome(Verdict.FAILED, f"no access token: {failure(error)}"[:200])
        if isinstance(token, Outcome):
            self._pause_until_us = self._clock.elapsed_us() + _PAUSE_US
            log.warning("access_token_refused", reason=token.reason)
        else:
            self._token = token
        return token

    def _assertion(self) -> str:
        now = self._clock.now_ms() // 1_000
        key_id = self._account.private_key_id
        header = {"typ": "JWT"} if key_id is None else {"typ": "JWT", "kid": key_id}
        names = {"iss": self._account.client_email, "scope": SCOPE, "aud": self._account.token_uri}
        times = {"iat": now, "exp": now + _LIFETIME_SECONDS}
        return rs256(header, {**names, **times}, self._account.private_key)


def _granted(answer: ServiceAnswer, elapsed_us: int) -> AccessToken | Outcome:
    text = answer.document.get("access_token")
    if answer.taken and isinstance(text, str) and text.isascii() and text.isprintable() and text:
        stated = answer.document.get("expires_in")
        lifetime = stated if isinstance(stated, int) and 0 < stated <= 86_400 else _LIFETIME_SECONDS
        early = min(_RENEWED_BEFORE_SECONDS, lifetime / 2)
        renew_at_us = elapsed_us + round((lifetime - early) * _SECOND_US)
        return AccessToken(text, renew_at_us, elapsed_us + lifetime * _SECOND_US)
    error = answer.document.get("error")
    if isinstance(error, str) and error in _CREDENTIAL_ERRORS and 400 <= answer.status < 500:
        reason = f"Google refuses the service account: {error}{_CREDENTIAL_HINTS.get(error, '')}"
        return Outcome(Verdict.BLOCKED, reason, answer.status)
    reason, wait = f"no access token: the token endpoint answered {answer.status}", answer.retry_after_seconds
    # Without a token no message can be sent.
    return Outcome(Verdict.FAILED, reason, answer.status, wait, about_lane=True)
