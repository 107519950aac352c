"""The sender of webhooks in test mode: faults strike first, and the messages are kept for the test."""

import asyncio
from collections.abc import Callable, Mapping
from time import perf_counter
from typing import TypeAlias

import orjson

from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.recording import BRIDGE, about
from bridge_server.outgoing.outcome import Outcome, Verdict
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.models import FaultRule, Sent, Where
from bridge_server.web.exchanges import Contents, Exchange, contents

HeadersOf: TypeAlias = Callable[[OutgoingMessage, int], Mapping[str, str]]
IsPush: TypeAlias = Callable[[OutgoingMessage], bool]

_WEBHOOK = "webhook"
_WEBHOOK_PUSH = "webhook-push"


class ObservedWebhooks:
    """A sender that faults strike, and whose messages are kept.

    `headers_of` gives the headers that a message is sent with at a time in milliseconds; `is_push` says
    whether the webhook stands for a device.
    """

    def __init__(
        self, sender: Sender, instruments: Instruments, headers_of: HeadersOf, is_push: IsPush
    ) -> None:
        self._sender = sender
        self._instruments = instruments
        self._headers_of = headers_of
        self._is_push = is_push

    async def send(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        """Attempt to deliver once, unless a fault strikes."""
        started = perf_counter()
        outcome = await self._attempt(message, now_ms)
        headers = {str(name): value for name, value in self._headers_of(message, now_ms).items()}
        channel = _WEBHOOK_PUSH if self._is_push(message) else _WEBHOOK
        document = orjson.loads(message.body)
        self._instruments.sent.note(
            Sent(
                message_id=message.message_id,
                channel=channel,
                at_ms=now_ms,
                outcome=outcome.verdict.name.lower(),
                reason=outcome.reason,
                notice=document,
                payload=document,
                url=message.url,
                headers=headers,
            )
        )
        sent = contents(headers, message.body)
        self._instruments.traffic.note(_exchange(message, channel, outcome, sent, perf_counter() - started))
        return outcome

    async def _attempt(self, message: OutgoingMessage, now_ms: int) -> Outcome:
        fault = self._instruments.faults.strike(Where.WEBHOOK)
        if fault is not None and fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        if fault is None or not (fault.drop or fault.status):
            return await self._sender.send(message, now_ms)
        return webhook_failure(fault)


def webhook_failure(fault: FaultRule) -> Outcome:
    """The outcome of a webhook's attempt: its connection is dropped, or its receiver answers a status."""
    if fault.drop or fault.status is None:
        return Outcome(Verdict.FAILED, "the receiver closed the connection (ordered by the test)")
    if 200 <= fault.status < 300:
        return Outcome(Verdict.DELIVERED, status=fault.status)
    verdict = Verdict.GONE if fault.status == 410 else Verdict.FAILED
    reason = f"the receiver answered {fault.status} (ordered by the test)"
    return Outcome(verdict, reason, fault.status, fault.retry_after_seconds)


def _exchange(
    message: OutgoingMessage, channel: str, outcome: Outcome, sent: Contents, seconds: float
) -> Exchange:
    return Exchange(
        who=BRIDGE,
        method="POST",
        path=message.url,
        route=channel,
        status=outcome.status or 0,
        milliseconds=round(seconds * 1_000, 1),
        gist=outcome.reason,
        request=sent,
        about=about(message),
    )
