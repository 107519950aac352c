"""One attempt to deliver: one POST to an untrusted server, which may answer anything, slowly, or never."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import hdrs
from yarl import URL

from bridge_server.kernel.retry_after import parse_retry_after
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.signature import WebhookSigner
from bridge_server.outgoing.guard import Rule, anywhere, public_only
from bridge_server.outgoing.guarded_client import (
    CONNECT_SECONDS,
    guarded_client,
    judge_error,
    read_limited,
)
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.outgoing.resolver import LookUp, look_up

_SCHEMES = frozenset({"http", "https"})
_ASKING_STATUSES = frozenset({429, 503})


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """The settings of requests.

    `timeout_seconds` covers an attempt from the name lookup to the last byte of the answer,
    `connect_seconds` the lookup and the connection.
    `signing_secret` is a Standard Webhooks secret, `whsec_` and base64 of 24 to 64 bytes. Messages are signed
    with `previous_secret`, the one of before, too.
    `allow_private` opens every address and port: for development only.
    """

    timeout_seconds: float
    signing_secret: str | None
    allow_private: bool
    user_agent: str
    connect_seconds: float = CONNECT_SECONDS
    previous_secret: str | None = None


class WebhookSender:
    """Sends messages over a pool of connections; use it as an async context manager.

    Raises ValueError when the signing secret is malformed.
    """

    def __init__(
        self, settings: SenderSettings, *, rule: Rule | None = None, look_up: LookUp = look_up
    ) -> None:
        self._settings = settings
        self._signer = WebhookSigner(settings.signing_secret, settings.previous_secret)
        self._rule = rule or (anywhere if settings.allow_private else public_only)
        self._look_up = look_up
        self._session: aiohttp.ClientSession | None = None

    def sign_with(self, secret: str | None, previous: str | None = None) -> None:
        """Sign with these secrets from now on, or with none. Raises ValueError when one is malformed."""
        self._signer = WebhookSigner(secret, previous)

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._session = guarded_client(
            self._rule, self._look_up, settings.timeout_seconds, settings.connect_seconds
        )
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Make one attempt. Every failure of the receiver or the network becomes an outcome, not an error."""
        assert self._session is not None, "the sender is not open"
        url = _readable(message.url)
        if url is None:
            return Outcome(Verdict.REFUSED, "the URL is not an absolute http or https URL")
        try:
            async with self._session.post(
                url, data=message.body, headers=self.headers(message, now_ms), allow_redirects=False
            ) as response:
                await read_limited(response)
                return _judge(response.status, response.headers, now_ms)
        except Exception as error:  # a stranger's server must not be able to stop the sending
            return judge_error(error)

    def headers(self, message: OutgoingMessage, now_ms: int) -> dict[str, str]:
        """The headers that the message is sent with at this time."""
        return {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._settings.user_agent,
            **self._signer_of(message).headers(message.message_id, message.body, now_ms),
        }

    def _signer_of(self, message: OutgoingMessage) -> WebhookSigner:
        return self._signer if message.signing_secret is None else _signer(message.signing_secret)


@lru_cache(maxsize=1_024)
def _signer(secret: str) -> WebhookSigner:
    return WebhookSigner(secret)


def _readable(text: str) -> URL | None:
    try:
        url = URL(text)
    except ValueError:
        return None
    return url if url.scheme in _SCHEMES and url.raw_host else None


def _judge(status: int, headers: Mapping[str, str], now_ms: int) -> Outcome:
    if 200 <= status < 300:
        return Outcome(Verdict.DELIVERED, status=status)
    reason = f"the receiver answered {status}"
    if status == 410:
        return Outcome(Verdict.GONE, reason, status)
    if 300 <= status < 400:
        reason += ", and redirects are not followed"
    asked = headers.get(hdrs.RETRY_AFTER) if status in _ASKING_STATUSES else None
    return Outcome(
        Verdict.FAILED, reason, status, None if asked is None else parse_retry_after(asked, now_ms)
    )
