"""From the transaction that writes a message to its delivery or its end.

White-box: errors of single statements come from a store of the test's own, and pauses have no setting.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import TypeAlias

import pytest
from structlog.testing import CapturingLogger

from bridge_server.kernel.errors import UnavailableError
from bridge_server.outbox import delivery
from bridge_server.outbox.delivery import DELAYS_SECONDS
from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.models import Claimant, DueMessage, OutgoingMessage, PendingQueue, Queue
from bridge_server.outbox.queues import AllDestinations
from bridge_server.outbox.store import OutboxStore, enqueue
from bridge_server.storage.database import Database, Transaction
from tests.outbox.running import HOOK, Outbox, Start
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver, hang, reset, status


def ids_at(receiver: WebhookReceiver) -> list[str]:
    return [request.headers["webhook-id"] for request in receiver.requests]


async def test_a_message_of_a_failed_commit_is_not_sent(outbox: Outbox, receiver: WebhookReceiver) -> None:
    def work() -> Transaction[None]:
        yield from enqueue(OutgoingMessage("undone", receiver.url(), b"{}", HOOK), outbox.clock.now_ms())
        raise LookupError("the cause did not happen")

    with pytest.raises(LookupError):
        await outbox.database.transaction(work)
    await outbox.owe(receiver.url())

    await outbox.comes_to("id", [])
    assert ids_at(receiver) == ["message-0"]
    await eventually(
        lambda: outbox.dispatcher.figures() == {"due": 0, "dead": 0, "delivered": 1, "failed": 0}
    )


async def test_a_failed_message_is_sent_again_when_due(outbox: Outbox, receiver: WebhookReceiver) -> None:
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


async def test_an_answer_of_410_ends_a_message_whose_handler_may_fail_and_the_log_has_no_more_than_the_host(
    start: Start, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone: list[str] = []

    async def on_gone(message: OutgoingMessage) -> None:
        gone.append(message.url)
        raise UnavailableError("not now")

    log = CapturingLogger()
    monkeypatch.setattr(delivery, "log", log)
    receiver.script.extend([status(500), status(410)])
    url = receiver.url("/hush?token=hush")
    async with start(gone_handlers={HOOK: on_gone}) as outbox:
        await outbox.owe(url)
        await outbox.comes_to("attempts", [(1,)])
        await outbox.pass_time(5)

        died = (2, None, outbox.clock.now_ms(), "the receiver answered 410")
        await outbox.comes_to("attempts, next_attempt_at_ms, died_at_ms, last_error", [died])
        await outbox.pass_time(10 * 86_400)
    assert (gone, len(receiver.requests)) == ([url], 2)
    failed, *of_the_handler, dead = log.calls
    assert (failed.method_name, failed.args) == ("info", ("webhook_failed",))
    assert failed.kwargs == {
        "destination": f"http://127.0.0.1:{receiver.port}",
        "message_id": "message-0",
        "attempt": 1,
        "next_attempt_seconds": 5,
        "reason": "the receiver answered 500",
    }
    assert [call.args for call in of_the_handler] == [("webhook_gone_not_handled",)]
    assert (dead.method_name, dead.args) == ("warning", ("webhook_dead_letter",))
    assert "hush" not in str(log.calls)


async def test_a_message_never_taken_becomes_a_dead_letter(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.otherwise = status(500)
    await outbox.owe(receiver.url())

    for attempts, delay_seconds in enumerate(DELAYS_SECONDS, start=1):
        await outbox.comes_to("attempts, died_at_ms", [(attempts, None)])
        await outbox.pass_time(delay_seconds)

    died = (len(DELAYS_SECONDS) + 1, None, outbox.clock.now_ms(), "the receiver answered 500")
    await outbox.comes_to("attempts, next_attempt_at_ms, died_at_ms, last_error", [died])
    await outbox.pass_time(86_400)
    assert len(receiver.requests) == len(DELAYS_SECONDS) + 1
    # The row may be read before the dispatcher has heard of its commit.
    await eventually(
        lambda: outbox.dispatcher.figures() == {"due": 0, "dead": 1, "delivered": 0, "failed": 11}
    )


async def test_a_url_that_cannot_be_used_is_a_dead_letter_at_once(outbox: Outbox) -> None:
    await outbox.owe(
        "ftp://127.0.0.1/hook", "http://127.0.0.1:99999/", "hook", "", "//127.0.0.1/", "http:///a"
    )

    reason = "the URL is not an absolute http or https URL"
    await outbox.comes_to("died_at_ms, last_error", [(outbox.clock.now_ms(), reason)] * 6)


class RiggedStore(OutboxStore):
    """A store that fails, or acts after a read, when a test says so: no public door does that."""

    def __init__(self, database: Database) -> None:
        super().__init__(database)
        self.unwritable: list[Exception] = []
        self.unreadable: list[Exception] = []
        self.unlisted: list[Exception] = []
        self.after_read: Callable[[], Awaitable[None]] | None = None

    async def delete_delivered(
        self, messages: Sequence[DueMessage], now_ms: int, answering: Sequence[str]
    ) -> None:
        if self.unwritable:
            raise self.unwritable.pop()
        await super().delete_delivered(messages, now_ms, answering)

    async def next_messages(self, queue: Queue, now_ms: int, limit: int) -> list[DueMessage]:
        if self.unreadable:
            raise self.unreadable.pop()
        found = await super().next_messages(queue, now_ms, limit)
        if self.after_read is not None:
            act, self.after_read = self.after_read, None
            await act()
        return found

    async def pending_queues(self, now_ms: int, after: Queue, limit: int) -> list[PendingQueue]:
        if self.unlisted:
            raise self.unlisted.pop()
        return await super().pending_queues(now_ms, after, limit)


Rigged: TypeAlias = tuple[Outbox, RiggedStore]


@pytest.fixture
async def rigged(start: Start) -> AsyncIterator[Rigged]:
    async with start(make_store=RiggedStore) as outbox:
        store = outbox.dispatcher._store
        assert isinstance(store, RiggedStore)
        yield outbox, store


async def test_a_delivery_that_cannot_be_stored_is_not_repeated_and_messages_that_cannot_be_read_come_later(
    rigged: Rigged, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "_FIRST_PAUSE_SECONDS", 0.01)
    outbox, store = rigged
    store.unwritable = [LookupError("unforeseen"), UnavailableError("the disk is full")]
    await outbox.owe(receiver.url())
    await outbox.comes_to("id", [])

    store.unreadable = [UnavailableError("the database is locked")]
    await outbox.owe(receiver.url(), prefix="later")
    await eventually(lambda: not store.unreadable)
    await outbox.pass_time(5)
    await outbox.comes_to("id", [])
    assert ids_at(receiver) == ["message-0", "later-0"]


async def test_a_message_written_as_its_lane_ends_is_sent(rigged: Rigged, receiver: WebhookReceiver) -> None:
    outbox, store = rigged
    store.after_read = lambda: outbox.owe(receiver.url(), prefix="late")
    await outbox.owe(receiver.url())

    await receiver.got(2)
    assert ids_at(receiver) == ["message-0", "late-0"]


async def test_a_database_that_is_locked_for_a_while_does_not_end_the_sending(
    rigged: Rigged, receiver: WebhookReceiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(AllDestinations, "ticks_to_recount", lambda _: 1)
    outbox, store = rigged
    store.unlisted = [UnavailableError("the database is locked")]
    receiver.script.append(status(500))
    await outbox.owe(receiver.url())
    await outbox.comes_to("attempts", [(1,)])
    await eventually(lambda: not store.unlisted)
    outbox.clock.advance(5)
    await outbox.comes_to("id", [])


# A message that an operator changes is not begun meanwhile, and is not sent as it was read before.


async def drop(outbox: Outbox, row_id: int) -> None:
    """Drop the message of this row, as an operator does."""
    store, message_id = MessageStore(outbox.database), f"message-{row_id - 1}"
    stored = await store.get(row_id, message_id)
    async with outbox.dispatcher.withheld(row_id, Claimant(stored.queue, None, has_failed=False)):
        await store.drop(row_id, message_id)


async def test_a_message_dropped_once_read_is_not_sent(rigged: Rigged, receiver: WebhookReceiver) -> None:
    outbox, store = rigged
    store.after_read = lambda: drop(outbox, 1)
    await outbox.owe(receiver.url("/dropped"), receiver.url("/kept"))

    await outbox.comes_to("id", [])
    assert [got.path for got in receiver.requests] == ["/kept"]


async def test_a_message_dropped_while_waiting_is_not_sent(outbox: Outbox, receiver: WebhookReceiver) -> None:
    receiver.otherwise = hang
    await outbox.owe(*(receiver.url(f"/{number}") for number in range(8)))
    await receiver.got(4)

    await drop(outbox, 8)
    receiver.released.set()

    await outbox.comes_to("id", [])
    assert sorted(got.path for got in receiver.requests) == [f"/{number}" for number in range(7)]


async def test_a_message_is_sent_once_it_is_not_withheld(outbox: Outbox, receiver: WebhookReceiver) -> None:
    queue = Queue(f"http://127.0.0.1:{receiver.port}", "")
    async with outbox.dispatcher.withheld(1, Claimant(queue, None, has_failed=False)):
        await outbox.owe(receiver.url("/withheld"), receiver.url("/free"))
        await outbox.comes_to("message_id", [("message-0",)])

    await outbox.comes_to("id", [])
    assert [got.path for got in receiver.requests] == ["/free", "/withheld"]
