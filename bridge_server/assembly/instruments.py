"""Test mode's instruments, and the senders that they watch and break."""

import asyncio
import os
from collections.abc import Sequence

from bridge_server.kernel.clock import Clock, MovableClock
from bridge_server.kernel.secrets import new_secret
from bridge_server.kernel.signals import Signals
from bridge_server.notify.device_notices import DEVICE
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import WebhookSender
from bridge_server.push.notices import PUSH
from bridge_server.push.providers.sinks import Refusal, SinkProvider, SinkPush
from bridge_server.storage.failures import ordered_failure
from bridge_server.storage.sqlite import SqliteDatabase
from bridge_server.testmode.faults import Faults
from bridge_server.testmode.instruments import Instruments
from bridge_server.testmode.models import Sent, Where
from bridge_server.testmode.senders import ObservedWebhooks
from bridge_server.testmode.sent import SentMessages
from bridge_server.wallet.node.ordered_failures import NodeFailure
from bridge_server.web.middleware.faults import RequestFault
from bridge_server.web.traffic import TrafficLog


def instruments_for_tests(clock: Clock, signals: Signals) -> Instruments:
    """The instruments of a server in test mode, with a new token."""
    movable = MovableClock(clock)
    traffic = TrafficLog(signals, movable, keeps_contents=True)
    return Instruments(movable, Faults(), SentMessages(signals), traffic, new_secret(os.urandom))


def observed_webhooks(webhooks: WebhookSender, instruments: Instruments) -> Sender:
    """The sender of webhooks, watched."""
    return ObservedWebhooks(webhooks, instruments, webhooks.headers, _is_push)


def push_sink(channel: str, instruments: Instruments) -> SinkProvider:
    """A provider that takes every push, and shows it to the instruments."""

    async def strike(channel: str) -> Refusal | None:
        fault = instruments.faults.strike(Where(channel))
        if fault is None:
            return None
        if fault.delay_ms:
            await asyncio.sleep(fault.delay_ms / 1_000)
        is_failure = fault.drop or fault.answer is not None or fault.status is not None
        if not is_failure:
            return None
        return Refusal() if fault.drop else Refusal(fault.answer, fault.status, fault.retry_after_seconds)

    def witness(push: SinkPush) -> None:
        instruments.sent.note(_sent(push, instruments.clock.now_ms()))

    return SinkProvider(channel, instruments.clock, strike, witness)


def request_fault(instruments: Instruments, route: str) -> RequestFault | None:
    """The fault that strikes the next request of the route."""
    fault = instruments.faults.strike(Where.REQUEST, route)
    if fault is None:
        return None
    return RequestFault(fault.delay_ms, fault.drop, fault.status, fault.retry_after_seconds)


def node_failure(instruments: Instruments, methods: Sequence[str]) -> NodeFailure | None:
    """The failure that strikes a request to the node, which calls these methods."""
    fault = instruments.faults.strike(Where.NODE, *methods)
    return None if fault is None else NodeFailure(fault.delay_ms, fault.drop, fault.status, fault.answer)


def break_disk(database: SqliteDatabase, instruments: Instruments) -> None:
    """Have ordered faults of the disk strike the commits."""

    def before_commit() -> None:
        fault = instruments.faults.strike(Where.DISK)
        if fault is not None and fault.answer is not None:
            raise ordered_failure(fault.answer)

    database.order_failures(before_commit)


def _is_push(message: OutgoingMessage) -> bool:
    return message.purpose in (DEVICE, PUSH)


def _sent(push: SinkPush, now_ms: int) -> Sent:
    notice = push.notice
    return Sent(
        message_id=notice.message_id,
        channel=push.channel,
        at_ms=now_ms,
        outcome=push.outcome.verdict.name.lower(),
        reason=push.outcome.reason,
        notice={**notice.data, "title": notice.title, "body": notice.body},
        payload=push.payload,
        token=push.token,
        headers=push.headers,
    )
