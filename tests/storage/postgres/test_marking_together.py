"""Two processes count in the same rows, in whatever order, and never wait for each other in a circle."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.models import Notification, NotifyRequest
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.projects.caip10 import Account
from bridge_server.projects.models import IdAmong, NewSubscription, ProjectId, TypeId
from bridge_server.projects.store import NotificationTypeStore, ProjectStore
from bridge_server.projects.subscriptions import SubscriptionStore
from bridge_server.storage.postgres.database import PostgresDatabase
from tests.support.eventually import eventually
from tests.support.postgres import connected, needs_postgres

pytestmark = needs_postgres

PROJECTS = (ProjectId("p1"), ProjectId("p2"))
READERS = {"a1": "a1", "a2": "a2", "a3": "a3", "a4": "a4"}
LIMITS = SendingLimits(Limit("account", 100, 1), MissedLimits(0))
NOW_MS = 1_800_000_000_000
WAITING = """
SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
"""


def news(_: object) -> TypeId:
    return TypeId("news")


def _no_message(*_: object) -> OutgoingMessage:
    raise AssertionError("the project has no webhook")


async def make_projects(database: PostgresDatabase) -> None:
    """Projects that have sent a notification to every reader."""
    id_of_type: IdAmong = news
    for number, project in enumerate(PROJECTS):
        await ProjectStore(database).create([project], "Shop", bytes([number]) * 32, 1)
        await NotificationTypeStore(database).add_type(project, id_of_type, "News", 1, 1)
        await subscribe(database, project, *READERS)
        await send(database, project, *READERS)


async def subscribe(database: PostgresDatabase, project: ProjectId, *accounts: str) -> None:
    new = [NewSubscription(Account(name, name), None) for name in accounts]
    await SubscriptionStore(database).subscribe(project, new, 1, _no_message)


async def send(database: PostgresDatabase, project: ProjectId, *accounts: str) -> None:
    """Send one notification to the accounts that it has not reached."""
    request = NotifyRequest(
        Notification(TypeId("news"), "Title", "Body", None), "first", {name: name for name in accounts}
    )
    await NotifyStore(database).send(project, request, LIMITS, NOW_MS * 1_000, lambda _, __: [])


async def received(database: PostgresDatabase, account: str, project: ProjectId) -> tuple[int, int]:
    """The numbers of the account, and of the sending that it got from the project."""
    rows = await database.read(
        "SELECT accounts.id, sendings.id FROM accounts, sendings JOIN projects ON projects.id = project"
        " WHERE account_key = ? AND project_id = ?",
        (account, project),
    )
    ((number, sending),) = rows
    return number, sending


def mark(database: PostgresDatabase, delivery: tuple[int, int]) -> asyncio.Task[int]:
    """Mark it as read."""
    account, sending = delivery
    return asyncio.ensure_future(InboxStore(database).mark_read(account, [sending], NOW_MS, ReadBy.USER))


@asynccontextmanager
async def held_rows(database: PostgresDatabase) -> AsyncIterator[Callable[[int], Awaitable[None]]]:
    """Have whoever counts wait; gives a function that waits until so many do."""
    async with connected(database.url) as holder, connected(database.url) as watching, holder.transaction():
        await holder.execute("SELECT 1 FROM daily_figures FOR UPDATE")

        async def so_many_wait(count: int) -> None:
            async def wait() -> bool:
                waiting: int = await watching.fetchval(WAITING)
                return waiting >= count

            await eventually(wait)

        yield so_many_wait


async def test_readers_of_shared_projects(processes: Sequence[PostgresDatabase]) -> None:
    first, second = processes
    await make_projects(first)

    first_two = [await received(first, name, p) for name, p in zip(("a1", "a2"), PROJECTS, strict=True)]
    others = [await received(first, name, p) for name, p in zip(("a3", "a4"), PROJECTS[::-1], strict=True)]

    async with held_rows(first) as so_many_wait:
        marking = [mark(first, delivery) for delivery in first_two]
        await so_many_wait(1)
        marking += [mark(second, delivery) for delivery in others]
        await so_many_wait(2)
    assert await asyncio.gather(*marking) == [1, 1, 1, 1]

    assert await first.read("SELECT read, sent FROM daily_figures") == [(2, 4), (2, 4)]
    assert await first.read("SELECT read FROM notifications") == [(2,), (2,)]
    assert [process.figures()["runs_again"] for process in processes] == [0, 0]


async def test_a_reader_and_a_notifier(processes: Sequence[PostgresDatabase]) -> None:
    reading, sending = processes
    await make_projects(reading)
    await subscribe(reading, PROJECTS[0], "a5")

    delivery = await received(reading, "a1", PROJECTS[0])

    async with held_rows(reading) as so_many_wait:
        marking = mark(reading, delivery)
        await so_many_wait(1)
        sending_more = asyncio.create_task(send(sending, PROJECTS[0], "a5"))
        await so_many_wait(2)
    await asyncio.gather(marking, sending_more)

    assert await reading.read("SELECT read, sent FROM daily_figures ORDER BY project") == [(1, 5), (0, 4)]
    assert [process.figures()["runs_again"] for process in processes] == [0, 0]
