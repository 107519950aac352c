"""Counters of a notification agree with the outcomes of its accounts, whatever happened in between."""

import asyncio
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.inbox.models import ReadBy
from bridge_server.inbox.store import InboxStore
from bridge_server.kernel.events import Events
from bridge_server.kernel.secrets import digest
from bridge_server.kernel.token_bucket import Limit
from bridge_server.notify.history import DeliveryOutcome, HistoryStore, OutcomeCursor
from bridge_server.notify.models import Notification, NotifyRequest
from bridge_server.notify.service import NotificationLifetimes, Notifications
from bridge_server.notify.store import MissedLimits, NotifyStore, SendingLimits
from bridge_server.projects.caip10 import parse_account
from bridge_server.projects.models import ProjectId, Publisher, TypeId
from bridge_server.settings.settings import Settings
from bridge_server.storage.migrate import migrate, packaged_migrations
from bridge_server.storage.sqlite import SqliteDatabase
from tests.support.clock import ManualClock
from tests.support.project import NEWS, OFFERS, account, operator_beside, subscribe

YEAR_MS = 365 * 86_400_000
LIMITS = SendingLimits(Limit("account", burst=2, interval_us=60_000_000), MissedLimits(1_000))

ids, types = st.sampled_from([None, "x", "x", "y"]), st.sampled_from([NEWS, NEWS, OFFERS])
calls = st.tuples(
    st.just("notify"), ids, st.lists(st.integers(1, 5), min_size=1, max_size=2, unique=True), types
)
readings = st.tuples(st.sampled_from(["read", "operator reads"]), st.integers(1, 5), st.integers(1, 6))
others = st.tuples(st.sampled_from(["mark all", "mark all", "a minute"]))
histories = st.lists(st.one_of(calls, calls, readings, others), min_size=8, max_size=20)


@given(histories)
def test_figures_follow_from_the_outcomes(history: list[tuple[Any, ...]]) -> None:
    """Of five subscribers the fourth has chosen one type and the fifth the other."""
    asyncio.run(_agree(history))


async def _agree(history: list[tuple[Any, ...]]) -> None:
    with TemporaryDirectory() as directory:
        file, clock = Path(directory) / "bridge.sqlite3", ManualClock()
        migrate(file, packaged_migrations())
        database = SqliteDatabase(file, Events())
        lifetimes = NotificationLifetimes(YEAR_MS, YEAR_MS, YEAR_MS)
        publishing = Notifications(NotifyStore(database), clock, LIMITS, lifetimes)
        async with operator_beside(Settings(data_dir=file.parent), clock) as operator, database.opened():
            project, secret = await operator.projects.create("App", "app")
            for type_id in (NEWS, OFFERS):
                await operator.projects.add_type("app", type_id, type_id)
            await subscribe(operator, "app", [account(each) for each in (1, 2, 3)])
            await subscribe(operator, "app", [account(4)], [NEWS])
            await subscribe(operator, "app", [account(5)], [OFFERS])
            publisher = Publisher(project, digest(secret.secret))
            for step in history:
                await _do(step, publishing, publisher, InboxStore(database), clock)
                await _compare(HistoryStore(database))


async def _do(
    step: tuple[Any, ...],
    publishing: Notifications,
    publisher: Publisher,
    inbox: InboxStore,
    clock: ManualClock,
) -> None:
    match step:
        case "notify", notification_id, wanted, type_id:
            content = Notification(TypeId(type_id), "Title", "Body", None)
            keys = {account(each): parse_account(account(each)).key for each in wanted}
            await publishing.notify(publisher, NotifyRequest(content, notification_id, keys))
        case "read" | "operator reads" as who, number, sending:
            by = ReadBy.USER if who == "read" else ReadBy.BULK
            reader = await inbox.number_of(parse_account(account(number)).key)
            await inbox.mark_read(reader, [sending], clock.now_ms(), by)
        case ("mark all",):
            await publishing.mark_all_as_read(publisher)
        case _:
            clock.advance(60)


async def _compare(history: HistoryStore) -> None:
    project_id = ProjectId("app")
    for past in await history.notifications(project_id, None, 100):
        _, page = await history.outcomes(project_id, past.number, None, OutcomeCursor(), 100)
        counted = Counter(each.outcome for each in page.outcomes)
        figures = past.figures
        reached = sum(counted[each] for each in DeliveryOutcome) - figures.rate_limited
        assert figures.sent == reached - figures.type_not_subscribed
        assert figures.read == counted[DeliveryOutcome.READ]
        assert figures.bulk_marked == counted[DeliveryOutcome.BULK_MARKED]
        assert figures.rate_limited == counted[DeliveryOutcome.RATE_LIMITED]
        assert figures.type_not_subscribed == counted[DeliveryOutcome.TYPE_NOT_SUBSCRIBED]
