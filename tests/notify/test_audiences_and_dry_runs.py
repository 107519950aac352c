"""Calls beyond the contract: audiences call by call, and dry runs that change nothing."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import pytest_asyncio
from hypothesis import given
from hypothesis import strategies as st

from tests.support.asking import METRICS_TOKEN, Answer
from tests.support.engines import database_of, settings_over
from tests.support.project import (
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    create_app,
    look,
    opened_app,
    project_with_subscribers,
)
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server, server_process

CONTENT = {"type": NEWS, "title": "Title", "body": "Body"}
_DELIVERED = "SELECT count(*), count(DISTINCT account) FROM deliveries"


async def send(app: App, audience: Any = "all", query: str = "", **more: Any) -> Answer:
    fields = {"notification": CONTENT, "notification_id": "walk", "audience": audience, **more}
    return await app.ask("POST", app.paths["audience"] + query, fields)


async def walk(app: App, audience: Any = "all", **more: Any) -> list[Any]:
    """The answers of a whole walk."""
    answers = [(await send(app, audience, **more)).json]
    while (after := answers[-1]["next"]) is not None:
        answers.append((await send(app, audience, after=after, **more)).json)
    return answers


async def test_a_walk_reaches_every_subscriber_in_calls_of_500(app: App) -> None:
    await app.subscribe(*accounts(1_100))
    await app.subscribe(account(7), types=[OFFERS])

    answers = await walk(app)

    assert [len(each["sent"]) + len(each["failed"]) for each in answers] == [500, 500, 100]
    assert [each["next"] for each in answers] == [account(500), account(1_000), None]
    assert [each["total"] for each in answers] == [1_100, None, None]
    assert answers[0]["failed"] == [{"account": account(7), "reason": "type_not_subscribed"}]
    assert look(app.server, _DELIVERED) == [(1_099, 1_099)]


async def test_an_audience_is_a_type_or_accounts(app: App) -> None:
    await app.subscribe(account(1))
    await app.subscribe(account(2), types=[OFFERS])

    of_type = (await send(app, {"type": NEWS})).json
    named = (await send(app, {"accounts": [account(2), account(3)]}, notification_id=None)).json

    assert of_type == {"sent": [account(1)], "failed": [], "not_found": [], "next": None, "total": 1}
    assert [each["account"] for each in named["failed"]] == [account(2)]
    assert (named["not_found"], named["next"], named["total"]) == ([account(3)], None, 2)


async def test_a_walk_that_begins_again_sends_to_nobody_twice(app: App) -> None:
    await app.subscribe(*accounts(600))
    await send(app)  # and its answer is lost

    again = await walk(app, notification={**CONTENT, "title": "Another"})

    assert sum(len(each["sent"]) for each in again) == 600
    assert look(app.server, _DELIVERED) == [(600, 600)]
    assert look(app.server, "SELECT title FROM notifications") == [("Title",)]


async def test_calls_for_audiences_and_for_accounts_share_one_limit(app: App) -> None:
    await app.subscribe(account(1))

    statuses = [(await send(app)).status for _ in range(10)]
    statuses += [(await app.notify([account(1)])).status for _ in range(10)]
    refused = [await send(app), await app.notify([account(1)])]
    dry = await send(app, "all", "?dry_run=1")

    assert statuses == [200] * 20
    assert {each.headers["RateLimit-Policy"] for each in refused} == {'"notify-calls";q=20;w=10'}
    assert [each.status for each in refused] == [429, 429]
    assert dry.status == 200


async def test_a_dry_run_needs_no_id_and_changes_nothing(app: App) -> None:
    await app.subscribe(*accounts(3))

    dry = await send(app, "all", "?dry_run=1", notification_id=None)

    assert dry.json["sent"] == accounts(3)
    assert look(app.server, "SELECT count(*) FROM notifications") == [(0,)]


@each_row(
    ("more", "pointer"),
    [
        ({"notification_id": None}, "#/notification_id"),
        ({"notification": {**CONTENT, "title": ""}}, "#/notification/title"),
        ({"audience": "everybody"}, "#/audience"),
        ({"audience": {"type": "weather"}}, "#/audience/type"),
        ({"audience": {"accounts": []}}, "#/audience"),
        ({"audience": {"accounts": ["nonsense"]}}, "#/audience/accounts/0"),
        ({"audience": {"accounts": ["test:chain:one"] * 501}}, "#/audience/accounts"),
        ({"after": "x" * 256}, "#/after"),
    ],
)
async def test_bad_input_is_named_and_sends_nothing(app: App, more: Mapping[str, Any], pointer: str) -> None:
    await app.subscribe(account(1))

    problem = (await send(app, **more)).problem(400)

    assert [each["pointer"] for each in problem["errors"]] == [pointer]
    assert "Shape" not in str(problem["errors"])  # a name of this program
    assert look(app.server, _DELIVERED) == [(0, 0)]


async def test_a_wrong_type_is_refused_without_any_subscriber(app: App) -> None:
    problem = (await send(app, notification={**CONTENT, "type": "weather"})).problem(400)

    assert problem["errors"][0]["pointer"] == "#/notification/type"


async def test_accounts_beside_a_known_call_are_read_as_before(app: App) -> None:
    """The contract's call knows no audience, and ignores a member of this name."""
    await app.subscribe(*accounts(2))

    answer = await app.post({"notification": CONTENT, "accounts": [account(1)], "audience": "all"})

    assert answer.json == {"sent": [account(1)], "failed": [], "not_found": []}


async def test_a_server_that_is_killed_between_calls_and_within_one_sends_to_everybody_once(
    tmp_path: Path,
) -> None:
    settings = settings_over(tmp_path / "data")
    with server_process(tmp_path / "data") as process:
        secret = await project_with_subscribers(settings, 2_000)
        after: str | None = ""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
            for call in range(12):
                fields = {
                    "notification": CONTENT,
                    "notification_id": "walk",
                    "audience": "all",
                    "after": after,
                }
                answering = asyncio.create_task(_sent(client, process.url, secret, fields))
                if call % 3 == 0:  # the server dies with the call on its way
                    await asyncio.wait([answering], timeout=0.01 * (call % 4))
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


async def _sent(client: aiohttp.ClientSession, url: str, secret: str, fields: Mapping[str, Any]) -> Any:
    headers = {"Authorization": f"Bearer {secret}"}
    async with client.post(f"{url}/app/notify/audience", json=fields, headers=headers) as response:
        assert response.status == 200
        return await response.json()


async def test_a_test_may_list_the_subscribers_as_often_as_it_likes(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", test=True) as server, opened_app(server) as app:
        assert {(await app.listing()).status for _ in range(20)} == {200}


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


async def test_a_dry_run_has_a_limit_of_its_own(app: App) -> None:
    await app.subscribe(A)

    passed = [(await ask_dry(app, a_call([A]))).status for _ in range(20)]
    refused = await ask_dry(app, a_call([A]))

    assert passed == [200] * 20
    refused.problem(429)
    assert refused.headers["RateLimit-Policy"].startswith('"notify-dry-runs";q=20;')
    sent = await app.notify([A])
    assert sent.headers["RateLimit"].startswith('"notify-calls";r=19;')


@each_row("query", ["?dry_run=yes", "?dry_run", "?dry_run=1&dry_run=0", "?dryRun=1", "?DRY-RUN=1"])
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
async def test_the_call_after_a_dry_run_answers_the_very_same(frugal: App, runs: list[Any]) -> None:
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
