"""The outbox's statements on both engines, without a dispatcher.

White-box: no client can make one statement of a transaction fail.
"""

from collections.abc import AsyncIterator
from itertools import product
from pathlib import Path

import pytest

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.outbox import store as outbox_store
from bridge_server.outbox.message_store import MessageStore, oldest_due_ms
from bridge_server.outbox.models import (
    Claimant,
    MessageFilter,
    MessageNotFoundError,
    MessagePlace,
    MessageState,
    OutboxChanged,
    OutboxCounted,
    OutboxGrew,
    OutgoingMessage,
    PendingQueue,
    Purpose,
    Queue,
    StoredMessage,
)
from bridge_server.outbox.store import OutboxStore, enqueue, enqueue_all
from bridge_server.storage.database import Database, Statement, Transaction
from tests.outbox.running import HOOK
from tests.support.engines import ENGINES, SQLITE, schema_database

A, B = "http://a.test:80", "https://b.test:443"
IN_A, IN_B, IN_FCM = Queue(A, ""), Queue(B, ""), Queue("fcm", "")
FIRST = Queue("", "")
LATE = 1_000


@pytest.fixture
def published() -> list[DomainEvent]:
    """The outbox's events."""
    return []


@pytest.fixture(params=ENGINES)
async def database(
    request: pytest.FixtureRequest, tmp_path: Path, published: list[DomainEvent]
) -> AsyncIterator[Database]:
    events = Events()
    for event_type in (OutboxGrew, OutboxChanged, OutboxCounted):
        events.subscribe(event_type, published.append)
    async with schema_database(request, tmp_path, events) as database:
        yield database


@pytest.fixture
def store(database: Database) -> OutboxStore:
    return OutboxStore(database)


async def owe(store: OutboxStore, *messages: OutgoingMessage, now_ms: int = 5) -> None:
    await store.database.transaction(lambda: enqueue_all(messages, now_ms))


async def write(store: OutboxStore, url: str, now_ms: int = 5, message_id: str = "message-1") -> None:
    await owe(store, OutgoingMessage(message_id, url, b"{}", HOOK), now_ms=now_ms)


async def next_ids(store: OutboxStore, queue: Queue, limit: int = 10) -> list[str]:
    return [due.message.message_id for due in await store.next_messages(queue, LATE, limit)]


def waiting(queue: Queue, retry_at_ms: int | None = None) -> PendingQueue:
    """A queue with a new message, and perhaps with one that failed."""
    return PendingQueue(Claimant(queue, None, has_failed=False), True, retry_at_ms)


async def test_messages_come_by_destination_in_their_order(store: OutboxStore) -> None:
    assert await oldest_due_ms(store.database) is None
    for number, url, now_ms in ((1, A, 30), (2, B, 1), (3, A, 10), (4, A, 20)):
        await write(store, url, now_ms, f"message-{number}")
    await owe(store, *(OutgoingMessage(name, "fcm:t", b"{}", HOOK, subject=name) for name in ("b", "a")))

    assert await next_ids(store, IN_A, 2) == ["message-3", "message-4"]
    assert await next_ids(store, IN_FCM) == ["b", "a"], "a channel has one queue"
    assert await store.pending_queues(LATE, FIRST, 10) == [waiting(IN_FCM), waiting(IN_A), waiting(IN_B)]
    assert await oldest_due_ms(store.database) == 1, "the oldest of all queues"


async def test_each_subject_has_a_queue(store: OutboxStore, published: list[DomainEvent]) -> None:
    url = f"{A}/hook"
    about = [("one", "192.0.2.1", "x"), ("two", None, "y"), ("three", "192.0.2.1", "x")]
    messages = [
        OutgoingMessage(name, url, b"{}", HOOK, client=client, subject=subject)
        for name, client, subject in about
    ]
    await owe(store, *messages, OutgoingMessage("four", url, b"{}", HOOK, device_id="device", subject="x"))
    await write(store, B)

    backlog, after = [], FIRST
    while page := await store.pending_queues(LATE, after, 2):
        backlog += [(pending.claimant.queue, pending.claimant.client) for pending in page]
        after = page[-1].claimant.queue
    (one, three) = await store.next_messages(Queue(A, "x"), LATE, 10)

    assert backlog == [
        (Queue(A, "device"), None),
        (Queue(A, "x"), "192.0.2.1"),
        (Queue(A, "y"), None),
        (IN_B, None),
    ]
    assert (one.message.message_id, three.message.message_id) == ("one", "three")
    assert (one.message.client, one.message.subject) == ("192.0.2.1", "x")
    assert published == [
        OutboxGrew(A, "x", "192.0.2.1", 2),
        OutboxGrew(A, "y", None, 1),
        OutboxGrew(A, "device", None, 1),
        OutboxGrew(B, "", None, 1),
    ]


async def test_new_messages_come_before_retries_and_a_repeated_record_counts_once(store: OutboxStore) -> None:
    for number in range(4):
        await write(store, A, number, f"message-{number}")
    first, second, *_ = await store.next_messages(IN_A, LATE, 4)
    for _ in range(2):
        await store.postpone(first, 1, "the receiver answered 500", 0, None)
    await store.postpone(second, LATE + 9, "the receiver answered 500", 0, None)

    assert await next_ids(store, IN_A, 3) == ["message-2", "message-3", "message-0"]
    again = (await store.next_messages(IN_A, LATE, 3))[2]
    assert (again.attempts, again.due_at_ms, again.created_at_ms) == (1, 1, 0)
    assert await store.pending_queues(LATE, FIRST, 1) == [waiting(IN_A, LATE + 9)]
    assert [await store.next_due_ms(IN_A, moment) for moment in (LATE, LATE + 9)] == [LATE + 9, None]
    for _ in range(5):  # all that is due was tried then, some of it twice
        (due,) = await store.next_messages(IN_A, LATE, 1)
        await store.postpone(due, 1, "the receiver answered 500", 0, None)
    (pending,) = await store.pending_queues(LATE, FIRST, 1)
    assert pending.claimant.has_failed is True


async def test_a_late_outcome_does_not_revive_a_dead_letter(store: OutboxStore) -> None:
    await write(store, A)
    (due,) = await store.next_messages(IN_A, LATE, 1)
    await store.bury(due, 6, "gone", None)
    await store.postpone(due, 7, "late", 6, None)

    assert await store.next_messages(IN_A, LATE, 1) == []
    stock = await store.stock()
    assert (stock.due, stock.dead) == (0, 1)


async def test_hosts_that_answer_are_remembered_unless_too_many_or_too_old(store: OutboxStore) -> None:
    await write(store, A)
    (due,) = await store.next_messages(IN_A, LATE, 1)
    for number in range(6):
        await store.delete_delivered([], 100 + number, [f"{number}.test"])
    await store.delete_delivered([], 200, ["0.test"])

    await store.postpone(due, 99, "late", 6, "5.test")
    assert await store.sweep(0, 102, 3) > 0

    assert await store.answering_hosts(9) == [("0.test", 200), ("4.test", 104), ("3.test", 103)]
    assert await store.answering_hosts(1) == [("0.test", 200)]


@pytest.mark.parametrize("database", [SQLITE], indirect=True)  # PostgreSQL gives no id again
async def test_a_late_record_does_not_touch_a_row_that_took_the_id_over(store: OutboxStore) -> None:
    await write(store, A, 5, "old")
    (old,) = await store.next_messages(IN_A, LATE, 1)
    await store.delete_delivered([old], 6, [])
    await write(store, A, 6, "new")
    (new,) = await store.next_messages(IN_A, LATE, 1)
    assert new.row_id == old.row_id

    await store.delete_delivered([old], 6, [])
    await store.postpone(old, 99, "late", 7, None)
    await store.bury(old, 99, "late", None)

    assert await store.next_messages(IN_A, LATE, 1) == [new]


async def test_old_dead_letters_are_swept_in_slices(store: OutboxStore, published: list[DomainEvent]) -> None:
    await owe(store, *(OutgoingMessage(f"message-{n}", A, b"{}", HOOK) for n in range(650)))
    await write(store, B)
    for number, due in enumerate(await store.next_messages(IN_A, LATE, 700)):
        await store.bury(due, 10 if number < 600 else 20, "late", None)

    assert await store.next_messages(IN_A, LATE, 1) == []
    assert await store.pending_queues(LATE, FIRST, 10) == [waiting(IN_B)]
    assert [await store.sweep(20, 0, 9) for _ in range(3)] == [500, 100, 0]
    await store.count()
    assert published[-1] == OutboxCounted(pending=1, dead=50)


_ACCOUNT = "INSERT INTO accounts (id, account_key) VALUES (1, 'test:chain:1')"
_DEVICES = """
INSERT INTO devices (account, device_id, channel, address, created_at_ms)
VALUES (1, 'first', 'fcm', 'fcm:a', 1), (1, 'second', 'fcm', 'fcm:b', 1)
"""


async def execute(database: Database, *statements: str) -> None:
    def work() -> Transaction[None]:
        for statement in statements:
            yield Statement(statement)

    await database.transaction(work)


async def test_a_device_and_its_message_change_together_or_not_at_all(
    database: Database, store: OutboxStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    await execute(database, _ACCOUNT, _DEVICES)
    message = OutgoingMessage("first.1", "fcm:a", b"{}", HOOK, "whsec_x", "fcm", "first")
    await database.transaction(lambda: enqueue(message, 5))
    (due,) = await store.next_messages(IN_FCM, LATE, 10)
    assert (due.message, due.message.destination) == (message, "fcm")
    assert (due.attempts, due.created_at_ms, due.due_at_ms) == (0, 5, 5)

    with monkeypatch.context() as patch:
        for name in ("_DEVICE_REACHED", "_DEVICE_FAILED"):
            patch.setattr(outbox_store, name, "UPDATE devices SET account = NULL")
        for record in (
            store.delete_delivered([due], 20, []),
            store.postpone(due, 99, "it answered 503", 20, None),
            store.bury(due, 20, "it answered 413", None),
        ):
            with pytest.raises(Exception, match=r"(?i)not[ -]null|bindings|arguments"):
                await record
            assert await store.next_messages(IN_FCM, LATE, 10) == [due], record
            states = await database.read("SELECT delivered_at_ms, failed_at_ms, last_error FROM devices")
            assert states == [(None, None, None)] * 2, record

    await execute(database, "DELETE FROM devices")
    await store.delete_delivered([due], 20, [])
    assert await store.pending_queues(LATE, FIRST, 10) == [], "the delivery to a deleted device is recorded"


NOW_MS = 1_000
MANY = 1_203


async def owe_mixture(database: Database, count: int) -> None:
    """So many messages: two of three for B; dead, waiting and due in turn."""

    def work() -> Transaction[None]:
        for number in range(count):
            url = (A, B, B)[number % 3]
            yield from enqueue(OutgoingMessage(f"m-{number}", url, b"{}", Purpose(f"p{number % 2}")), NOW_MS)
        yield Statement(
            "UPDATE outbox SET next_attempt_at_ms = NULL, died_at_ms = 500 + id % 7 WHERE id % 4 IN (0, 1)"
        )
        yield Statement("UPDATE outbox SET next_attempt_at_ms = 2000 WHERE id % 4 = 2")

    await database.transaction(work)


async def all_pages(store: MessageStore, wanted: MessageFilter, limit: int = 1_000) -> list[StoredMessage]:
    found: list[StoredMessage] = []
    after: MessagePlace | None = None
    while True:
        page = await store.page(wanted, after, limit, NOW_MS)
        assert len(page.messages) <= limit
        found += page.messages
        if page.rest is None:
            return found
        after = page.rest


async def test_pages_have_every_wanted_message_once_in_order(database: Database) -> None:
    await owe_mixture(database, 40)
    whole = await all_pages(MessageStore(database), MessageFilter())
    assert len(whole) == 40
    filters = [
        MessageFilter(),
        *(MessageFilter(state) for state in MessageState),
        MessageFilter(MessageState.DEAD, destination=B),
        MessageFilter(purpose="p1", destination=B),
        MessageFilter(destination="https://none.test:443"),
    ]
    sizes = [(1, 10_000), (5, 1), (5, 7), (100, 7), (100, 10_000)]

    for wanted, (limit, rows_per_page) in product(filters, sizes):
        expected = [
            each
            for each in whole
            if wanted.state in (None, each.state(NOW_MS))
            and wanted.purpose in (None, each.purpose)
            and wanted.destination in (None, each.queue.destination)
        ]
        if wanted.state is MessageState.DEAD:
            expected.sort(key=lambda each: (each.died_at_ms or 0, each.row_id), reverse=True)
        found = await all_pages(MessageStore(database, rows_per_page), wanted, limit)
        assert found == expected, (wanted, limit, rows_per_page)


@pytest.mark.parametrize("is_retry", [True, False])
async def test_dead_messages_of_a_destination_are_changed_in_slices(
    database: Database, published: list[DomainEvent], is_retry: bool
) -> None:
    await owe_mixture(database, MANY)
    store, dead = MessageStore(database), MessageFilter(MessageState.DEAD)
    before = await all_pages(store, dead)
    others = [each for each in before if each.queue.destination != B]
    own = len(before) - len(others)
    published.clear()

    counts: list[int] = []
    after: MessagePlace | None = None
    while not counts or after is not None:
        changed = await (
            store.retry_dead(B, after, NOW_MS, NOW_MS) if is_retry else store.drop_dead(B, after, NOW_MS)
        )
        counts.append(changed.changed)
        after = changed.rest

    heard = [event for event in published if isinstance(event, OutboxChanged)]
    assert sum(counts) == own == -sum(event.dead for event in heard)
    assert max(counts) <= 500
    assert sum(event.pending for event in heard) == (own if is_retry else 0)
    assert any(isinstance(event, OutboxGrew) for event in published) is is_retry
    assert await all_pages(store, dead) == others
    assert len(await all_pages(store, MessageFilter())) == (MANY if is_retry else MANY - own)


async def test_a_row_that_was_given_to_another_message_is_not_changed(database: Database) -> None:
    await owe_mixture(database, 1)
    store = MessageStore(database)

    for change in (store.retry(1, "m-1", NOW_MS), store.drop(1, "m-1"), store.whole(1, "m-1")):
        with pytest.raises(MessageNotFoundError):
            await change
    assert (await store.whole(1, "m-0")).message.body == b"{}"
