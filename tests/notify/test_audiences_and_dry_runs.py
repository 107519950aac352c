"""Calls beyond the contract: audiences call by call, and dry runs that change nothing."""

import asyncio
from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import METRICS_TOKEN, Answer, pointers
from tests.support.engines import database_of, settings_over
from tests.support.project import (
    NEWS,
    OFFERS,
    App,
    a_notification,
    account,
    accounts,
    create_app,
    execute,
    look,
    opened_app,
    project_with_subscribers,
)
from tests.support.server import RunningServer, running_server, server_process
from tests.support.waiting import eventually, turns

A, B, C = accounts(3)
DRY_RUN = "?dry_run=1"
NO_SWEEPING = 86_400
_DELIVERED = "SELECT count(*), count(DISTINCT account) FROM deliveries"


async def send(app: App, audience: Any = "all", query: str = "", **more: Any) -> Answer:
    fields = {"notification": a_notification(), "notification_id": "walk", "audience": audience, **more}
    return await app.ask("POST", app.paths["audience"] + query, fields)


async def test_a_walk_that_begins_again_reaches_every_subscriber_once_in_calls_of_500(app: App) -> None:
    await app.subscribe(*accounts(1_100))
    await app.subscribe(account(7), types=[OFFERS])
    await send(app)  # and its answer is lost

    answers: list[Any] = []
    after: str | None = ""
    while after is not None:
        answers.append((await send(app, after=after, notification=a_notification(title="Another"))).json)
        after = answers[-1]["next"]

    assert [len(each["sent"]) + len(each["failed"]) for each in answers] == [500, 500, 100]
    assert [each["next"] for each in answers] == [account(500), account(1_000), None]
    assert [each["total"] for each in answers] == [1_100, None, None]
    assert answers[0]["failed"] == [{"account": account(7), "reason": "type_not_subscribed"}]
    assert look(app.server, _DELIVERED) == [(1_099, 1_099)]
    assert look(app.server, "SELECT title FROM notifications") == [("Title",)]


async def test_an_audience_is_a_type_or_accounts(app: App) -> None:
    await app.subscribe(A)
    await app.subscribe(B, types=[OFFERS])

    of_type = (await send(app, {"type": NEWS})).json
    named = (await send(app, {"accounts": [B, C]}, notification_id=None)).json
    of_the_contract = await app.post({**a_call([A]), "audience": "all"})

    assert of_type == {"sent": [A], "failed": [], "not_found": [], "next": None, "total": 1}
    assert [each["account"] for each in named["failed"]] == [B]
    assert (named["not_found"], named["next"], named["total"]) == ([C], None, 2)
    assert of_the_contract.json == {"sent": [A], "failed": [], "not_found": []}, "it knows no audience"


async def test_audiences_and_accounts_share_one_limit_and_dry_runs_have_another(app: App) -> None:
    await app.subscribe(A)

    dry = [(await ask_dry(app, a_call([A]))).status for _ in range(19)]
    statuses = [(await send(app)).status for _ in range(10)]
    statuses += [(await app.notify([A])).status for _ in range(10)]
    refused = [await send(app), await app.notify([A])]
    dry.append((await send(app, "all", DRY_RUN)).status)
    refused_dry = await ask_dry(app, a_call([A]))

    assert dry == statuses == [200] * 20
    assert {each.headers["RateLimit-Policy"] for each in refused} == {'"notify-calls";q=20;w=10'}
    assert [each.status for each in (*refused, refused_dry)] == [429] * 3
    assert refused_dry.headers["RateLimit-Policy"].startswith('"notify-dry-runs";q=20;')


async def test_a_dry_run_needs_no_id_and_changes_nothing(app: App) -> None:
    await app.subscribe(A, B, C)
    assert (await send(app, "all", DRY_RUN, notification_id=None)).json["sent"] == [A, B, C]
    assert look(app.server, "SELECT count(*) FROM notifications") == [(0,)]


async def test_bad_input_is_named_and_sends_nothing(app: App) -> None:
    faults: list[tuple[dict[str, Any], str]] = [
        ({"notification": a_notification(type="weather")}, "#/notification/type"),
        ({"notification_id": None}, "#/notification_id"),
        ({"notification": a_notification(title="")}, "#/notification/title"),
        ({"audience": "everybody"}, "#/audience"),
        ({"audience": {"type": "weather"}}, "#/audience/type"),
        ({"audience": {"accounts": []}}, "#/audience"),
        ({"audience": {"accounts": ["nonsense"]}}, "#/audience/accounts/0"),
        ({"audience": {"accounts": ["test:chain:one"] * 501}}, "#/audience/accounts"),
        ({"after": "x" * 256}, "#/after"),
    ]

    for number, (more, pointer) in enumerate(faults):
        problem = (await send(app, **more)).problem(400)
        assert pointers(problem) == [pointer]
        assert "Shape" not in str(problem["errors"])  # a name of this program
        if number == 0:  # a wrong type is refused without any subscriber
            await app.subscribe(A)

    assert look(app.server, _DELIVERED) == [(0, 0)]


async def test_a_server_that_is_killed_on_a_walk_sends_to_everybody_once(tmp_path: Path) -> None:
    settings = settings_over(tmp_path / "data")
    with server_process(tmp_path / "data") as process:
        headers = {"Authorization": f"Bearer {await project_with_subscribers(settings, 2_000)}"}
        after: str | None = ""

        async def answer_of_one_call() -> Any:
            body = {"notification": a_notification(), "notification_id": "walk", "audience": "all"}
            url, fields = f"{process.url}/app/notify/audience", {**body, "after": after}
            async with client.post(url, json=fields, headers=headers) as response:
                assert response.status == 200
                return await response.json()

        def is_stored(page: int) -> bool:
            """Whether something beyond so many pages is."""
            with database_of(settings) as database:
                return bool(database.execute(_DELIVERED)[0][0] > 500 * page)

        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
            for call in range(12):
                answering = asyncio.create_task(answer_of_one_call())
                if call % 3 == 0:  # the server dies with the call on its way, or once some of it is stored
                    await (eventually(partial(is_stored, call // 3)) if call % 2 else turns())
                    process.kill()
                    await asyncio.gather(answering, return_exceptions=True)
                    process.start()
                    continue
                answer = await answering
                if call % 3 == 1:  # the server dies with the answer on its way
                    process.kill()
                    process.start()
                    continue
                after = answer["next"]

    assert after is None
    with database_of(settings) as database:
        assert database.execute(_DELIVERED) == [(2_000, 2_000)]


async def test_a_test_may_list_the_subscribers_as_often_as_it_likes(app: App) -> None:
    assert {(await app.listing()).status for _ in range(20)} == {200}


async def ask_dry(app: App, fields: Any, query: str = DRY_RUN) -> Answer:
    return await app.ask("POST", f"{app.paths['notify']}{query}", fields)


def a_call(wanted: list[str], notification_id: str | None = None, type_id: str = NEWS) -> dict[str, Any]:
    content = a_notification(type=type_id)
    return {"notification": content, "accounts": wanted, "notification_id": notification_id}


def everything(server: RunningServer) -> dict[str, list[Any]]:
    """Every row of the database but the limits on calls."""
    with database_of(server.settings) as database:
        names = [name for name in database.tables() if name != "buckets"]
        return {name: sorted(database.execute(f"SELECT * FROM {name}"), key=repr) for name in names}


async def test_a_dry_run_answers_as_the_call_and_changes_nothing(tmp_path: Path) -> None:
    async with (
        running_server(tmp_path, sweep_interval=NO_SWEEPING, metrics_token=METRICS_TOKEN) as server,
        opened_app(server) as app,
    ):
        await app.subscribe(A, B)
        await app.subscribe(C, types=[OFFERS])
        for _ in range(50):
            await app.notify([B])
            server.clock.advance(0.5)
        execute(
            server,
            "INSERT INTO devices (device_id, account, channel, address, created_at_ms) SELECT 'device', id,"
            " 'webhook', 'http://127.0.0.1:9/', 0 FROM accounts WHERE account_key LIKE ?",
            f"%{A[-40:]}",
        )
        before = everything(server)
        call = a_call([A, B, C, account(9)], "once")

        dry = await ask_dry(app, call)

        assert everything(server) == before
        assert dry.json["sent"] == [A]
        assert [(failed["account"], failed["reason"]) for failed in dry.json["failed"]] == [
            (B, "rate_limited"),
            (C, "type_not_subscribed"),
        ]
        assert dry.json["not_found"] == [account(9)]
        assert (await app.post(call)).json == dry.json
        assert len(everything(server)["outbox"]) == 1
        for refused in (a_call([A], type_id="none"), {"accounts": [A]}):
            told = (await ask_dry(app, refused)).problem(400)["errors"]
            assert told == (await app.post(refused)).problem(400)["errors"]


async def test_a_parameter_that_may_mean_a_dry_run_is_refused_and_others_are_not(app: App) -> None:
    await app.subscribe(A)

    for query in ("?dry_run=yes", "?dry_run", "?dry_run=1&dry_run=0", "?dryRun=1", "?DRY-RUN=1"):
        assert "dry_run" in (await ask_dry(app, a_call([A]), query)).problem(400)["detail"]
    assert everything(app.server)["deliveries"] == []

    for query in ("?dry_run=0", "?dry_run=false", "?other=1"):
        assert (await ask_dry(app, a_call([A]), query)).json["sent"] == [A]
    assert len(everything(app.server)["deliveries"]) == 3


steps = st.lists(
    st.tuples(
        st.sampled_from([NEWS, OFFERS]),
        st.sampled_from([None, "x", "y"]),
        st.lists(st.integers(1, 6), min_size=1, max_size=6),
        st.integers(0, 4_000),
    ),
    min_size=1,
    max_size=6,
)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def frugal(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[App]:
    """A server whose buckets hold two tokens, and which does not sweep."""
    data_dir = tmp_path_factory.mktemp("frugal") / "data"
    async with (
        running_server(data_dir, test=True, sweep_interval=NO_SWEEPING, account_burst=2) as server,
        opened_app(server) as app,
    ):
        yield app


@pytest.mark.asyncio(loop_scope="module")
@given(runs=st.lists(steps, min_size=1, max_size=2))
async def test_the_call_after_a_dry_run_answers_as_it_did(frugal: App, runs: list[Any]) -> None:
    """Accounts 1 and 2 choose everything, 3 and 4 one type each, 5 and 6 nothing."""
    await frugal.server.reset()
    app = await create_app(frugal.server, frugal.operator)
    await app.subscribe(account(1), account(2))
    await app.subscribe(account(3), types=[NEWS])
    await app.subscribe(account(4), types=[OFFERS])
    for number, run in enumerate(runs):
        for step, (type_id, notification_id, wanted, seconds) in enumerate(run, 1):
            app.server.clock.advance(seconds + 1)
            key = None if notification_id is None else f"{notification_id} {number}"
            call = a_call([account(each) for each in wanted], key, type_id)
            is_compared = step == len(run)  # reading every row is most of what an example costs
            before = everything(app.server) if is_compared else None
            dry = await ask_dry(app, call)
            assert not is_compared or everything(app.server) == before
            assert (await app.post(call)).body == dry.body
