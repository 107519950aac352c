"""From the outbox to the providers."""

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
    """What was said of this server's credentials, and until when nobody is asked again."""

    reason: str
    until_ms: int


class ProviderSender:
    """Hands messages to a provider; who refuses this server's credentials is asked only now and then.

    That is remembered by lane: a provider of browsers leads to several services, and what one of them thinks
    of the credentials says nothing of the others.
    """

    def __init__(self, channel: str, provider: Provider) -> None:
        self._channel = channel
        self._provider = provider
        self._blocks: dict[str, _Block] = {}

    @property
    def blocked(self) -> Mapping[str, str]:
        """The lanes that are refused, and why."""
        return {lane: block.reason for lane, block in self._blocks.items()}

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once."""
        block = self._blocks.get(message.destination)
        if block is not None and now_ms < block.until_ms:
            return Outcome(Verdict.BLOCKED, block.reason)
        token = message.url.partition(":")[2]
        outcome = await self._provider.push(token, read_notice(message))
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
    """Takes what this server's own bridge has to say of a topic: it becomes a push to whoever registered."""

    def __init__(self, forward: Callable[[OutgoingMessage], Awaitable[bool]]) -> None:
        self._forward = forward

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Queue the push, or drop the notice when nobody is registered any more."""
        try:
            taken = await self._forward(message)
        except UnavailableError as error:
            return Outcome(Verdict.FAILED, error.detail)
        if not taken:
            # Not GONE: that would remove this server's webhook of a topic that may have been registered again
            # meanwhile. Nor REFUSED: it is no failure, and there is nothing to keep as a dead letter.
            log.debug("push_for_nobody", message_id=message.message_id)
        return Outcome(Verdict.DELIVERED)


class NoProvider:
    """Stands for a provider that is not configured, perhaps no longer: what is owed waits for it a day."""

    def __init__(self, channel: str) -> None:
        self._channel = channel

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Keep the message for later."""
        return Outcome(Verdict.FAILED, f"pushes by {self._channel} are not configured")
