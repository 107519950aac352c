"""From the transaction that writes a message to its delivery or its end."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pytest
from structlog.testing import CapturingLogger

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox import delivery
from bridge_server.outbox.delivery import DELAYS_SECONDS
from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.models import Claimant, DueMessage, OutgoingMessage, PendingQueue, Queue
from bridge_server.outbox.queues import AllDestinations
from bridge_server.outbox.store import OutboxStore, enqueue
from bridge_server.storage.database import Transaction
from tests.outbox.running import HOOK, Outbox, running_outbox
from tests.support.clock import ManualClock
from tests.support.eventually import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang, open_receiver, reset, status


def ids_at(receiver: WebhookReceiver) -> list[str]:
    return [request.headers["webhook-id"] for request in receiver.requests]


async def test_a_delivered_message_is_forgotten(outbox: Outbox, receiver: WebhookReceiver) -> None:
    await outbox.owe(receiver.url())

    await receiver.got(1)
    await outbox.comes_to("id", [])

    async def is_counted() -> bool:
        return outbox.dispatcher.figures() == {"due": 0, "dead": 0, "delivered": 1, "failed": 0}

    await eventually(is_counted)


async def test_a_message_of_a_transaction_that_fails_is_never_sent(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    def work() -> Transaction[None]:
        yield from enqueue(OutgoingMessage("undone", receiver.url(), b"{}", HOOK), outbox.clock.now_ms())
        raise LookupError("the cause did not happen")

    with pytest.raises(LookupError):
        await outbox.database.transaction(work)
    await outbox.owe(receiver.url(), prefix="done")

    await outbox.comes_to("id", [])
    assert ids_at(receiver) == ["done-0"]


async def test_a_failed_message_is_sent_again_under_its_id_when_it_is_due(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.extend([status(500), reset])
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts, last_error", [(1, "the receiver answered 500")])

    await outbox.pass_time(4.9)
    await outbox.comes_to("attempts", [(1,)])
    await outbox.pass_time(0.1)
    await outbox.comes_to("attempts, last_error", [(2, "the connection was closed before an answer")])
    await outbox.pass_time(30)
    await outbox.comes_to("id", [])

    assert ids_at(receiver) == ["message-0"] * 3
    times = [int(request.headers["webhook-timestamp"]) for request in receiver.requests]
    assert [time - times[0] for time in times] == [0, 5, 35]
    assert len({request.body for request in receiver.requests}) == 1


async def test_a_receiver_that_asks_for_time_is_left_alone_for_it(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.script.append(status(503, Retry_After="600"))
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts", [(1,)])

    await outbox.pass_time(599)
    await outbox.owe(receiver.url("/other"), prefix="other")
    await receiver.got(2)
    assert ids_at(receiver) == ["message-0", "other-0"]
    await outbox.pass_time(600 * 0.1 + 1)

    await outbox.comes_to("id", [])
    assert ids_at(receiver)[2:] == ["message-0"]


async def test_an_answer_of_410_ends_a_message_and_calls_the_handler_of_its_purpose(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = status(410)

    await outbox.owe(receiver.url("/gone?key=1"))

    now_ms = outbox.clock.now_ms()
    await outbox.comes_to(
        "attempts, next_attempt_at_ms, died_at_ms, last_error",
        [(1, None, now_ms, "the receiver answered 410")],
    )
    assert outbox.gone == [receiver.url("/gone?key=1")]
    await outbox.pass_time(10 * 86_400)
    assert len(receiver.requests) == 1


async def test_an_answer_of_410_ends_a_message_even_if_its_handler_fails(
    file: Path, clock: ManualClock, receiver: WebhookReceiver
) -> None:
    async def on_gone(_: OutgoingMessage) -> None:
        raise UnavailableError("not now")

    receiver.otherwise = status(410)
    async with running_outbox(file, clock, on_gone=on_gone) as outbox:
        await outbox.owe(receiver.url())

        await outbox.comes_to("died_at_ms", [(clock.now_ms(),)])


async def test_a_redirect_is_not_followed(outbox: Outbox, receiver: WebhookReceiver) -> None:
    async with open_receiver() as elsewhere:
        receiver.otherwise = status(307, Location=elsewhere.url())

        await outbox.owe(receiver.url())

        await outbox.comes_to("attempts", [(1,)])
        assert elsewhere.requests == []


async def test_a_message_that_is_never_taken_is_kept_as_a_dead_letter(
    outbox: Outbox, receiver: WebhookReceiver
) -> None:
    receiver.otherwise = status(500)
    await outbox.owe(receiver.url())

    for attempts, delay_seconds in enumerate(DELAYS_SECONDS, start=1):
        await outbox.comes_to("attempts, died_at_ms", [(attempts, None)])
        await outbox.pass_time(delay_seconds)

    died_at_ms = outbox.clock.now_ms()
    await outbox.comes_to(
        "attempts, next_attempt_at_ms, died_at_ms, last_error",
        [(len(DELAYS_SECONDS) + 1, None, died_at_ms, "the receiver answered 500")],
    )
    await outbox.pass_time(86_400)
    assert len(receiver.requests) == len(DELAYS_SECONDS) + 1
    assert outbox.dispatcher.figures() == {"due": 0, "dead": 1, "delivered": 0, "failed": 11}


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/hook", "http://127.0.0.1:99999/", "hook"])
async def test_a_url_that_cannot_be_used_is_a_dead_letter_at_once(outbox: Outbox, url: str) -> None:
    await outbox.owe(url)

    reason = "the URL is not an absolute http or https URL"
    await outbox.comes_to("died_at_ms, last_error", [(outbox.clock.now_ms(), reason)])


async def test_the_log_names_the_destination_and_never_the_rest_of_the_url(
    outbox: Outbox, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = CapturingLogger()
    monkeypatch.setattr(delivery, "log", log)
    receiver.script.extend([status(500), status(410)])
    await outbox.owe(receiver.url("/hush?token=hush"))
    await outbox.comes_to("attempts", [(1,)])
    await outbox.pass_time(5)
    await outbox.comes_to("attempts", [(2,)])

    failed, dead = log.calls

    assert (failed.method_name, failed.args) == ("info", ("webhook_failed",))
    assert failed.kwargs == {
        "destination": f"http://127.0.0.1:{receiver.port}",
        "message_id": "message-0",
        "attempt": 1,
        "next_attempt_seconds": 5,
        "reason": "the receiver answered 500",
    }
    assert (dead.method_name, dead.args) == ("warning", ("webhook_dead_letter",))
    assert "hush" not in str(log.calls)


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

        await eventually(lambda: stores[0].failures == 0)
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

    receiver.script.append(status(500))
    async with running_outbox(file, clock, store_over=store_over) as outbox:
        await outbox.owe(receiver.url())
        await outbox.comes_to("attempts", [(1,)])
        await eventually(lambda: stores[0].reads >= 3)

        clock.advance(5)

        await outbox.comes_to("id", [])


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
