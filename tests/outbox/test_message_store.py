"""Stored messages page by page and in slices, whatever share of the rows is wanted."""

from collections.abc import AsyncIterator
from itertools import chain
from pathlib import Path

import pytest

from bridge_server.kernel.events import Events
from bridge_server.outbox.message_store import MessageStore
from bridge_server.outbox.models import (
    MessageFilter,
    MessageNotFoundError,
    MessagePlace,
    MessageState,
    OutboxChanged,
    OutboxGrew,
    OutgoingMessage,
    Purpose,
    StoredMessage,
)
from bridge_server.outbox.store import enqueue
from bridge_server.storage.database import Database, Statement, Transaction
from tests.support.rows import each_row
from tests.support.schema_databases import ENGINES, schema_database

HOSTS = ("a.example", "b.example", "b.example")
B = "https://b.example:443"
NOW_MS = 1_000
MANY = 1_203


@pytest.fixture
def events() -> Events:
    return Events()


@pytest.fixture(params=ENGINES)
async def database(request: pytest.FixtureRequest, tmp_path: Path, events: Events) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, events) as database:
        yield database


async def owe(database: Database, count: int) -> None:
    """So many messages: two of three for B; dead, waiting and due in turn."""

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
    await owe(database, 40)
    return database


@each_row(("limit", "rows_per_page"), [(1, 10_000), (5, 1), (5, 7), (100, 7), (100, 10_000)])
@each_row(
    "wanted",
    [
        MessageFilter(),
        *(MessageFilter(state) for state in MessageState),
        MessageFilter(MessageState.DEAD, destination=B),
        MessageFilter(purpose="p1", destination=B),
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
    await owe(database, MANY)
    store = MessageStore(database)
    dead = MessageFilter(MessageState.DEAD)
    before = await all_pages(store, dead, 1000)
    own = [each for each in before if each.queue.destination == B]
    heard: list[OutboxChanged] = []
    retried: list[OutboxGrew] = []
    events.subscribe(OutboxChanged, heard.append)
    events.subscribe(OutboxGrew, retried.append)

    counts: list[int] = []
    after: MessagePlace | None = None
    while not counts or after is not None:
        changed = await (
            store.retry_dead(B, after, NOW_MS, NOW_MS) if is_retry else store.drop_dead(B, after, NOW_MS)
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
    await owe(database, 1)
    store = MessageStore(database)

    for change in (store.retry(1, "m-1", NOW_MS), store.drop(1, "m-1"), store.whole(1, "m-1")):
        with pytest.raises(MessageNotFoundError):
            await change
    assert (await store.whole(1, "m-0")).message.body == b"{}"
