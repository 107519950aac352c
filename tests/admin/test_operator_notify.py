"""The operator sends: to accounts, to the subscribers of a type, to all of them, call by call."""

from typing import Any

import pytest

from tests.support.admin_client import AdminClient, plain_account
from tests.support.asking import Answer
from tests.support.engines import database_of
from tests.support.rows import each_row

NOTIFY = "/admin/projects/app/notify"
CONTENT = {"type": "news", "title": "Title", "body": "Body"}
NOTHING: dict[str, Any] = {"sent": [], "failed": [], "not_found": [], "next": None, "total": 2}


async def send(admin: AdminClient, audience: Any, query: str = "", **more: Any) -> Answer:
    fields = {"notification": CONTENT, "notification_id": "walk", "audience": audience, **more}
    return await admin.post(NOTIFY + query, fields)


def subscribe_crowd(admin: AdminClient, count: int, like: str) -> list[str]:
    """So many more subscribers with the types of this one; returns their account ids in order."""
    crowd = [f"test:crowd:{number:08d}" for number in range(count)]
    with database_of(admin.server.settings) as database:
        database.executemany("INSERT INTO accounts (account_key) VALUES (?)", [(each,) for each in crowd])
        database.execute(
            """
            INSERT INTO subscriptions (project, account_key, account, account_id, type_set, subscribed_at_ms)
            SELECT model.project, accounts.account_key, accounts.id, accounts.account_key, model.type_set, 0
            FROM subscriptions AS model CROSS JOIN accounts ON accounts.account_key LIKE 'test:crowd:%'
            WHERE model.account_key = ?
            """,
            (like,),
        )
        database.execute(
            "UPDATE type_sets SET subscribers = subscribers + ?"
            " WHERE id = (SELECT type_set FROM subscriptions WHERE account_key = ?)",
            (count, like),
        )
    return crowd


def inboxes(admin: AdminClient) -> list[tuple[Any, ...]]:
    """How many deliveries each account has that has any."""
    with database_of(admin.server.settings) as database:
        return database.execute("SELECT account, count(*) FROM deliveries GROUP BY account")


@pytest.fixture(autouse=True)
async def project(admin: AdminClient) -> None:
    """A project with two subscribers: the first has chosen everything, the second only deals."""
    await admin.create("app", "news", "deals")
    await admin.subscribe("app", plain_account(1))
    await admin.subscribe("app", plain_account(2), ["deals"])


async def test_a_notification_goes_to_the_accounts_that_are_named(admin: AdminClient) -> None:
    wanted = [plain_account(number) for number in (1, 2, 3)]

    answer = await send(admin, {"accounts": wanted}, notification_id=None)

    assert answer.json == {
        "sent": wanted[:1],
        "failed": [{"account": wanted[1], "reason": "type_not_subscribed"}],
        "not_found": wanted[2:],
        "next": None,
        "total": 3,
    }
    assert inboxes(admin) == [(1, 1)]


@each_row(
    ("audience", "sent", "failed"),
    [
        ("all", [plain_account(1)], [plain_account(2)]),
        ({"type": "news"}, [plain_account(1)], []),
        ({"type": "deals"}, [plain_account(1)], [plain_account(2)]),
    ],
)
async def test_a_notification_goes_to_the_subscribers_that_are_meant(
    admin: AdminClient, audience: Any, sent: list[str], failed: list[str]
) -> None:
    answer = (await send(admin, audience)).json

    assert answer["sent"] == sent
    assert [one["account"] for one in answer["failed"]] == failed
    assert answer["next"] is None


async def test_a_dry_run_of_every_audience_answers_the_same_and_changes_nothing(admin: AdminClient) -> None:
    subscribe_crowd(admin, 600, plain_account(1))
    for audience in ("all", {"type": "deals"}, {"accounts": [plain_account(1)]}):
        dry = await send(admin, audience, "?dry_run=1", notification_id=None)
        assert inboxes(admin) == []
        assert (await admin.get("/admin/projects/app/notifications")).json["notifications"] == []
        assert dry.status == 200

    dry = await send(admin, "all", "?dry_run=1")

    assert (await send(admin, "all")).body == dry.body


async def test_a_walk_that_is_begun_again_reaches_everybody_once(admin: AdminClient) -> None:
    await admin.subscribe("app", "test:chain:zzz")
    crowd = subscribe_crowd(admin, 1_100, plain_account(1))
    await admin.put("/admin/projects/app/account-limit", {"per_hour": 1, "burst": 1})

    first = (await send(admin, {"type": "news"})).json
    assert len(first["sent"]) == 500
    await send(admin, {"type": "news"}, after=first["next"])  # and its answer is lost
    again = (await send(admin, {"type": "news"})).json
    after: str | None = again["next"]
    calls = 1
    while after is not None:
        answer = (await send(admin, {"type": "news"}, after=after)).json
        assert answer["failed"] == answer["not_found"] == []
        after, calls = answer["next"], calls + 1

    assert again == first
    assert calls == 3
    assert {count for _, count in inboxes(admin)} == {1}
    assert len(inboxes(admin)) == len(crowd) + 2
    (shown,) = (await admin.get("/admin/projects/app/notifications")).json["notifications"]
    assert (shown["figures"]["sent"], shown["figures"]["rate_limited"]) == (len(crowd) + 2, 0)


async def test_few_subscribers_of_a_type_among_many_are_found_stretch_by_stretch(admin: AdminClient) -> None:
    crowd = subscribe_crowd(admin, 5_100, plain_account(2))  # they have chosen deals only
    await admin.subscribe("app", crowd[-1])

    first = (await send(admin, {"type": "news"})).json
    second = (await send(admin, {"type": "news"}, after=first["next"])).json

    assert (first["sent"], first["next"]) == ([plain_account(1)], crowd[4_997])
    assert (second["sent"], second["next"]) == ([crowd[-1]], None)


async def test_the_limits_of_accounts_hold(admin: AdminClient) -> None:
    await admin.put("/admin/projects/app/account-limit", {"per_hour": 1, "burst": 1})
    await send(admin, {"type": "news"})

    answer = await send(admin, {"type": "news"}, notification_id="another")

    failed = {"account": plain_account(1), "reason": "rate_limited", "retry_after": 3_600}
    assert answer.json == {**NOTHING, "failed": [failed], "total": 1}


async def test_after_the_last_subscriber_there_is_nobody(admin: AdminClient) -> None:
    assert (await send(admin, "all", after=plain_account(2))).json == {**NOTHING, "total": None}


@each_row(
    ("fields", "place"),
    [
        ({"audience": None}, "#/audience"),
        ({"audience": "everybody"}, "#/audience"),
        ({"audience": {}}, "#/audience"),
        ({"audience": {"accounts": []}}, "#/audience"),
        ({"audience": {"accounts": [plain_account(1)], "type": "news"}}, "#/audience"),
        ({"audience": {"type": 1}}, "#/audience"),
        ({"audience": {"type": "none"}}, "#/audience/type"),
        ({"audience": {"accounts": ["nobody"]}}, "#/audience/accounts/0"),
        ({"audience": {"accounts": [1]}}, "#/audience/accounts"),
        ({"audience": {"accounts": [plain_account(1)] * 501}}, "#/audience/accounts"),
        ({"audience": "all", "notification_id": None}, "#/notification_id"),
        ({"audience": "all", "notificationId": "x"}, "#/notificationId"),
        ({"audience": "all", "after": 1}, "#/after"),
        ({"audience": "all", "notification": {**CONTENT, "type": "none"}}, "#/notification/type"),
        ({"audience": "all", "notification": {**CONTENT, "title": ""}}, "#/notification/title"),
    ],
)
async def test_a_faulty_request_is_named_and_nothing_is_sent(
    admin: AdminClient, fields: dict[str, Any], place: str
) -> None:
    problem = (await send(admin, **{"audience": "all", **fields})).problem(400)

    assert place in [error["pointer"] for error in problem["errors"]]
    assert inboxes(admin) == []
    assert (await admin.get("/admin/projects/app/notifications")).json["notifications"] == []


@each_row("query", ["?dry_run=please", "?dry-run=1"])
async def test_a_parameter_that_may_mean_a_dry_run_is_refused(admin: AdminClient, query: str) -> None:
    (await send(admin, "all", query)).problem(400)

    assert inboxes(admin) == []
