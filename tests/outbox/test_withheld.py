"""A message that an operator changes is not begun meanwhile, and is not sent as it was read before."""

import asyncio
from pathlib import Path

from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.models import Claimant, DueMessage, Queue
from bridge_server.outbox.store import OutboxStore
from tests.outbox.running import running_outbox
from tests.support.clock import ManualClock
from tests.support.webhook_receiver import WebhookReceiver, hang


class SlowStore(OutboxStore):
    """Hands out what it has read only when it is let go."""

    def __init__(self, store: OutboxStore) -> None:
        super().__init__(store.database)
        self.has_read = asyncio.Event()
        self.let_go = asyncio.Event()

    async def next_messages(self, queue: Queue, now_ms: int, limit: int) -> list[DueMessage]:
        found = await super().next_messages(queue, now_ms, limit)
        self.has_read.set()
        await self.let_go.wait()
        return found


async def test_a_message_that_is_dropped_after_it_was_read_is_not_sent(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    slow: list[SlowStore] = []

    def slowed(store: OutboxStore) -> OutboxStore:
        slow.append(SlowStore(store))
        return slow[0]

    async with running_outbox(tmp_path / "bridge.sqlite3", ManualClock(), store_over=slowed) as outbox:
        await outbox.owe(receiver.url("/dropped"), receiver.url("/kept"))
        await slow[0].has_read.wait()
        store = MessageStore(outbox.database)
        stored = await store.get(1, "message-0")

        async with outbox.dispatcher.withheld(1, Claimant(stored.queue, None, has_failed=False)):
            await store.drop(1, "message-0")
        slow[0].let_go.set()

        await outbox.comes_to("id", [])
    assert [got.path for got in receiver.requests] == ["/kept"]


async def test_a_message_is_sent_when_it_is_not_withheld_any_more(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    async with running_outbox(tmp_path / "bridge.sqlite3", ManualClock()) as outbox:
        queue = Queue(f"http://127.0.0.1:{receiver.port}", "")
        async with outbox.dispatcher.withheld(1, Claimant(queue, None, has_failed=False)):
            await outbox.owe(receiver.url("/withheld"), receiver.url("/free"))
            await outbox.comes_to("message_id", [("message-0",)])

        await outbox.comes_to("id", [])
    assert [got.path for got in receiver.requests] == ["/free", "/withheld"]


async def test_a_message_that_is_dropped_while_it_waits_behind_others_is_not_sent(
    tmp_path: Path, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = hang
    async with running_outbox(tmp_path / "bridge.sqlite3", ManualClock()) as outbox:
        await outbox.owe(*(receiver.url(f"/{number}") for number in range(8)))
        await receiver.got(4)
        store = MessageStore(outbox.database)
        stored = await store.get(8, "message-7")

        async with outbox.dispatcher.withheld(8, Claimant(stored.queue, None, has_failed=False)):
            await store.drop(8, "message-7")
        receiver.released.set()

        await outbox.comes_to("id", [])
    assert sorted(got.path for got in receiver.requests) == [f"/{number}" for number in range(7)]
