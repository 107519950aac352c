"""The outbox's store on a database file, without a dispatcher."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.outbox import store as outbox_store
from bridge_server.outbox.models import (
    Claimant,
    DueMessage,
    OutboxChanged,
    OutboxCounted,
    OutboxGrew,
    OutgoingMessage,
    PendingQueue,
    Queue,
)
from bridge_server.outbox.store import OutboxStore, enqueue, enqueue_all
from bridge_server.storage.database import Database, Statement, Transaction
from tests.outbox.running import HOOK
from tests.support.schema_databases import ENGINES, SQLITE, schema_database

A, B = "http://a.test:80", "https://b.test:443"
IN_A, IN_B, IN_FCM = Queue(A, ""), Queue(B, ""), Queue("fcm", "")
NEW_IN_A = Claimant(IN_A, None, has_failed=False)
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


async def execute(database: Database, *statements: str) -> None:
    def work() -> Transaction[None]:
        for statement in statements:
            yield Statement(statement)

    await database.transaction(work)


async def write(database: Database, url: str, now_ms: int, message_id: str = "message-1") -> None:
    def work() -> Transaction[None]:
        yield from enqueue(OutgoingMessage(message_id, url, b"{}", HOOK), now_ms)

    await database.transaction(work)


async def test_a_written_message_publishes_the_growth_of_its_queue(
    database: Database, published: list[DomainEvent]
) -> None:
    await write(database, "https://b.test/hook", 5)

    assert published == [OutboxGrew(B, "", None, 1)]


async def test_a_message_is_read_as_it_was_written(database: Database, store: OutboxStore) -> None:
    await write(database, "https://B.test/hook?x=1", 5)

    (due,) = await store.next_messages(IN_B, LATE, 10)

    assert due.message == OutgoingMessage("message-1", "https://B.test/hook?x=1", b"{}", HOOK, lane=B)
    assert (due.attempts, due.created_at_ms, due.due_at_ms) == (0, 5, 5)


async def test_messages_come_by_destination_in_the_order_of_their_time(
    database: Database, store: OutboxStore
) -> None:
    for number, url, now_ms in ((1, A, 30), (2, B, 1), (3, A, 10), (4, A, 20)):
        await write(database, url, now_ms, f"message-{number}")

    first = await store.next_messages(IN_A, LATE, 2)
    backlog = await store.pending_queues(LATE, FIRST, 10)

    assert [due.message.message_id for due in first] == ["message-3", "message-4"]
    assert backlog == [
        PendingQueue(NEW_IN_A, True, None),
        PendingQueue(Claimant(IN_B, None, False), True, None),
    ]


async def owe(database: Database, *messages: OutgoingMessage, now_ms: int = 5) -> None:
    def work() -> Transaction[None]:
        yield from enqueue_all(messages, now_ms)

    await database.transaction(work)


async def test_messages_of_different_subjects_wait_in_different_queues_of_their_destination(
    database: Database, store: OutboxStore, published: list[DomainEvent]
) -> None:
    url = f"{A}/hook"
    about = [("one", "192.0.2.1", "x"), ("two", None, "y"), ("three", "192.0.2.1", "x")]
    await owe(
        database,
        *(
            OutgoingMessage(name, url, b"{}", HOOK, client=client, subject=subject)
            for name, client, subject in about
        ),
        OutgoingMessage("four", url, b"{}", HOOK, device_id="device", subject="x"),
    )

    backlog = await store.pending_queues(LATE, FIRST, 10)
    (one, three) = await store.next_messages(Queue(A, "x"), LATE, 10)

    assert [(pending.claimant.queue.name, pending.claimant.client) for pending in backlog] == [
        ("device", None),
        ("x", "192.0.2.1"),
        ("y", None),
    ]
    assert (one.message.message_id, three.message.message_id) == ("one", "three")
    assert (one.message.client, one.message.subject) == ("192.0.2.1", "x")
    assert published == [
        OutboxGrew(A, "x", "192.0.2.1", 2),
        OutboxGrew(A, "y", None, 1),
        OutboxGrew(A, "device", None, 1),
    ]


async def test_a_channel_sends_everything_in_its_order(database: Database, store: OutboxStore) -> None:
    await owe(database, *(OutgoingMessage(name, "fcm:t", b"{}", HOOK, subject=name) for name in ("b", "a")))

    due = await store.next_messages(IN_FCM, LATE, 10)

    assert [one.message.subject for one in due] == ["b", "a"]


async def test_the_backlog_is_read_in_pages(database: Database, store: OutboxStore) -> None:
    names = [f"{number:03}" for number in range(25)]
    await owe(database, *(OutgoingMessage(name, f"{A}/hook", b"{}", HOOK, subject=name) for name in names))

    seen, after = [], FIRST
    while page := await store.pending_queues(LATE, after, 10):
        seen += [pending.claimant.queue.name for pending in page]
        after = page[-1].claimant.queue

    assert seen == names


async def test_new_messages_come_before_retries(database: Database, store: OutboxStore) -> None:
    for number in range(4):
        await write(database, A, number, f"message-{number}")
    first, second, *_ = await store.next_messages(IN_A, LATE, 4)
    await store.postpone(first, 1, "the receiver answered 500", 0, None)
    await store.postpone(second, LATE + 9, "the receiver answered 500", 0, None)

    due = await store.next_messages(IN_A, LATE, 3)

    assert [one.message.message_id for one in due] == ["message-2", "message-3", "message-0"]
    assert await store.pending_queues(LATE, FIRST, 1) == [PendingQueue(NEW_IN_A, True, LATE + 9)]
    assert await store.next_due_ms(IN_A, LATE) == LATE + 9
    assert await store.next_due_ms(IN_A, LATE + 9) is None


async def test_hosts_that_answer_are_remembered_until_they_do_not_or_are_too_many_or_too_old(
    database: Database, store: OutboxStore
) -> None:
    await write(database, A, 5)
    (due,) = await store.next_messages(IN_A, LATE, 1)
    for number in range(6):
        await store.delete_delivered([], 100 + number, [f"{number}.test"])
    await store.delete_delivered([], 200, ["0.test"])

    await store.postpone(due, 99, "late", 6, "5.test")
    assert await store.sweep(0, 102, 3) > 0

    assert await store.answering_hosts(9) == [("0.test", 200), ("4.test", 104), ("3.test", 103)]
    assert await store.answering_hosts(1) == [("0.test", 200)]


async def test_a_postponed_message_counts_its_attempt(database: Database, store: OutboxStore) -> None:
    await write(database, A, 5)
    (due,) = await store.next_messages(IN_A, LATE, 1)

    for _ in range(2):  # a record that is repeated counts once
        await store.postpone(due, 99, "the receiver answered 500", 6, None)

    (again,) = await store.next_messages(IN_A, LATE, 1)
    assert (again.attempts, again.due_at_ms, again.created_at_ms) == (1, 99, 5)


async def test_a_dead_letter_is_owed_no_longer_and_kept(
    database: Database, store: OutboxStore, published: list[DomainEvent]
) -> None:
    await write(database, A, 5)
    (due,) = await store.next_messages(IN_A, LATE, 1)

    await store.bury(due, 70, "the receiver answered 410", None)

    assert await store.next_messages(IN_A, LATE, 1) == []
    assert await store.pending_queues(LATE, FIRST, 10) == []
    await store.count()
    assert published[-1] == OutboxCounted(pending=0, dead=1)


@pytest.mark.parametrize("database", [SQLITE], indirect=True)  # PostgreSQL gives no id again
async def test_a_late_record_does_not_touch_a_row_that_took_the_id_over(
    database: Database, store: OutboxStore
) -> None:
    await write(database, A, 5, "old")
    (old,) = await store.next_messages(IN_A, LATE, 1)
    await store.delete_delivered([old], 6, [])
    await write(database, A, 6, "new")
    (new,) = await store.next_messages(IN_A, LATE, 1)
    assert new.row_id == old.row_id

    await store.delete_delivered([old], 6, [])
    await store.postpone(old, 99, "late", 7, None)
    await store.bury(old, 99, "late", None)

    assert await store.next_messages(IN_A, LATE, 1) == [new]


async def test_old_dead_letters_are_swept_in_slices(
    database: Database, store: OutboxStore, published: list[DomainEvent]
) -> None:
    def write_dead() -> Transaction[None]:
        for number in range(700):
            yield from enqueue(OutgoingMessage(f"message-{number}", A, b"{}", HOOK), 0)

    await database.transaction(write_dead)
    for number, due in enumerate(await store.next_messages(IN_A, LATE, 700)):
        if number < 650:
            await store.bury(due, 10 if number < 600 else 20, "late", None)

    swept = [await store.sweep(20, 0, 9) for _ in range(3)]

    assert swept == [500, 100, 0]
    await store.count()
    assert published[-1] == OutboxCounted(pending=50, dead=50)


_DEVICES = (
    "INSERT INTO accounts (id, account_key) VALUES (1, 'test:chain:1')",
    """
    INSERT INTO devices (account, device_id, channel, address, created_at_ms)
VALUES (1, 'first', 'fcm', 'fcm:a', 1), (1, 'second', 'fcm', 'fcm:b', 1)
    """,
)
_STATES = "SELECT delivered_at_ms, failed_at_ms, last_error FROM devices ORDER BY id"
_UNTOUCHED = (None, None, None)


@pytest.fixture
async def due(database: Database, store: OutboxStore) -> DueMessage:
    """A message for the first of two devices."""
    await execute(database, *_DEVICES)
    message = OutgoingMessage("first.1", "fcm:a", b"{}", HOOK, "whsec_x", "fcm", "first")
    await database.transaction(lambda: enqueue(message, 5))
    (due,) = await store.next_messages(IN_FCM, LATE, 10)
    return due


async def test_the_lane_the_device_and_the_secret_are_read_as_they_were_written(due: DueMessage) -> None:
    assert due.message == OutgoingMessage("first.1", "fcm:a", b"{}", HOOK, "whsec_x", "fcm", "first")
    assert due.message.destination == "fcm"


async def test_a_delivery_to_a_device_is_recorded_as_its_state(
    database: Database, store: OutboxStore, due: DueMessage
) -> None:
    await store.postpone(due, 99, "it answered 503", 10, None)
    failing = await database.read(_STATES)

    await store.delete_delivered([due], 20, [])

    assert failing == [(None, 10, "it answered 503"), _UNTOUCHED]
    assert await database.read(_STATES) == [(20, 10, None), _UNTOUCHED]


async def test_a_message_that_is_given_up_is_recorded_as_its_devices_state(
    database: Database, store: OutboxStore, due: DueMessage
) -> None:
    await store.bury(due, 30, "it answered 413", None)

    assert await database.read(_STATES) == [(None, 30, "it answered 413"), _UNTOUCHED]


@pytest.mark.parametrize("record", ["delivered", "postponed", "buried"])
async def test_the_device_and_the_message_change_together_or_not_at_all(
    database: Database,
    store: OutboxStore,
    due: DueMessage,
    monkeypatch: pytest.MonkeyPatch,
    record: str,
) -> None:
    for name in ("_DEVICE_REACHED", "_DEVICE_FAILED"):
        monkeypatch.setattr(outbox_store, name, "UPDATE devices SET account = NULL")
    records: dict[str, Callable[[], Awaitable[object]]] = {
        "delivered": lambda: store.delete_delivered([due], 20, []),
        "postponed": lambda: store.postpone(due, 99, "it answered 503", 20, None),
        "buried": lambda: store.bury(due, 20, "it answered 413", None),
    }

    with pytest.raises(Exception, match=r"(?i)not[ -]null|bindings|arguments"):
        await records[record]()

    assert await store.next_messages(IN_FCM, LATE, 10) == [due]
    assert await database.read(_STATES) == [_UNTOUCHED, _UNTOUCHED]


async def test_a_message_for_no_device_changes_none(
    database: Database, store: OutboxStore, due: DueMessage
) -> None:
    await write(database, A, 5)
    (other,) = await store.next_messages(IN_A, LATE, 1)

    await store.postpone(other, 99, "late", 20, None)
    await store.delete_delivered([other], 30, [])

    assert await database.read(_STATES) == [_UNTOUCHED, _UNTOUCHED]


async def test_a_delivery_to_a_deleted_device_is_still_recorded(
    database: Database, store: OutboxStore, due: DueMessage
) -> None:
    await execute(database, "DELETE FROM devices")

    await store.delete_delivered([due], 20, [])

    assert await store.pending_queues(LATE, FIRST, 10) == []
