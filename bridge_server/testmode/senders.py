"""Senders of the outbox in test mode: faults strike first, and what leaves is kept for the test to see."""

import asyncio
from collections.abc import Callable, Mapping
from typing import TypeAlias

import orjson

from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.testmode.faults import Faults
from bridge_server.testmode.models import Fault, Where
from bridge_server.testmode.sent import SentMessages

FailureOf: TypeAlias = Callable[[Fault], Outcome]
"""The outcome of an attempt that a fault strikes, in the words of the channel."""
HeadersOf: TypeAlias = Callable[[OutgoingMessage, int], Mapping[str, str]]

_PLACES = {place.value: place for place in Where}


class Sink:
    """A push provider that takes every message."""

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Take the message."""
        return Outcome(Verdict.DELIVERED, status=200)


class ObservedSender:
    """A sender that faults strike, and whose messages are kept.

    `headers_of` gives the headers that a message is sent with, as a webhook's receiver sees them.
    """

    def __init__(
        self,
        sender: Sender,
        faults: Faults,
        sent: SentMessages,
        failure_of: FailureOf,
        headers_of: HeadersOf | None = None,
    ) -> None:
        self._sender = sender
        self._faults = faults
        self._sent = sent
        self._failure_of = failure_of
        self._headers_of = headers_of

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once, unless a fault strikes."""
        outcome = await self._attempt(message, now_ms)
        is_webhook = message.channel in ("http", "https")
        self._sent.note(
            message.message_id,
            "webhook" if is_webhook else message.channel,
            now_ms,
            outcome.verdict.name.lower(),
            outcome.reason,
            orjson.loads(message.body),
            url=message.url if is_webhook else None,
            token=None if is_webhook else message.url.partition(":")[2],
            headers=self._headers_of(message, now_ms) if is_webhook and self._headers_of else None,
        )
        return outcome

    async def _attempt(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        place = _PLACES.get(message.channel, Where.WEBHOOK)
        fault = self._faults.strike(place)
        if fault is not None and fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault is None or not _is_failure(fault):
            return await self._sender.send(message, now_ms)
        return self._failure_of(fault)


def webhook_failure(fault: Fault) -> Outcome:
    """The outcome of a webhook's attempt: its connection is dropped, or its receiver answers a status."""
    if fault.drop or fault.status is None:
        return Outcome(Verdict.FAILED, "the receiver closed the connection (a fault of the test)")
    reason = f"the receiver answered {fault.status} (a fault of the test)"
    if 200 <= fault.status < 300:
        return Outcome(Verdict.DELIVERED, status=fault.status)
    verdict = Verdict.GONE if fault.status == 410 else Verdict.FAILED
    return Outcome(verdict, reason, fault.status, fault.retry_after_seconds)


def _is_failure(fault: Fault) -> bool:
    """Whether the fault is more than a delay."""
    return fault.drop or fault.status is not None or fault.answer is not None
