"""The outbox's statements on both engines, without a dispatcher."""

from collections.abc import AsyncIterator, Awaitable, Callable
from itertools import chain
from pathlib import Path

import pytest

from bridge_server.kernel.events import DomainEvent, Events
from bridge_server.outbox import store as outbox_store
from bridge_server.outbox.message_store import MessageStore, oldest_due_ms
from bridge_server.outbox.models import (
    Claimant,
    DueMessage,
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
from tests.support.rows import each_row

A, B = "http://a.test:80", "https://b.test:443"
IN_A, IN_B, IN_FCM = Queue(A, ""), Queue(B, ""), Queue("fcm", "")
NEW_IN_A = Claimant(IN_A, None, has_failed=False)
FIRST = Queue("", "")
LATE = 1_000


@pytest.fixture
def published() -> list[DomainEvent]:
    """The outbox's events."""
    return []


@pytest.fixture
def events(published: list[DomainEvent]) -> Events:
    events = Events()
    for event_type in (OutboxGrew, OutboxChanged, OutboxCounted):
        events.subscribe(event_type, published.append)
    return events


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
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


async def owe(database: Database, *messages: OutgoingMessage, now_ms: int = 5) -> None:
    await database.transaction(lambda: enqueue_all(messages, now_ms))


async def write(database: Database, url: str, now_ms: int, message_id: str = "message-1") -> None:
    await owe(database, OutgoingMessage(message_id, url, b"{}", HOOK), now_ms=now_ms)


async def test_messages_come_by_destination_in_their_order(database: Database, store: OutboxStore) -> None:
    for number, url, now_ms in ((1, A, 30), (2, B, 1), (3, A, 10), (4, A, 20)):
        await write(database, url, now_ms, f"message-{number}")

    first = await store.next_messages(IN_A, LATE, 2)
    backlog = await store.pending_queues(LATE, FIRST, 10)

    assert [due.message.message_id for due in first] == ["message-3", "message-4"]
    assert backlog == [
        PendingQueue(NEW_IN_A, True, None),
        PendingQueue(Claimant(IN_B, None, False), True, None),
    ]


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
    await owe(database, *(OutgoingMessage(f"message-{n}", A, b"{}", HOOK) for n in range(700)), now_ms=0)
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


async def test_a_message_is_read_as_it_was_written(due: DueMessage) -> None:
    assert due.message == OutgoingMessage("first.1", "fcm:a", b"{}", HOOK, "whsec_x", "fcm", "first")
    assert due.message.destination == "fcm"
    assert (due.attempts, due.created_at_ms, due.due_at_ms) == (0, 5, 5)


@pytest.mark.parametrize("record", ["delivered", "postponed", "buried"])
async def test_the_device_and_the_message_change_together_or_not_at_all(
    database: Database, store: OutboxStore, due: DueMessage, monkeypatch: pytest.MonkeyPatch, record: str
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


async def test_a_delivery_to_a_deleted_device_is_still_recorded(
    database: Database, store: OutboxStore, due: DueMessage
) -> None:
    await execute(database, "DELETE FROM devices")

    await store.delete_delivered([due], 20, [])

    assert await store.pending_queues(LATE, FIRST, 10) == []


HOSTS = ("a.example", "b.example", "b.example")
OF_B = "https://b.example:443"
NOW_MS = 1_000
MANY = 1_203


async def owe_mixture(database: Database, count: int) -> None:
    """So many messages: two of three for OF_B; dead, waiting and due in turn."""

    def work() -> Transaction[None]:
        for number in range(count):
            url = f"https://{HOSTS[number % 3]}/hook"
            yield from enqueue(OutgoingMessage(f"m-{number}", url, b"{}", Purpose(f"p{number % 2}")), NOW_MS)
        yield Statement(
            "UPDATE outbox SET next_attempt_at_ms = NULL, died_at_ms = 500 + id % 7 WHERE id % 4 IN (0, 1)"
        )
        yield Statement("UPDATE outbox SET next_attempt_at_ms = 2000 WHERE id % 4 = 2")

    await database.transaction(work)


async def all_pages(store: MessageStore, wanted: MessageFilter, limit: int) -> list[StoredMessage]:
    pages: list[list[StoredMessage]] = []
    after: MessagePlace | None = None
    while True:
        page = await store.page(wanted, after, limit, NOW_MS)
        assert len(page.messages) <= limit
        pages.append(list(page.messages))
        if page.rest is None:
            return list(chain.from_iterable(pages))
        after = page.rest


@pytest.fixture
async def pending(database: Database) -> Database:
    """A database with 40 messages."""
    await owe_mixture(database, 40)
    return database


@each_row(("limit", "rows_per_page"), [(1, 10_000), (5, 1), (5, 7), (100, 7), (100, 10_000)])
@each_row(
    "wanted",
    [
        MessageFilter(),
        *(MessageFilter(state) for state in MessageState),
        MessageFilter(MessageState.DEAD, destination=OF_B),
        MessageFilter(purpose="p1", destination=OF_B),
        MessageFilter(destination="https://none.example:443"),
    ],
)
async def test_pages_have_every_wanted_message_once(
    pending: Database, wanted: MessageFilter, limit: int, rows_per_page: int
) -> None:
    whole = await all_pages(MessageStore(pending), MessageFilter(), 100)

    found = await all_pages(MessageStore(pending, rows_per_page), wanted, limit)

    expected = {
        each.row_id
        for each in whole
        if wanted.state in (None, each.state(NOW_MS))
        and wanted.purpose in (None, each.purpose)
        and wanted.destination in (None, each.queue.destination)
    }
    assert len(whole) == 40
    assert len(found) == len(expected)
    assert {each.row_id for each in found} == expected
    order = [(each.died_at_ms if wanted.state is MessageState.DEAD else 0, each.row_id) for each in found]
    assert order == sorted(order, reverse=True)


@pytest.mark.parametrize("is_retry", [True, False])
async def test_the_dead_ones_of_a_destination_are_changed_in_slices(
    database: Database, events: Events, is_retry: bool
) -> None:
    await owe_mixture(database, MANY)
    store = MessageStore(database)
    dead = MessageFilter(MessageState.DEAD)
    before = await all_pages(store, dead, 1000)
    own = [each for each in before if each.queue.destination == OF_B]
    heard: list[OutboxChanged] = []
    retried: list[OutboxGrew] = []
    events.subscribe(OutboxChanged, heard.append)
    events.subscribe(OutboxGrew, retried.append)

    counts: list[int] = []
    after: MessagePlace | None = None
    while not counts or after is not None:
        changed = await (
            store.retry_dead(OF_B, after, NOW_MS, NOW_MS)
            if is_retry
            else store.drop_dead(OF_B, after, NOW_MS)
        )
        counts.append(changed.changed)
        after = changed.rest

    assert sum(counts) == len(own) == -sum(event.dead for event in heard)
    assert max(counts) <= 500
    assert sum(event.pending for event in heard) == (len(own) if is_retry else 0)
    assert bool(retried) is is_retry
    assert await all_pages(store, dead, 1000) == [each for each in before if each not in own]
    left = await all_pages(store, MessageFilter(), 1000)
    assert len(left) == (MANY if is_retry else MANY - len(own))


async def test_a_row_that_was_given_to_another_message_is_not_changed(database: Database) -> None:
    await owe_mixture(database, 1)
    store = MessageStore(database)

    for change in (store.retry(1, "m-1", NOW_MS), store.drop(1, "m-1"), store.whole(1, "m-1")):
        with pytest.raises(MessageNotFoundError):
            await change
    assert (await store.whole(1, "m-0")).message.body == b"{}"


async def test_the_oldest_of_all_queues_counts(database: Database) -> None:
    assert await oldest_due_ms(database) is None
    for host, due_at_ms in (("b", 9_000), ("b", 9_000), ("c", 4_000), ("a", 6_000)):
        await write(database, f"https://{host}.test/", due_at_ms)

    assert await oldest_due_ms(database) == 4_000
