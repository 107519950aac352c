"""A test of a webhook: one signed message, sent at once under the address guard."""

from dataclasses import dataclass
from time import perf_counter

import orjson

from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import UnavailableError
from bridge_server.kernel.ids import IdMaker
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.stopping import StoppedError, Stopping
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outgoing.outcome import Outcome

WEBHOOK_TEST = Purpose("webhook-test")
"""The purpose of a message that an operator sends to see whether a receiver takes it. It is never stored."""


@dataclass(frozen=True, slots=True)
class TestedWebhook:
    """The outcome of a test and how long it took."""

    message_id: str
    outcome: Outcome
    milliseconds: float


class WebhookTests:
    """Sends test messages. They are tried once and leave nothing behind."""

    def __init__(self, sender: Sender, clock: Clock, ids: IdMaker, stopping: Stopping) -> None:
        self._sender = sender
        self._clock = clock
        self._ids = ids
        self._stopping = stopping

    async def send(self, url: str) -> TestedWebhook:
        """Send a test message. Raises UnavailableError when the server stops before the answer."""
        now_ms, started = self._clock.now_ms(), perf_counter()
        body = orjson.dumps({"event": "test", "at": rfc3339(now_ms)})
        message = OutgoingMessage(self._ids.random_uuid(), url, body, WEBHOOK_TEST)
        try:
            outcome = await self._stopping.finish(self._sender.send(message, now_ms))
        except StoppedError as error:
            raise UnavailableError("The server stops, and the receiver has not answered yet.") from error
        return TestedWebhook(message.message_id, outcome, (perf_counter() - started) * 1_000)
