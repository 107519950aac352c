"""The Apple Push Notification service (APNs), over HTTP/2 with a provider token that this server signs.

https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
"""

import asyncio
import re
from typing import Self

from bridge_server.kernel.clock import Clock
from bridge_server.outgoing.guarded_client import judge_error
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.models import PushNotice
from bridge_server.push.providers.answer import ServiceAnswer, service_answer
from bridge_server.push.providers.apns_answer import judge, says_expired
from bridge_server.push.providers.apns_notice import PAYLOAD_LIMIT_BYTES, headers, payload
from bridge_server.push.providers.apns_settings import ApnsSettings
from bridge_server.push.providers.http2 import Http2Client, client_tls
from bridge_server.push.providers.http2_connection import Headers
from bridge_server.push.providers.http2_exchange import Http2Error
from bridge_server.push.providers.provider_token import ProviderToken, ProviderTokens, signing_key

# Apple documents no size; most tokens have 32 bytes, some kinds have more.
_TOKEN = re.compile(r"(?:[0-9A-Fa-f]{2}){16,128}")


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
            body = payload(notice)
            if len(body) > PAYLOAD_LIMIT_BYTES:
                return Outcome(
                    Verdict.REFUSED,
                    f"the payload has {len(body)} bytes, and APNs takes {PAYLOAD_LIMIT_BYTES}",
                )
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
        fields = headers(notice, self._settings.topic, self._clock.now_ms())
        provider_token = self._tokens.current()
        answer = await self._send(path, fields, body, provider_token)
        if says_expired(answer):
            fresh = self._tokens.replaced(provider_token)
            if fresh is not None:
                answer = await self._send(path, fields, body, fresh)
        return judge(answer, proven=self._proven)

    async def _send(
        self, path: str, fields: Headers, body: bytes, provider_token: ProviderToken
    ) -> ServiceAnswer:
        assert self._client is not None, "the provider is not open"
        answer = await self._client.request(
            [
                (":method", "POST"),
                (":scheme", "https"),
                (":authority", self._settings.url.authority),
                (":path", path),
                ("authorization", f"bearer {provider_token.text}"),
                ("content-type", "application/json"),
                ("content-length", str(len(body))),
                *fields,
            ],
            body,
        )
        retry_after = answer.headers.get("retry-after")
        return service_answer(answer.status, retry_after, answer.body, self._clock.now_ms())
