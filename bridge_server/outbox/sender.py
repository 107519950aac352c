"""One attempt: one POST to a stranger's server, which may answer anything, slowly, or never."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from traceback import format_tb
from types import TracebackType
from typing import Self

import aiohttp
import structlog
from aiohttp import hdrs
from yarl import URL

from bridge_server.outbox.failure_text import failure, refusal
from bridge_server.outbox.guard import Rule, anywhere, guarded_sockets, public_only
from bridge_server.outbox.models import Outcome, OutgoingMessage, Verdict
from bridge_server.outbox.resolver import GuardedResolver, LookUp, look_up
from bridge_server.outbox.retry import parse_retry_after
from bridge_server.outbox.signature import Signer

_ANSWER_LIMIT_BYTES = 64 * 1_024
_SCHEMES = frozenset({"http", "https"})
_ASKING_STATUSES = frozenset({429, 503})
# Less than the 5 seconds after which common servers close an idle connection: a POST that meets the
# closing is lost, and repeated only after a delay.
_IDLE_SECONDS = 4.0

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class SenderSettings:
    """How requests are made.

    `timeout_seconds` covers an attempt from the name lookup to the last byte of the answer.
    `signing_secret` is a Standard Webhooks secret, `whsec_` and base64 of 24 to 64 bytes.
    `allow_private` opens every address and port: for development only.
    """

    timeout_seconds: float
    signing_secret: str | None
    allow_private: bool
    user_agent: str


class WebhookSender:
    """Sends messages over a pool of connections; use it as an async context manager.

    Raises ValueError when the signing secret is malformed.
    """

    def __init__(
        self, settings: SenderSettings, *, rule: Rule | None = None, look_up: LookUp = look_up
    ) -> None:
        self._settings = settings
        self._signer = Signer(settings.signing_secret)
        self._rule = rule or (anywhere if settings.allow_private else public_only)
        self._look_up = look_up
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        connector = aiohttp.TCPConnector(
            resolver=GuardedResolver(self._rule, self._look_up),
            socket_factory=guarded_sockets(self._rule),
            family=socket.AF_UNSPEC,
            keepalive_timeout=_IDLE_SECONDS,
            limit=0,  # the caller limits how many requests there are
        )
        self._session = aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            timeout=aiohttp.ClientTimeout(total=self._settings.timeout_seconds),
            trust_env=False,
            auto_decompress=False,
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
        """Make one attempt. Whatever the receiver or the network does becomes an outcome, never an error."""
        assert self._session is not None, "the sender is not open"
        url = _readable(message.url)
        if url is None:
            return Outcome(Verdict.REFUSED, "the URL is not an absolute http or https URL")
        try:
            async with self._session.post(
                url, data=message.body, headers=self._headers(message, now_ms), allow_redirects=False
            ) as response:
                await _read_limited(response)
                return _judge(response.status, response.headers, now_ms)
        except Exception as error:  # a stranger's server must not be able to stop the sending
            return _judge_error(error)

    def _headers(self, message: OutgoingMessage, now_ms: int) -> dict[str, str]:
        return {
            hdrs.CONTENT_TYPE: "application/json",
            hdrs.ACCEPT_ENCODING: "identity",
            hdrs.USER_AGENT: self._settings.user_agent,
            **self._signer_of(message).headers(message.message_id, message.body, now_ms),
        }

    def _signer_of(self, message: OutgoingMessage) -> Signer:
        return self._signer if message.signing_secret is None else _signer(message.signing_secret)


@lru_cache(maxsize=1_024)
def _signer(secret: str) -> Signer:
    return Signer(secret)


def _readable(text: str) -> URL | None:
    try:
        url = URL(text)
    except ValueError:
        return None
    return url if url.scheme in _SCHEMES and url.raw_host else None


async def _read_limited(response: aiohttp.ClientResponse) -> None:
    """Read a short answer, so that its connection can be used again; what is longer closes it."""
    left = _ANSWER_LIMIT_BYTES
    try:
        while left > 0 and (chunk := await response.content.read(left)):
            left -= len(chunk)
    except (aiohttp.ClientError, OSError):  # the status has come already, and it decides
        response.close()


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


def _judge_error(error: Exception) -> Outcome:
    refused = refusal(error)
    if refused is not None:
        return Outcome(Verdict.REFUSED, refused)
    if not isinstance(error, aiohttp.ClientError | OSError):
        # Where, and not what it says: that may quote the URL.
        frame = format_tb(error.__traceback__)[-1]
        log.error("webhook_attempt_broke", kind=type(error).__name__, where=frame)
    return Outcome(Verdict.FAILED, failure(error))
