"""One attempt to deliver: one signed POST to an untrusted server."""

import base64
import binascii
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import lru_cache
from types import TracebackType
from typing import Self

import aiohttp
from aiohttp import hdrs
from standardwebhooks import Webhook
from yarl import URL

from bridge_server.kernel.fields import parse_retry_after
from bridge_server.kernel.values import dataclass
from bridge_server.outbox import guarded_client
from bridge_server.outbox.guarded_client import CONNECT_SECONDS, LookUp, Outcome, Rule, Verdict, look_up
from bridge_server.outbox.models import OutgoingMessage

SIGNATURE = "webhook-signature"

_KEY_SIZE = 32
_WHSEC = "whsec_"
_KEY_BYTES = range(24, 65)

_WEB_SCHEMES = frozenset({"http", "https"})
_ASKING_STATUSES = frozenset({429, 503})


class WebhookSigner:
    """Makes the headers that identify a message (Standard Webhooks), signed with each secret that there is. A
    secret is `whsec_` and base64 of 24 to 64 bytes. Raises ValueError for any other text: the library would
    skip over characters that are not base64 and sign with the rest.
    """

    def __init__(self, secret: str | None, previous: str | None = None) -> None:
        self._webhooks = [Webhook(_key(each)) for each in (secret, previous) if each is not None]

    def headers(self, message_id: str, body: bytes, now_ms: int) -> dict[str, str]:
        """The headers of an attempt that is made at `now_ms`."""
        moment = datetime.fromtimestamp(now_ms // 1_000, UTC)
        headers = {"webhook-id": message_id, "webhook-timestamp": str(now_ms // 1_000)}
        if self._webhooks:
            text = body.decode()
            headers[SIGNATURE] = " ".join(each.sign(message_id, moment, text) for each in self._webhooks)
        return headers


def new_signing_secret(random_bytes: Callable[[int], bytes]) -> str:
    """A secret for one receiver, in the spelling that a `WebhookSigner` takes."""
    return _WHSEC + base64.b64encode(random_bytes(_KEY_SIZE)).decode()


def _key(secret: str) -> bytes:
    encoded = secret.removeprefix(_WHSEC)
    if encoded == secret:
        raise ValueError(f"the webhook signing secret must begin with {_WHSEC}")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"the webhook signing secret is not base64 after {_WHSEC}") from None
    if len(key) not in _KEY_BYTES:
        raise ValueError(f"the webhook signing secret must hold 24 to 64 bytes, and holds {len(key)}")
    return key


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """The settings of requests. `timeout_seconds` covers an attempt from the name lookup to the last byte of
    the answer, `connect_seconds` the lookup and the connection. The secrets are a `WebhookSigner`'s.
    `allow_private` opens every address and port: for development only.
    """

    timeout_seconds: float
    signing_secret: str | None
    allow_private: bool
    user_agent: str
    connect_seconds: float = CONNECT_SECONDS
    previous_secret: str | None = None


class WebhookSender:
    """Sends messages over a pool of connections, inside `async with`. Raises ValueError for a bad secret."""

    def __init__(
        self, settings: SenderSettings, *, rule: Rule | None = None, look_up: LookUp = look_up
    ) -> None:
        self._settings = settings
        self._signer = WebhookSigner(settings.signing_secret, settings.previous_secret)
        self._rule = rule or (
            guarded_client.anywhere if settings.allow_private else guarded_client.public_only
        )
        self._look_up = look_up
        self._session: aiohttp.ClientSession | None = None

    def sign_with(self, secret: str | None, previous: str | None = None) -> None:
        """Sign with these secrets from now on, or with none. Raises ValueError when one is malformed."""
        self._signer = WebhookSigner(secret, previous)

    async def __aenter__(self) -> Self:
        settings = self._settings
        self._session = guarded_client.guarded_client(
            self._rule, self._look_up, settings.timeout_seconds, settings.connect_seconds
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Make one attempt. Every failure of the receiver or the network becomes an outcome, not an error."""
        assert self._session is not None, "the sender is not open"
        url = _web_url(message.url)
        if url is None:
            return Outcome(Verdict.REFUSED, "the URL is not an absolute http or https URL")
        try:
            async with self._session.post(
                url, data=message.body, headers=self.headers(message, now_ms), allow_redirects=False
            ) as response:
                await guarded_client.read_limited(response)
                return _judge(response.status, response.headers, now_ms)
        except Exception as error:  # a stranger's server must not be able to stop the sending
            return guarded_client.judge_error(error)

    def headers(self, message: OutgoingMessage, now_ms: int) -> dict[str, str]:
        """The headers that the message is sent with at this time."""
        signer = self._signer if message.signing_secret is None else _signer(message.signing_secret)
        return {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._settings.user_agent,
            **signer.headers(message.message_id, message.body, now_ms),
        }


@lru_cache(maxsize=1_024)
def _signer(secret: str) -> WebhookSigner:
    return WebhookSigner(secret)


def _web_url(text: str) -> URL | None:
    try:
        url = URL(text)
    except ValueError:
        return None
    return url if url.scheme in _WEB_SCHEMES and url.raw_host else None


def _judge(status: int, headers: Mapping[str, str], now_ms: int) -> Outcome:
    if 200 <= status < 300:
        return Outcome(Verdict.DELIVERED, status=status)
    reason = f"the receiver answered {status}"
    if status == 410:
        return Outcome(Verdict.GONE, reason, status)
    if 300 <= status < 400:
        reason += ", and redirects are not followed"
    asked = headers.get(hdrs.RETRY_AFTER) if status in _ASKING_STATUSES else None
    wait_seconds = None if asked is None else parse_retry_after(asked, now_ms)
    return Outcome(Verdict.FAILED, reason, status, wait_seconds)
