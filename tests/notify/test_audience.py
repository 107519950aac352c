"""An app's backend sends to its subscribers call by call, without a listing of them."""

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import aiohttp

from bridge_server.kernel.clock import SystemClock
from tests.support.asking import Answer
from tests.support.engines import database_of, settings_over
from tests.support.project import (
    NEWS,
    OFFERS,
    App,
    account,
    accounts,
    look,
    opened_app,
    operator_beside,
    subscribe,
)
from tests.support.rows import each_row
from tests.support.server import running_server, server_process

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


async def test_the_limit_of_each_account_holds(app: App) -> None:
    await app.subscribe(account(1))
    await app.operator.projects.limit_accounts(app.project_id, per_hour=1, burst=1)
    await send(app)

    answer = (await send(app, notification_id="another")).json

    assert answer["failed"] == [{"account": account(1), "reason": "rate_limited", "retry_after": 3_600}]


async def test_a_dry_run_needs_no_id_and_changes_nothing(app: App) -> None:
    await app.subscribe(*accounts(3))

    dry = await send(app, "all", "?dry_run=1", notification_id=None)

    assert dry.json["sent"] == accounts(3)
    assert look(app.server, "SELECT count(*) FROM notifications") == [(0,)]


@each_row(
    ("more", "pointer"),
    [
        ({"notification_id": None}, "#/notification_id"),
        ({"notification": []}, "#/notification"),
        ({"notification": {**CONTENT, "type": "weather"}}, "#/notification/type"),
        ({"notification": {**CONTENT, "title": ""}}, "#/notification/title"),
        ({"notification": {**CONTENT, "url": "javascript:x"}}, "#/notification/url"),
        ({"audience": "everybody"}, "#/audience"),
        ({"audience": {"type": "weather"}}, "#/audience/type"),
        ({"audience": {"accounts": []}}, "#/audience"),
        ({"audience": {"accounts": ["nonsense"]}}, "#/audience/accounts/0"),
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
        async with operator_beside(settings, SystemClock()) as operator:
            _, secret = await operator.projects.create("App", "app")
            await operator.projects.add_type("app", "News", NEWS)
            await subscribe(operator, "app", accounts(2_000))
        after: str | None = ""
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as client:
            for call in range(12):
                fields = {
                    "notification": CONTENT,
                    "notification_id": "walk",
                    "audience": "all",
                    "after": after,
                }
                answering = asyncio.create_task(_sent(client, process.url, secret.secret, fields))
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
