"""Senders, which pass messages of the outbox to providers."""

from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

import structlog

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.push.notices import read_notice
from bridge_server.push.providers.provider import Provider

BLOCKED_PAUSE_MS = 30_000

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class _Block:
    """A service's refusal of this server's credentials, and the end of the pause after it."""

    reason: str
    until_ms: int


class ProviderSender:
    """Passes messages to a provider, and pauses after a refusal of this server's credentials.

    The pause is per lane: Web Push leads to several services, and one can refuse credentials that another
    accepts.
    """

    def __init__(self, channel: str, provider: Provider) -> None:
        self._channel = channel
        self._provider = provider
        self._blocks: dict[str, _Block] = {}
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
        block = self._blocks.get(message.destination)
        if block is not None and now_ms < block.until_ms:
            return Outcome(Verdict.BLOCKED, block.reason)
        token = message.url.partition(":")[2]
        outcome = await self._provider.push(token, read_notice(message))
        self.outcomes[outcome.verdict.name.lower()] += 1
        self._note(message.destination, outcome, now_ms)
        return outcome

    def _note(self, lane: str, outcome: Outcome, now_ms: int) -> None:
        if outcome.verdict is Verdict.BLOCKED:
            if lane not in self._blocks:
                log.error("push_provider_blocked", channel=self._channel, lane=lane, reason=outcome.reason)
            self._blocks[lane] = _Block(outcome.reason, now_ms + BLOCKED_PAUSE_MS)
        elif lane in self._blocks and outcome.verdict in (Verdict.DELIVERED, Verdict.GONE):
            log.info("push_provider_works_again", channel=self._channel, lane=lane)
            del self._blocks[lane]


class TopicSender:
    """Turns a message of this server's own bridge about a topic into a push to the registered client."""

    def __init__(self, forward: Callable[[OutgoingMessage], Awaitable[bool]]) -> None:
        self._forward = forward

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Queue the push, or drop the message if no client is registered any more."""
        try:
            taken = await self._forward(message)
        except UnavailableError as error:
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
