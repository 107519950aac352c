"""How long notifications are kept: 90 days once they were read, and at most a year."""

from collections.abc import AsyncIterator, Awaitable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import cast

import pytest

from bridge_server.assembly.command_line import CommandServices
from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.events import Events
from bridge_server.kernel.instants import day_of
from bridge_server.kernel.secrets import digest
from bridge_server.kernel.sweeper import Sweep
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.models import Notification, NotifyRequest, Outdated
from bridge_server.notify.service import NotificationLifetimes, Notifications
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import NO_FIGURES, Publisher, ReadFigures, TypeId
from bridge_server.settings.settings import Settings
from bridge_server.storage.database import Row
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.clock import ManualClock
from tests.support.project import NEWS, OFFERS, accounts, operator_beside, subscribe

MS = 0.001
DAY = 86_400
MOST_AT_ONCE = 1_600
READ_KEPT, UNREAD_KEPT = 90 * DAY, 365 * DAY
CONTENT = Notification(TypeId(NEWS), "Title", "Body", None)
ORPHANS = """
SELECT 'delivery' FROM deliveries WHERE sending NOT IN (SELECT id FROM sendings)
UNION ALL SELECT 'sending' FROM sendings WHERE notification NOT IN (SELECT id FROM notifications)
UNION ALL SELECT 'notification' FROM notifications
    WHERE idempotency_key IS NULL AND id NOT IN (SELECT notification FROM sendings)
        AND id NOT IN (SELECT notification FROM missed_accounts)
UNION ALL SELECT 'cover' FROM covered_accounts WHERE notification NOT IN (SELECT id FROM notifications)
"""
EMPTIED = """
SELECT 'sending' FROM sendings WHERE id NOT IN (SELECT sending FROM deliveries)
UNION ALL SELECT 'notification' FROM notifications WHERE idempotency_key IS NOT NULL
    AND id NOT IN (SELECT notification FROM covered_accounts)
"""
"""Sendings and notifications without any row of theirs, which each later slice would read again."""
A, B, C, D = accounts(4)


@dataclass(frozen=True, slots=True)
class Room:
    """The service on a database of its own, without a server that would sweep by itself."""

    clock: ManualClock
    database: SqliteDatabase
    publishing: Notifications
    operator: CommandServices
    publisher: Publisher

    @property
    def project_id(self) -> str:
        return self.publisher.project.project_id

    async def send(
        self,
        *wanted: str,
        notification_id: str | None = None,
        publisher: Publisher | None = None,
        type_id: str = NEWS,
    ) -> None:
        content = replace(CONTENT, type_id=TypeId(type_id))
        keys = {spelled: parse_account(spelled).key for spelled in wanted}
        request = NotifyRequest(content, notification_id, keys)
        assert await self.publishing.notify(publisher or self.publisher, request) == {}

    async def read_by_user(self, spelled: str, sending: int) -> None:
        key, now_ms = parse_account(spelled).key, self.clock.now_ms()
        ((number,),) = await self.database.read("SELECT id FROM accounts WHERE account_key = ?", (key,))
        assert isinstance(number, int)
        assert await InboxStore(self.database).mark_read(number, [sending], now_ms, ReadBy.USER) == 1

    async def slices(self, sweep: Sweep) -> AsyncIterator[int]:
        """How many rows of the database go in each, until nothing is left to do."""
        before = await self.rows()
        while swept := await sweep(self.clock.now_ms()):
            gone, before = before - await self.rows(), await self.rows()
            assert max(swept, gone) <= MOST_AT_ONCE
            yield gone

    async def rows(self) -> int:
        """How many there are in all tables."""
        tables = await self.database.read("SELECT name FROM sqlite_master WHERE type = 'table'")
        return sum([await self.count(str(name)) for (name,) in tables])

    async def count(self, table: str) -> int:
        ((count,),) = await self.database.read(f"SELECT count(*) FROM {table}")
        return cast(int, count)

    async def pass_time(self, seconds: float) -> None:
        """And sweep until nothing is left to do: no slice is large or leaves anything half."""
        self.clock.advance(seconds)
        async for _ in self.slices(self.publishing.sweep):
            assert await self.database.read(ORPHANS) == []

    async def inboxes(self) -> list[Row]:
        """Sending and account of each delivery that is there."""
        return await self.database.read(
            """
            SELECT sending, account_key FROM deliveries JOIN accounts ON accounts.id = deliveries.account
            ORDER BY sending, account_key
            """
        )

    async def counts(self) -> list[int]:
        """How many deliveries, sendings, notifications and covered accounts there are."""
        tables = ("deliveries", "sendings", "notifications", "covered_accounts")
        return [await self.count(table) for table in tables]

    async def figures(self) -> ReadFigures:
        today = day_of(self.clock.now_ms())
        days = await self.operator.projects.figures(self.project_id, 0, today)
        return sum((day.figures for day in days), NO_FIGURES)


@pytest.fixture
async def room(tmp_path: Path) -> AsyncIterator[Room]:
    file, clock = tmp_path / "bridge.sqlite3", ManualClock()
    migrate(file, packaged_migrations())
    database = SqliteDatabase(file, Events())
    limits = SendingLimits(Limit("account", 50, 1_800_000_000), MissedLimits(700))
    lifetimes = NotificationLifetimes(1000 * READ_KEPT, 1000 * UNREAD_KEPT, 1000 * 30 * DAY)
    publishing = Notifications(NotifyStore(database), clock, limits, lifetimes)
    async with operator_beside(Settings(data_dir=file.parent), clock) as operator, database.opened():
        yield Room(clock, database, publishing, operator, await create(operator, "App", A, B, C, D))


async def create(operator: CommandServices, name: str, *subscribed: str) -> Publisher:
    """A project with a type, to which these accounts are subscribed."""
    project, secret = await operator.projects.create(name)
    await operator.projects.add_type(project.project_id, "News", NEWS)
    await subscribe(operator, project.project_id, subscribed)
    return Publisher(project, digest(secret.secret))


def place(sending: int, spelled: str) -> Row:
    return (sending, parse_account(spelled).key)


async def test_read_notification_is_deleted_90_days_later_and_after_a_year_at_most(room: Room) -> None:
    await room.send(A, B)
    room.clock.advance(50 * DAY)
    await room.read_by_user(A, 1)

    await room.pass_time(READ_KEPT - MS)
    assert await room.inboxes() == [place(1, A), place(1, B)]
    await room.pass_time(MS)
    assert await room.inboxes() == [place(1, B)]

    await room.pass_time(UNREAD_KEPT - READ_KEPT - 51 * DAY)
    await room.read_by_user(B, 1)
    await room.pass_time(DAY - MS)
    assert await room.inboxes() == [place(1, B)]
    await room.pass_time(MS)
    assert await room.inboxes() == []
    assert await room.figures() == ReadFigures(sent=2, read=2, bulk_marked=0, lapsed=0)


async def test_notification_marked_in_bulk_goes_90_days_later_and_a_later_one_stays(room: Room) -> None:
    await room.send(A, B)
    await room.pass_time(DAY)
    assert await room.publishing.mark_all_as_read(room.publisher) == 2
    await room.send(A)

    await room.pass_time(READ_KEPT - MS)
    assert len(await room.inboxes()) == 3
    await room.pass_time(MS)

    assert await room.inboxes() == [place(2, A)]
    assert await room.counts() == [1, 1, 1, 0]
    assert await room.figures() == ReadFigures(sent=3, read=0, bulk_marked=2, lapsed=0)


async def test_unread_notification_lapses_after_a_year_and_is_marked_no_more(room: Room) -> None:
    await room.send(A, B)
    await room.read_by_user(A, 1)

    await room.pass_time(UNREAD_KEPT - MS)
    assert await room.inboxes() == [place(1, B)]
    await room.pass_time(MS)

    assert await room.counts() == [0, 0, 0, 0]
    assert await room.figures() == ReadFigures(sent=2, read=1, bulk_marked=0, lapsed=1)
    assert await room.publishing.mark_all_as_read(room.publisher) == 0
    await room.send(A)
    assert await room.publishing.mark_all_as_read(room.publisher) == 1
    assert await room.figures() == ReadFigures(sent=3, read=1, bulk_marked=1, lapsed=1)


async def test_notification_of_another_age_stays(room: Room) -> None:
    for number in range(1, 6):
        await room.send(A, B)
        await room.read_by_user(A, number)
        room.clock.advance(DAY)

    await room.pass_time(READ_KEPT - 3 * DAY)
    after_90_days = await room.inboxes()
    await room.pass_time(UNREAD_KEPT - READ_KEPT)

    assert after_90_days == [
        place(1, B), place(2, B), place(3, B), place(4, A), place(4, B), place(5, A), place(5, B)
    ]  # fmt: skip
    assert await room.inboxes() == [place(4, B), place(5, B)]


async def test_idempotency_keys_and_their_recipients_are_never_deleted(room: Room) -> None:
    await room.send(A, B, notification_id="x")
    await room.send(A)
    request = NotifyRequest(CONTENT, "without recipients", {"abc:x:nobody": "abc:x:nobody"})
    await room.publishing.notify(room.publisher, request)
    await room.pass_time(20 * UNREAD_KEPT)
    assert await room.counts() == [0, 0, 2, 2]

    await room.send(A, B, C, notification_id="x")

    assert [account for _, account in await room.inboxes()] == [parse_account(C).key]


async def test_thousands_go_slice_after_slice_and_leave_nothing_behind(room: Room) -> None:
    everybody = accounts(1_700)
    await subscribe(room.operator, room.project_id, everybody)
    await room.send(*everybody[:1_200])
    await room.send(*everybody[1_200:])
    await room.send(A)
    room.clock.advance(DAY)
    await room.send(A)

    await room.pass_time(UNREAD_KEPT - DAY)

    assert await room.inboxes() == [place(4, A)]
    assert await room.counts() == [1, 1, 1, 0]
    assert await room.figures() == ReadFigures(sent=1_702, read=0, bulk_marked=0, lapsed=1_701)


async def test_lapsed_notifications_count_in_their_own_project_type_and_day(room: Room) -> None:
    await room.operator.projects.add_type(room.project_id, "Offers", OFFERS)
    await subscribe(room.operator, room.project_id, [A, B, C])
    other, today = await create(room.operator, "Other", A, B, C), day_of(room.clock.now_ms())
    await room.send(A, B, C, publisher=other)
    await room.publishing.mark_all_as_read(other)
    await room.send(C, publisher=other)
    for _ in range(2):
        await room.send(A, B, C)
        await room.send(A, B, type_id=OFFERS)
        room.clock.advance(DAY)
    await room.read_by_user(A, 3)

    def sweep(now_ms: int) -> Awaitable[int]:
        return NotifyStore(room.database).sweep(now_ms, Outdated(0, now_ms, 0))

    slices = [gone async for gone in room.slices(sweep)]

    assert await room.inboxes() == []
    assert slices[-1] == 14 + 6 + 6
    assert await room.database.read(
        """
        SELECT projects.name, type_id, day, lapsed FROM daily_figures
        JOIN projects ON projects.id = daily_figures.project
        JOIN notification_types ON notification_types.id = daily_figures.type ORDER BY 1, 2, 3
        """
    ) == [
        ("App", NEWS, today, 2), ("App", NEWS, today + 1, 3),
        ("App", OFFERS, today, 2), ("App", OFFERS, today + 1, 2),
        ("Other", NEWS, today, 1),
    ]  # fmt: skip


async def test_after_a_wrong_clock_nothing_goes_before_its_time_and_nothing_read_lapses(room: Room) -> None:
    await room.send(A, B)
    room.clock.advance(-10 * DAY)
    await room.send(C, D)
    await room.read_by_user(A, 1)
    await room.read_by_user(C, 2)

    for seconds, left in ((UNREAD_KEPT, [place(1, B)]), (10 * DAY - MS, [place(1, B)]), (MS, [])):
        await room.pass_time(seconds)
        assert await room.inboxes() == left

    assert await room.figures() == ReadFigures(sent=4, read=2, bulk_marked=0, lapsed=2)


async def test_a_deleted_project_leaves_nothing_behind(room: Room) -> None:
    everybody = accounts(1_100)
    await subscribe(room.operator, room.project_id, everybody)
    await room.send(A, notification_id="first")
    await room.send(*everybody[:600], notification_id="x")
    await room.send(*everybody[600:])
    other = await create(room.operator, "Other", A)
    await room.send(A, publisher=other)

    await room.operator.projects.delete(room.project_id)
    async for _ in room.slices(room.operator.projects.sweep):
        assert await room.database.read("PRAGMA foreign_key_check") == []
        assert await room.database.read(EMPTIED) == []

    assert await room.inboxes() == [place(4, A)]
    tables = "projects subscriptions type_sets account_buckets daily_figures notifications"
    assert [await room.count(table) for table in tables.split()] == [1] * 6
