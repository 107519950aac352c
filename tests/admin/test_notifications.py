"""Notifications of a project: sent by the operator, and what became of each account."""

from pathlib import Path
from typing import Any

import pytest

from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient, plain_account
from tests.support.asking import Answer, ask
from tests.support.console_client import ConsoleClient, subscribe_crowd
from tests.support.engines import database_of
from tests.support.server import running_server
from tests.support.waiting import eventually

SENT = "/admin/projects/app/notifications"
NOW = "2027-01-15T08:00:00.000Z"

SOME = [plain_account(number) for number in range(6)]
CONTENT = {"type": "news", "title": "Title", "body": "Body"}
NOTHING: dict[str, Any] = {"sent": [], "failed": [], "not_found": [], "next": None, "total": 2}


def figures(sent: int, **more: Any) -> dict[str, Any]:
    counts = {"sent": sent, "read": 0, "bulk_marked": 0, "rate_limited": 0, "type_not_subscribed": 0}
    return {**counts, "read_rate": 0.0 if sent else None, **more}


@pytest.fixture
async def secret(admin: AdminClient) -> str:
    """The secret of a project with six subscribers, of whom the last two have not chosen news."""
    secret = await admin.create("app", "news", "deals")
    await admin.put("/admin/projects/app/account-limit", {"per_hour": 1, "burst": 1})
    for each in SOME[:4]:
        await admin.subscribe("app", each)
    for each in SOME[4:]:
        await admin.subscribe("app", each, ["deals"])
    return secret


async def notifications(admin: AdminClient) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = (await admin.get(SENT)).json["notifications"]
    return found


async def outcomes(admin: AdminClient, number: int) -> dict[str, str]:
    """The outcome of each account, in the order of the answer."""
    shown = (await admin.get(f"{SENT}/{number}")).json
    return {entry["account"]: entry["outcome"] for entry in shown["accounts"]}


@pytest.mark.own_server
async def test_they_are_listed_and_shown_with_missed_accounts_first(admin: AdminClient, secret: str) -> None:
    await admin.create("other", "news")
    await admin.notify("app", secret, "deals", SOME[0], notification_id="first")
    admin.clock.advance(60)
    await admin.notify("app", secret, "news", *SOME[:2], SOME[4], "test:chain:nobody")

    page = (await admin.get(SENT)).json
    first = (await admin.get(f"{SENT}?limit=1")).json
    second = (await admin.get(f"{SENT}?limit=1&after={first['next']}")).json
    shown = (await admin.get(f"{SENT}/2")).json

    at = "2027-01-15T08:01:00.000Z"
    newer = {
        "number": 2, "sent_at": at, "type": "news", "title": "Title", "notification_id": None,
        "figures": figures(1, rate_limited=1, type_not_subscribed=1),
    }  # fmt: skip
    older = {"number": 1, "sent_at": NOW, "type": "deals", "title": "Title", "notification_id": "first",
             "figures": figures(1)}  # fmt: skip
    assert page == {"notifications": [newer, older], "next": None}
    assert (first["notifications"], second) == ([newer], {"notifications": [older], "next": None})
    nothing = {"at": at, "read_at": None, "limited_until": None}
    accounts = [
        {"account": SOME[0], "outcome": "rate_limited", **nothing}
        | {"limited_until": "2027-01-15T09:00:00.000Z"},
        {"account": SOME[4], "outcome": "type_not_subscribed", **nothing},
        {"account": SOME[1], "outcome": "sent", **nothing},
    ]
    assert shown == {**newer, "body": "Body", "url": None, "accounts": accounts, "next": None}
    for query in ("?after=x", "?after=-1", f"?after={'9' * 19}", "?limit=0", "?limit=1&limit=2", "/1?after=1",
                  f"/1?after={'9' * 19}.1", "/1?outcome=lost"):  # fmt: skip
        assert (await admin.get(SENT + query)).status == 400, query
    for path in ("app/notifications/3", "app/notifications/999999999999999999", "app/notifications/x",
                 "other/notifications/1", "none/notifications"):  # fmt: skip
        assert (await admin.get(f"/admin/projects/{path}")).status == 404, path


@pytest.mark.own_server
async def test_missed_subscribers_and_accounts_that_have_left(admin: AdminClient, secret: str) -> None:
    ethereum = ETHEREUM.replace(":1:", ":137:")
    await admin.subscribe("app", ethereum)
    await admin.notify("app", secret, "news", ethereum, SOME[0])
    for each in (ethereum, SOME[0]):
        await admin.delete(f"/admin/projects/app/subscribers/{each}")
    await admin.notify("app", secret, "news", SOME[4])
    await admin.notify("app", secret, "news", "test:chain:nobody")
    shown = [one["figures"] for one in await notifications(admin)]
    assert shown == [figures(0, type_not_subscribed=1), figures(2)]
    assert (await outcomes(admin, 1)).keys() == {ETHEREUM, SOME[0]}


@pytest.mark.own_server
async def test_a_failure_is_taken_back_or_kept_for_its_time(admin: AdminClient, secret: str) -> None:
    await admin.notify("app", secret, "deals", SOME[0])
    await admin.notify("app", secret, "news", *SOME[:2], SOME[4], notification_id="x")
    admin.clock.advance(3_600)

    await admin.notify("app", secret, "news", SOME[0], SOME[4], notification_id="x")

    left = figures(2, type_not_subscribed=1)
    assert (await notifications(admin))[0]["figures"] == left
    assert await outcomes(admin, 2) == {SOME[4]: "type_not_subscribed", SOME[1]: "sent", SOME[0]: "sent"}
    await admin.notify("app", secret, "news", SOME[5])
    admin.clock.advance(30 * 86_400)

    async def swept() -> bool:
        return [one["number"] for one in await notifications(admin)] == [2, 1]

    await eventually(swept)
    assert await outcomes(admin, 2) == {SOME[1]: "sent", SOME[0]: "sent"}
    assert (await notifications(admin))[0]["figures"] == left


@pytest.mark.own_server
async def test_accounts_have_outcomes_that_filter_and_count(admin: AdminClient, secret: str) -> None:
    async def shown() -> dict[str, Any]:
        found: dict[str, Any] = (await notifications(admin))[0]["figures"]
        return found

    await admin.notify("app", secret, "deals", SOME[3])
    for each in (SOME[2:4], SOME[:2], SOME[4:]):
        await admin.notify("app", secret, "news", *each, notification_id="x")
    admin.server.change(  # as the inbox does it for an account, which cannot sign in here
        "UPDATE deliveries SET read_at_ms = 1800000000000"
        " WHERE account = (SELECT id FROM accounts WHERE account_key = ?)",
        SOME[0],
    )
    for table in ("notifications", "daily_figures"):
        admin.server.change(f"UPDATE {table} SET read = read + 1")

    for outcome, expected in (
        ("sent", [SOME[2], SOME[1]]), ("read", [SOME[0]]), ("bulk_marked", []),
        ("rate_limited", [SOME[3]]), ("type_not_subscribed", [SOME[4], SOME[5]]),
    ):  # fmt: skip
        pages = await admin.pages(f"{SENT}/2?outcome={outcome}", "accounts", 1)
        assert [entry["account"] for page in pages for entry in page] == expected, outcome
    pages = await admin.pages(f"{SENT}/2", "accounts", 2)
    found = [entry["account"] for page in pages for entry in page]
    assert found == [*SOME[3:], SOME[2], SOME[0], SOME[1]]
    missed = {"rate_limited": 1, "type_not_subscribed": 2}
    assert await shown() == figures(3, read=1, read_rate=1 / 3, **missed)
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await ask(admin.server, "POST", "/v1/app/mark-all-as-read", b"", headers)).status == 200
    assert await shown() == figures(3, read=1, bulk_marked=2, read_rate=1.0, **missed)
    admin.clock.advance(3_600)
    await admin.notify("app", secret, "news", SOME[3], notification_id="x")
    assert await shown() == figures(4, read=1, bulk_marked=2, read_rate=0.5, type_not_subscribed=2)
    left = ["type_not_subscribed"] * 2 + ["bulk_marked", "read", "bulk_marked", "sent"]
    assert [*(await outcomes(admin, 2)).values()] == left


@pytest.mark.own_server
async def test_a_project_has_a_bounded_number_of_failures_and_keeps_the_latest(tmp_path: Path) -> None:
    async with running_server(tmp_path, admin_token=ADMIN_TOKEN, max_missed_accounts=5) as server:
        admin = AdminClient(server)
        secrets = {name: await admin.create(name, "news", "deals") for name in ("app", "other")}
        for name in secrets:
            for each in SOME:
                await admin.subscribe(name, each, ["deals"])
        await admin.notify("other", secrets["other"], "news", *SOME[:5])

        for _ in range(4):
            await admin.notify("app", secrets["app"], "news", *SOME[:3])
            server.clock.advance(1)

        found = {
            one["number"]: list(await outcomes(admin, one["number"])) for one in await notifications(admin)
        }
        assert list(found.items()) == [(5, SOME[:3]), (4, SOME[1:3])]
        others = (await admin.get("/admin/projects/other/notifications/1")).json["accounts"]
        assert len(others) == 5
        assert server.rows("SELECT missed_accounts FROM projects ORDER BY id") == [(5,), (5,)]


@pytest.mark.own_server
async def test_a_page_searches_a_bounded_number_of_accounts(admin: AdminClient, secret: str) -> None:
    await admin.notify("app", secret, "news", SOME[0])
    with database_of(admin.server.settings) as database:
        database.execute(
            """
            WITH RECURSIVE numbers (n) AS (SELECT 1000 UNION ALL SELECT n + 1 FROM numbers WHERE n < 7000)
            INSERT INTO accounts (id, account_key) SELECT n, 'test:crowd:' || n FROM numbers
            """
        )
        database.execute(
            "INSERT INTO deliveries (account, sending, read_at_ms)"
            " SELECT id, 1, CASE WHEN id = 7000 THEN 1800000000000 END FROM accounts WHERE id >= 1000"
        )

    first = (await admin.get(f"{SENT}/1?outcome=read")).json
    second = (await admin.get(f"{SENT}/1?outcome=read&after={first['next']}")).json

    assert (first["accounts"], first["next"]) == ([], "1.5998")
    assert [entry["account"] for entry in second["accounts"]] == ["test:crowd:7000"]
    assert second["next"] is None


async def send(admin: AdminClient, audience: Any, query: str = "", **more: Any) -> Answer:
    fields = {"notification": CONTENT, "notification_id": "walk", "audience": audience, **more}
    return await admin.post(f"/admin/projects/app/notify{query}", fields)


def inboxes(admin: AdminClient) -> list[tuple[Any, ...]]:
    """How many deliveries each account has that has any."""
    return admin.server.rows("SELECT account, count(*) FROM deliveries GROUP BY account")


@pytest.fixture
async def two_subscribers(admin: AdminClient) -> None:
    """A project with two subscribers: the first has chosen everything, the second only deals."""
    await admin.create("app", "news", "deals")
    await admin.subscribe("app", plain_account(1))
    await admin.subscribe("app", plain_account(2), ["deals"])


@pytest.mark.usefixtures("two_subscribers")
async def test_a_notification_goes_to_the_accounts_meant_within_their_limit(admin: AdminClient) -> None:
    first, second, stranger = (plain_account(number) for number in (1, 2, 3))
    lacks_type = {"account": second, "reason": "type_not_subscribed"}

    for query in ("?dry_run=1", "?dry_run=please"):
        dry = await send(admin, "all", query)
        assert (dry.status == 200, inboxes(admin)) == (query == "?dry_run=1", [])
    assert await notifications(admin) == []

    named = await send(admin, {"accounts": [first, second, stranger]}, notification_id=None)
    assert named.json == {
        "sent": [first], "failed": [lacks_type], "not_found": [stranger], "next": None, "total": 3
    }  # fmt: skip
    assert inboxes(admin) == [(1, 1)]
    audiences: list[tuple[Any, list[Any]]] = [
        ("all", [lacks_type]), ({"type": "news"}, []), ({"type": "deals"}, [lacks_type])
    ]  # fmt: skip
    for audience, failed in audiences:
        answer = (await send(admin, audience, notification_id=str(audience))).json
        assert (answer["sent"], answer["failed"], answer["next"]) == ([first], failed, None), audience
    await admin.put("/admin/projects/app/account-limit", {"per_hour": 1, "burst": 1})
    await send(admin, {"type": "news"}, notification_id="last")
    limited = await send(admin, {"type": "news"}, notification_id="another")
    failure = {"account": first, "reason": "rate_limited", "retry_after": 3_600}
    assert limited.json == {**NOTHING, "failed": [failure], "total": 1}
    assert (await send(admin, "all", after=second)).json == {**NOTHING, "total": None}


@pytest.mark.usefixtures("two_subscribers")
async def test_few_subscribers_of_a_type_among_many_are_found_stretch_by_stretch(admin: AdminClient) -> None:
    subscribe_crowd(ConsoleClient(admin.server), 5_100, plain_account(2), "app")  # to deals only
    last = "test:crowd:app-00005099"
    await admin.subscribe("app", last)
    first = (await send(admin, {"type": "news"})).json
    second = (await send(admin, {"type": "news"}, after=first["next"])).json
    assert (first["sent"], first["next"]) == ([plain_account(1)], "test:crowd:app-00004997")
    assert (second["sent"], second["next"]) == ([last], None)


@pytest.mark.usefixtures("two_subscribers")
async def test_a_faulty_request_is_named_and_nothing_is_sent(admin: AdminClient) -> None:
    accounts = [plain_account(1)]
    audiences: list[tuple[str, Any]] = [
        ("", None), ("", "everybody"), ("", {"accounts": accounts, "type": "news"}),
        ("/type", {"type": "none"}), ("/accounts/0", {"accounts": ["nobody"]}),
        ("/accounts", {"accounts": accounts * 501}),
    ]  # fmt: skip
    faults: list[tuple[str, dict[str, Any]]] = [
        *((f"#/audience{place}", {"audience": audience}) for place, audience in audiences),
        ("#/notification_id", {"notification_id": None}), ("#/after", {"after": 1}),
        ("#/notification/type", {"notification": {**CONTENT, "type": "none"}}),
    ]  # fmt: skip

    for place, fields in faults:
        problem = (await send(admin, **{"audience": "all", **fields})).problem(400)
        assert place in [error["pointer"] for error in problem["errors"]], fields
    assert inboxes(admin) == []
    assert await notifications(admin) == []
