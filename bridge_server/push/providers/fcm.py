"""Firebase Cloud Messaging (FCM), HTTP v1.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages/send
"""

import asyncio
import re
from dataclasses import dataclass
from typing import Self

import aiohttp
import orjson
from aiohttp import hdrs

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.guarded_client import judge_error
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.answer import ServiceAnswer, read_answer
from bridge_server.push.providers.fcm_answer import is_unauthenticated, judge
from bridge_server.push.providers.fcm_message import message
from bridge_server.push.providers.oauth import AccessToken, AccessTokens
from bridge_server.push.providers.service_account import ServiceAccount

ENDPOINT = "https://fcm.googleapis.com"

_TOKEN = re.compile(r"[!-~]{1,4096}")
_IDLE_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class FcmSettings:
    """Settings of FCM. The default of `token_endpoint` is the account's `token_uri`.

    `timeout_seconds` covers a whole attempt, including the request for an access token.
    """

    credentials: ServiceAccount
    endpoint: str = ENDPOINT
    token_endpoint: str | None = None
    timeout_seconds: float = 10.0


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
        """The token, if it can be an FCM registration token, whose form Google does not document.

        Raises ValueError.
        """
        if not _TOKEN.fullmatch(token):
            raise ValueError(
                "an FCM registration token has 1 to 4096 printable ASCII characters, and no space"
            )
        return token

    async def push(self, token: str, notice: PushNotice) -> Outcome:
        """Attempt to deliver once; if FCM refuses the access token, try once more with a new one."""
        try:
            body = orjson.dumps(message(token, notice, self._clock.now_ms()))
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
        return judge(answer, proven=self._proven)

    async def _send(self, body: bytes, access: AccessToken) -> ServiceAnswer:
        assert self._session is not None, "the provider is not open"
        headers = {hdrs.AUTHORIZATION: f"Bearer {access.text}", hdrs.CONTENT_TYPE: "application/json"}
        async with self._session.post(
            self._url, data=body, headers=headers, allow_redirects=False
        ) as response:
            return await read_answer(response, self._clock.now_ms())
