"""The interface of push providers, the senders of the outbox that call them, and answers of push services."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from typing import Any, NamedTuple, Protocol, Self, TypeAlias

import aiohttp
import orjson
import structlog
from aiohttp import hdrs

from bridge_server.kernel import errors, fields
from bridge_server.kernel.clock import Clock
from bridge_server.outbox.guarded_client import ANSWER_LIMIT_BYTES, Outcome, Verdict, read_bounded
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.push import models, notices

_BLOCKED_PAUSE_US = 30_000_000
_LIMITED_DEVICES = 3
_MOST_LIMITED_LANES = 1_000

log = structlog.get_logger()


class Provider(Protocol):
    """Delivers pushes to devices. It is an async context manager that owns its connections."""

    async def __aenter__(self) -> Self: ...

    async def __aexit__(self, *_: object) -> None: ...

    def checked_token(self, token: str) -> str:
        """The token in its normal form. Raises ValueError if it does not have the provider's form."""

    async def push(self, token: str, notice: models.PushNotice) -> Outcome:
        """Attempt to deliver once. Every failure is an outcome; no exception is raised.

        DELIVERED: the provider accepted the push. GONE: it calls the token dead. FAILED: a retry may succeed,
        after the provider's Retry-After. REFUSED: this notice will never be accepted, for instance because
        it is too large. BLOCKED: the provider refuses this server's credentials, so every push would fail.
        """


ProviderOf: TypeAlias = Callable[[Clock], Provider]
"""Makes a provider that uses the clock."""


class _Block(NamedTuple):
    """A service's refusal of this server's credentials, and the elapsed time at which its pause ends."""

    reason: str
    until_us: int


class ProviderSender:
    """Passes messages to a provider, and pauses a lane whose service refuses this server's credentials or
    limits several of its devices.
    """

    def __init__(self, channel: str, provider: Provider, clock: Clock) -> None:
        self._channel = channel
        self._provider = provider
        self._clock = clock
        self._blocks: dict[str, _Block] = {}
        self._limited: dict[str, set[int]] = {}  # hashes of tokens by lane
        self.outcomes: Counter[str] = Counter()
        """The number of attempts since the start, by outcome."""

    @property
    def blocked(self) -> Mapping[str, str]:
        """The lanes whose service refuses the credentials, with the reason."""
        return {lane: block.reason for lane, block in self._blocks.items()}

    def forget_blocked(self) -> None:
        """Ask again in every lane."""
        self._blocks.clear()

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once."""
        lane = message.destination
        block = self._blocks.get(lane)
        if block is not None and self._clock.elapsed_us() < block.until_us:
            return Outcome(Verdict.BLOCKED, block.reason)
        token = message.url.partition(":")[2]
        outcome = await self._provider.push(token, notices.read_notice(message))
        self.outcomes[outcome.verdict.name.lower()] += 1
        if outcome.verdict is Verdict.BLOCKED:
            if lane not in self._blocks:
                log.error("push_provider_blocked", channel=self._channel, lane=lane, reason=outcome.reason)
            self._blocks[lane] = _Block(outcome.reason, self._clock.elapsed_us() + _BLOCKED_PAUSE_US)
        elif lane in self._blocks and outcome.verdict in (Verdict.DELIVERED, Verdict.GONE):
            log.info("push_provider_works_again", channel=self._channel, lane=lane)
            del self._blocks[lane]
        return self._with_reach(lane, token, outcome)

    def _with_reach(self, lane: str, token: str, outcome: Outcome) -> Outcome:
        """The outcome, with a decision where the service does not say whether its limit is one of the device
        or of this server: the lane pauses after limits of several devices without a success in between. A
        stranger who has a device of their own limited stops nobody else.
        """
        if outcome.verdict is Verdict.DELIVERED:
            self._limited.pop(lane, None)
        if outcome.about_lane is not None:
            return outcome
        devices = self._limited.setdefault(lane, set())
        devices.add(hash(token))
        about_lane = len(devices) >= _LIMITED_DEVICES
        if about_lane:  # counted anew after the pause, or a single device could prolong it
            del self._limited[lane]
        elif len(self._limited) > _MOST_LIMITED_LANES:
            del self._limited[next(iter(self._limited))]
        return replace(outcome, about_lane=about_lane)


class TopicSender:
    """Turns a message of this server's own bridge about a topic into a push to the registered client."""

    def __init__(self, forward: Callable[[OutgoingMessage], Awaitable[bool]]) -> None:
        self._forward = forward

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Queue the push, or drop the message if no client is registered any more."""
        try:
            taken = await self._forward(message)
        except errors.UnavailableError as error:
            return Outcome(Verdict.FAILED, error.detail)
        if not taken:
            # GONE would remove the webhook of a topic that may have been registered again meanwhile.
            # REFUSED would keep a dead letter although nothing has failed.
            log.debug("push_unregistered", message_id=message.message_id)
        return Outcome(Verdict.DELIVERED)


class NoProvider:
    """The sender of a channel that is not configured: its messages wait in the outbox for about a day."""

    def __init__(self, channel: str) -> None:
        self._channel = channel

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Fail the attempt, so that the outbox retries later."""
        return Outcome(Verdict.FAILED, f"pushes by {self._channel} are not configured")


class ServiceAnswer(NamedTuple):
    """The status, the JSON object in the body (else empty), and the Retry-After of a 429 or 5xx."""

    status: int
    document: Mapping[str, Any]
    retry_after_seconds: float | None = None

    @property
    def taken(self) -> bool:
        """Whether the status is 2xx."""
        return 200 <= self.status < 300


def service_answer(status: int, retry_after: str | None, body: bytes, now_ms: int) -> ServiceAnswer:
    """Make an answer and parse its body, whose type and content are not trusted."""
    asks = retry_after is not None and (status == 429 or status >= 500)
    wait = fields.parse_retry_after(retry_after, now_ms) if asks and retry_after is not None else None
    return ServiceAnswer(status, json_object(body), wait)


async def read_answer(response: aiohttp.ClientResponse, now_ms: int) -> ServiceAnswer:
    """Read an answer. A body of more than 64 KiB is cut, and is then not valid JSON."""
    body = bytearray()
    await read_bounded(response, body, ANSWER_LIMIT_BYTES)
    return service_answer(response.status, response.headers.get(hdrs.RETRY_AFTER), bytes(body), now_ms)


def json_object(body: bytes) -> Mapping[str, Any]:
    """The JSON object in the bytes; empty if they hold anything else."""
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return {}
    return document if isinstance(document, dict) else {}
