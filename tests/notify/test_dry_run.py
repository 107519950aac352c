"""A dry run answers what the call would answer now and changes nothing; figures agree with outcomes."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
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
from tests.support.asking import Answer
from tests.support.clock import ManualClock
from tests.support.engines import database_of
from tests.support.figures import METRICS_TOKEN
from tests.support.project import NEWS, OFFERS, App, account, accounts, opened_app, operator_beside, subscribe
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server

A, B, C = accounts(3)
DRY_RUN = "?dry_run=1"
NO_SWEEPING = 86_400


async def ask_dry(app: App, fields: Any, query: str = DRY_RUN) -> Answer:
    return await app.ask("POST", f"{app.paths['notify']}{query}", fields)


def a_call(wanted: list[str], notification_id: str | None = None, type_id: str = NEWS) -> dict[str, Any]:
    content = {"type": type_id, "title": "Title", "body": "Body"}
    return {"notification": content, "accounts": wanted, "notification_id": notification_id}


def everything(server: RunningServer) -> dict[str, list[Any]]:
    """Every row of the database but those of the limits on calls."""
    with database_of(server.settings) as database:
        names = [name for name in database.tables() if name != "buckets"]
        return {name: sorted(database.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


def add_device(app: App, spelled: str) -> None:
    """A webhook that would be called for each notification to the account."""
    with database_of(app.server.settings) as database:
        database.execute(
            "INSERT INTO devices (device_id, account, channel, address, created_at_ms) SELECT 'device', id,"
            " 'webhook', 'http://127.0.0.1:9/', 0 FROM accounts WHERE account_key LIKE ?",
            (f"%{spelled[-40:]}",),
        )


@pytest.fixture
async def quiet(tmp_path: Path) -> AsyncIterator[App]:
    """A project on a server that does not sweep, so that rows change by calls alone."""
    async with (
        running_server(tmp_path, sweep_interval=NO_SWEEPING, metrics_token=METRICS_TOKEN) as server,
        opened_app(server) as app,
    ):
        yield app


async def test_a_dry_run_answers_every_list_and_changes_nothing(quiet: App) -> None:
    await quiet.subscribe(A, B)
    await quiet.subscribe(C, types=[OFFERS])
    for _ in range(50):
        await quiet.notify([B])
        quiet.server.clock.advance(0.5)
    add_device(quiet, A)
    before = everything(quiet.server)
    call = a_call([A, B, C, account(9)], "once")

    dry = await ask_dry(quiet, call)

    assert everything(quiet.server) == before
    assert dry.json["sent"] == [A]
    assert [(failed["account"], failed["reason"]) for failed in dry.json["failed"]] == [
        (B, "rate_limited"),
        (C, "type_not_subscribed"),
    ]
    assert dry.json["not_found"] == [account(9)]
    assert (await quiet.post(call)).json == dry.json
    assert len(everything(quiet.server)["outbox"]) == 1


async def test_a_dry_run_of_a_repeat_goes_by_the_first_call(quiet: App) -> None:
    await quiet.subscribe(A)
    await quiet.subscribe(B, types=[OFFERS])
    await quiet.post(a_call([A], "once"))
    before = everything(quiet.server)

    dry = await ask_dry(quiet, a_call([A, B], "once", OFFERS))

    assert dry.json == {
        "sent": [A],
        "failed": [{"account": B, "reason": "type_not_subscribed"}],
        "not_found": [],
    }
    assert everything(quiet.server) == before


async def test_a_dry_run_has_a_limit_of_its_own(app: App) -> None:
    await app.subscribe(A)

    passed = [(await ask_dry(app, a_call([A]))).status for _ in range(20)]
    refused = await ask_dry(app, a_call([A]))

    assert passed == [200] * 20
    refused.problem(429)
    assert refused.headers["RateLimit-Policy"].startswith('"notify-dry-runs";q=20;')
    sent = await app.notify([A])
    assert sent.headers["RateLimit"].startswith('"notify-calls";r=19;')


@each_row(
    "query",
    [
        "?dry_run=yes", "?dry_run", "?dry_run=", "?dry_run=1&dry_run=0", "?dryRun=1", "?dry-run=1",
        "?DRY_RUN=1",
    ],
)  # fmt: skip
async def test_a_parameter_that_may_mean_a_dry_run_is_refused(app: App, query: str) -> None:
    await app.subscribe(A)

    problem = (await ask_dry(app, a_call([A]), query)).problem(400)

    assert "dry_run" in problem["detail"]
    assert everything(app.server)["deliveries"] == []


@pytest.mark.parametrize("query", ["?dry_run=0", "?dry_run=false", "?other=1"])
async def test_a_call_that_is_no_dry_run_is_done(app: App, query: str) -> None:
    await app.subscribe(A)

    assert (await ask_dry(app, a_call([A]), query)).json["sent"] == [A]

    assert len(everything(app.server)["deliveries"]) == 1


async def test_a_dry_run_refuses_what_the_call_would_refuse(app: App) -> None:
    unknown = a_call([A], type_id="none")

    dry, real = await ask_dry(app, unknown), await app.post(unknown)

    assert dry.problem(400)["errors"] == real.problem(400)["errors"]
    (await ask_dry(app, {"accounts": [A]})).problem(400)


steps = st.lists(
    st.tuples(
        st.sampled_from([NEWS, OFFERS]),
        st.sampled_from([None, "x", "y"]),
        st.lists(st.integers(1, 6), min_size=1, max_size=6),
        st.integers(0, 4_000),
    ),
    min_size=1,
    max_size=8,
)


@given(runs=st.lists(steps, min_size=1, max_size=3))
def test_the_call_after_a_dry_run_answers_the_very_same(runs: list[Any]) -> None:
    """Accounts 1 and 2 choose everything, 3 and 4 one type each, 5 and 6 nothing. Buckets hold 2 tokens."""
    asyncio.run(_agree(runs))


async def _agree(runs: list[Any]) -> None:
    with TemporaryDirectory() as directory:
        async with (
            running_server(Path(directory), sweep_interval=NO_SWEEPING, account_burst=2) as server,
            opened_app(server) as app,
        ):
            await app.subscribe(account(1), account(2))
            await app.subscribe(account(3), types=[NEWS])
            await app.subscribe(account(4), types=[OFFERS])
            for number, run in enumerate(runs):
                for type_id, notification_id, wanted, seconds in run:
                    server.clock.advance(seconds + 1)
                    key = None if notification_id is None else f"{notification_id} {number}"
                    call = a_call([account(each) for each in wanted], key, type_id)
                    before = everything(server)
                    dry = await ask_dry(app, call)
                    assert everything(server) == before
                    assert (await app.post(call)).body == dry.body


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
    asyncio.run(_figures_agree(history))


async def _figures_agree(history: list[tuple[Any, ...]]) -> None:
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
