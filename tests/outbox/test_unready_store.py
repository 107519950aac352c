"""The outbox over a database that fails it for a while, or changes under its eyes."""

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox import delivery
from bridge_server.outbox.models import DueMessage, OutgoingMessage, PendingQueue, Queue
from bridge_server.outbox.queues import AllDestinations
from bridge_server.outbox.store import OutboxStore, enqueue
from tests.outbox.running import HOOK, running_outbox
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.webhook_receiver import WebhookReceiver, status


class _ForgetfulStore(OutboxStore):
    """Cannot store a delivery the first times."""

    failures: ClassVar[list[Exception]]

    async def delete_delivered(
        self, messages: Sequence[DueMessage], now_ms: int, answering: Sequence[str]
    ) -> None:
        if self.failures:
            raise self.failures.pop()
        await super().delete_delivered(messages, now_ms, answering)


async def test_a_delivery_that_cannot_be_stored_is_not_repeated(
    file: Path, clock: ManualClock, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_SECONDS", 0.01)
    _ForgetfulStore.failures = [LookupError("unforeseen"), UnavailableError("the disk is full")]

    async with running_outbox(
        file, clock, store_over=lambda store: _ForgetfulStore(store.database)
    ) as outbox:
        await outbox.owe(receiver.url())

        await outbox.comes_to("id", [])
        assert len(receiver.requests) == 1


class _UnreadableStore(OutboxStore):
    """Cannot be read the first time."""

    failures = 1

    async def next_messages(self, queue: Queue, now_ms: int, limit: int) -> list[DueMessage]:
        if self.failures:
            self.failures -= 1
            raise UnavailableError("the database is locked")
        return await super().next_messages(queue, now_ms, limit)


async def test_messages_that_cannot_be_read_are_read_later(
    file: Path, clock: ManualClock, receiver: WebhookReceiver
) -> None:
    stores: list[_UnreadableStore] = []

    def store_over(store: OutboxStore) -> _UnreadableStore:
        stores.append(_UnreadableStore(store.database))
        return stores[0]

    async with running_outbox(file, clock, store_over=store_over) as outbox:
        await outbox.owe(receiver.url())

        async def was_refused() -> bool:
            return stores[0].failures == 0

        await eventually(was_refused)
        await outbox.pass_time(5)

        await outbox.comes_to("id", [])


class _LateStore(OutboxStore):
    """Something is written after the rows were read and before they arrive."""

    meanwhile: ClassVar[list[OutgoingMessage]]

    async def next_messages(self, queue: Queue, now_ms: int, limit: int) -> list[DueMessage]:
        messages = await super().next_messages(queue, now_ms, limit)
        if self.meanwhile:
            late = self.meanwhile.pop()
            await self.database.transaction(lambda: enqueue(late, 0))
        return messages


async def test_a_message_written_just_as_the_lane_ends_is_sent(
    file: Path, clock: ManualClock, receiver: WebhookReceiver
) -> None:
    _LateStore.meanwhile = [OutgoingMessage("late", receiver.url(), b"{}", HOOK)]

    async with running_outbox(file, clock, store_over=lambda store: _LateStore(store.database)) as outbox:
        await outbox.owe(receiver.url())

        await receiver.got(2)

    assert [request.headers["webhook-id"] for request in receiver.requests] == ["message-0", "late"]


class _LockedStore(OutboxStore):
    """Cannot be read the second time."""

    reads = 0

    async def pending_queues(self, now_ms: int, after: Queue, limit: int) -> list[PendingQueue]:
        self.reads += 1
        if self.reads == 2:
            raise UnavailableError("the database is locked")
        return await super().pending_queues(now_ms, after, limit)


async def test_a_database_that_is_locked_for_a_while_does_not_end_the_sending(
    file: Path, clock: ManualClock, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllDestinations, "ticks_to_recount", lambda _: 1)
    stores: list[_LockedStore] = []

    def store_over(store: OutboxStore) -> _LockedStore:
        stores.append(_LockedStore(store.database))
        return stores[0]

    async def read_again() -> bool:
        return stores[0].reads >= 3

    receiver.script.append(status(500))
    async with running_outbox(file, clock, store_over=store_over) as outbox:
        await outbox.owe(receiver.url())
        await outbox.comes_to("attempts", [(1,)])
        await eventually(read_again)

        clock.advance(5)

        await outbox.comes_to("id", [])
