"""Projects: made, listed, shown and deleted, with their secrets, limits, types and webhooks."""

import asyncio
import re
from typing import Any

import pytest

from tests.support.admin_client import ETHEREUM, AdminClient, plain_account
from tests.support.asking import ask, pointers
from tests.support.engines import database_of
from tests.support.waiting import eventually

NOW = "2027-01-15T08:00:00.000Z"
LATER = "2027-01-15T08:01:00.500Z"
SERVERS_LIMIT = {"per_hour": 2, "burst": 50, "own": False}
PROJECT = "/admin/projects/app"
SECRETS, LIMIT = f"{PROJECT}/secrets", f"{PROJECT}/account-limit"


async def test_a_new_project_is_answered_with_its_secret_or_with_every_fault(admin: AdminClient) -> None:
    names = ({}, *({"name": name} for name in (None, 1, "", "x" * 65, "a\nb", "a\0b")))
    ids = ("", "x" * 65, "App", "a\n", "١", 7, "session", "v1", "console")
    faults: list[tuple[dict[str, Any], list[str]]] = [
        *((fields, ["#/name"]) for fields in names),
        *(({"name": "App", "project_id": each}, ["#/project_id"]) for each in ids),
        ({"name": "", "project_id": "session"}, ["#/name", "#/project_id"]),
        ({"name": "App", "projectId": "mine"}, ["#/projectId"]),
    ]
    for fields, where in faults:
        problem = (await admin.post("/admin/projects", fields)).problem(400)
        assert pointers(problem) == where, fields
    assert (await admin.get("/admin/projects")).json == {"projects": []}

    made = (await admin.post("/admin/projects", {"name": "My app 😀", "project_id": "my-app"})).json

    secret = made["secret"]["secret"]
    assert made == {
        "project_id": "my-app", "name": "My app 😀", "created_at": NOW, "account_limit": SERVERS_LIMIT,
        "webhook": None, "types": [], "secrets": [{"number": 1, "created_at": NOW}], "subscribers": 0,
        "secret": {"number": 1, "secret": secret},
    }  # fmt: skip
    assert re.fullmatch(r"bsk_[A-Za-z0-9_-]{43}", secret)
    taken = await admin.post("/admin/projects", {"name": "Other", "project_id": "my-app"})
    assert taken.problem(409)["type"].endswith(":project-exists")
    assert (await admin.get("/admin/projects/my-app")).json["name"] == "My app 😀"
    assert await admin.opens("my-app", secret)
    for project_id in ("a", "-", "0-a", "x" * 64):  # at the bounds of ids and names
        name = "😀" * len(project_id)
        made = (await admin.post("/admin/projects", {"name": name, "project_id": project_id})).json
        shown = (await admin.get(f"/admin/projects/{project_id}")).json
        assert (made["name"], shown["name"], shown["project_id"]) == (name, name, project_id)


async def test_projects_are_listed_oldest_first_page_by_page(admin: AdminClient) -> None:
    await admin.create("zebra")
    admin.clock.advance(60.5)
    await admin.create("ant")
    await admin.put("/admin/projects/ant/account-limit", {"per_hour": 3.5, "burst": 7})
    await admin.put("/admin/projects/ant/webhook", {"url": "https://app.example/hook"})
    await admin.create("bee")

    every = (await admin.get("/admin/projects")).json["projects"]
    first = (await admin.get("/admin/projects?limit=2")).json
    await admin.delete("/admin/projects/ant")
    second = (await admin.get(f"/admin/projects?limit=2&after={first['next']}")).json

    figures = {"name": "App", "types": [], "subscribers": 0, "sent_today": 0, "read_rate": None}
    zebra = {"project_id": "zebra", "created_at": NOW, "account_limit": SERVERS_LIMIT, "webhook": None}
    own_limit = {"per_hour": 3.5, "burst": 7, "own": True}
    ant = {"project_id": "ant", "created_at": LATER, "account_limit": own_limit}
    hook = {"webhook": "https://app.example/hook"}
    assert every[:2] == first["projects"] == [zebra | figures, ant | hook | figures]
    assert every[2]["project_id"] == "bee"
    assert second == {"projects": every[2:], "next": None}


async def test_the_list_has_types_subscribers_and_figures_of_each_project(admin: AdminClient) -> None:
    secret = await admin.create("app", "news", "deals")
    await admin.create("other", "news")
    await admin.subscribe("app", ETHEREUM)
    await admin.delete("/admin/projects/app/types/deals")
    for seconds in (0, 29 * 86_400, 86_400):
        admin.clock.advance(seconds)
        for _ in range(2):
            await admin.notify("app", secret, "news", ETHEREUM)
    with database_of(admin.server.settings) as database:
        database.execute("UPDATE daily_figures SET read = 1")

    app, other = (await admin.get("/admin/projects")).json["projects"]

    news = {"type_id": "news", "name": "Type", "created_at": NOW}
    assert (app["types"], app["subscribers"], app["sent_today"]) == ([news], 1, 2)
    assert app["read_rate"] == 2 / 4  # of the last 30 days
    assert (other["subscribers"], other["sent_today"], other["read_rate"]) == (0, 0, None)


@pytest.mark.own_server
async def test_a_project_is_shown_without_its_secrets_of_which_two_pass(admin: AdminClient) -> None:
    old = await admin.create("app", "news", "deals")
    admin.clock.advance(60.5)
    answers = await asyncio.gather(*(admin.post(SECRETS) for _ in range(10)))
    assert sorted(answer.status for answer in answers) == [200] + [409] * 9
    new = next(answer.json for answer in answers if answer.status == 200)
    assert (new.keys(), new["number"]) == ({"number", "secret"}, 2)
    signing = (await admin.put(f"{PROJECT}/webhook", {"url": "https://app.example/"})).json
    await admin.subscribe("app", ETHEREUM)

    answer = await admin.get(PROJECT)

    types = [{"type_id": name, "name": "Type", "created_at": NOW} for name in ("news", "deals")]
    secrets = [{"number": 1, "created_at": NOW}, {"number": 2, "created_at": LATER}]
    assert answer.json == {
        "project_id": "app", "name": "App", "created_at": NOW, "account_limit": SERVERS_LIMIT,
        "webhook": "https://app.example/", "types": types, "secrets": secrets, "subscribers": 1,
    }  # fmt: skip
    listed = (await admin.get("/admin/projects")).body
    for hidden in (old, new["secret"], signing["signing_secret"]):
        assert hidden.encode() not in answer.body + listed
    assert [await admin.opens("app", each) for each in (old, new["secret"])] == [True, True]

    refused = await admin.post(SECRETS)
    assert (await admin.delete(f"{SECRETS}/99")).problem(404)["type"].endswith(":secret-not-found")
    revoked = await admin.delete(f"{SECRETS}/1")

    assert refused.problem(409)["type"].endswith(":too-many-secrets")
    assert revoked.json == {"success": True}
    assert [await admin.opens("app", each) for each in (old, new["secret"])] == [False, True]
    assert [secret["number"] for secret in (await admin.get(PROJECT)).json["secrets"]] == [2]
    await admin.delete(f"{SECRETS}/2")
    third = (await admin.post(SECRETS)).json
    assert third["number"] == 3
    assert [await admin.opens("app", each) for each in (new["secret"], third["secret"])] == [False, True]
    others = await admin.create("other")
    assert [await admin.opens(each, others) for each in ("app", "other")] == [False, True]


async def test_a_limit_is_shown_as_set_and_charged_or_refused_out_of_range(admin: AdminClient) -> None:
    secret = await admin.create("app", "news")
    limits = [(1, 1), (0.001, 1_000_000), (1_000_000, 1_000_000), (2.5, 50)]
    for number, (per_hour, burst) in enumerate(limits):
        account = plain_account(number)
        await admin.subscribe("app", account)
        limit = {"per_hour": per_hour, "burst": burst, "own": True}
        for _ in range(2):
            assert (await admin.put(LIMIT, {"per_hour": per_hour, "burst": burst})).json == limit
        assert (await admin.get(PROJECT)).json["account_limit"] == limit
        assert (await admin.notify("app", secret, "news", account)).json["sent"] == [account]
        for _ in range(2):
            assert (await admin.delete(LIMIT)).json == {"success": True}
        assert (await admin.get(PROJECT)).json["account_limit"] == SERVERS_LIMIT

    before = (await admin.put(LIMIT, {"per_hour": 7, "burst": 3})).json
    both = ["#/per_hour", "#/burst"]
    faults: list[tuple[dict[str, Any], list[str]]] = [
        *(({"per_hour": per_hour, "burst": burst}, both) for per_hour, burst in (
            ("2", "3"), (0, 0), (1_000_000.5, 1_000_001), (0.0009, 1.5), (-1, 10**18), (True, True),
            (None, None),
        )),
        ({}, both), ({"per_hour": 1e-300, "burst": 1}, ["#/per_hour"]), ({"per_hour": 1}, ["#/burst"]),
    ]  # fmt: skip
    for fields, where in faults:
        assert pointers((await admin.put(LIMIT, fields)).problem(400)) == where, fields
    assert (await admin.get(PROJECT)).json["account_limit"] == before


def tables(admin: AdminClient) -> dict[str, int]:
    """How many rows each table has that has any, but for those that know nothing of projects."""
    with database_of(admin.server.settings) as database:
        counts = {name: database.execute(f"SELECT count(*) FROM {name}")[0][0] for name in database.tables()}
    others = {"irn_id_blocks", "accounts", "outbox", "buckets"}
    return {name: count for name, count in counts.items() if count and name not in others}


async def fill(admin: AdminClient, project_id: str) -> str:
    """Make a project that has left something in every table that knows of projects; returns its secret."""
    secret = await admin.create(project_id, "news", "deals")
    *some, last = [plain_account(number) for number in range(4)]
    for account in some:
        await admin.subscribe(project_id, account)
    await admin.subscribe(project_id, last, ["deals"])
    await admin.notify(project_id, secret, "news", *some, last)
    await admin.notify(project_id, secret, "news", last)
    await admin.notify(project_id, secret, "news", *some, notification_id="once")
    await admin.delete(f"/admin/projects/{project_id}/types/news")
    return secret


async def test_soon_no_row_of_it_is_left_and_others_keep_theirs(admin: AdminClient) -> None:
    await fill(admin, "other")
    others = tables(admin)
    await fill(admin, "app")
    assert tables(admin) == {name: 2 * count for name, count in others.items()}
    assert others.keys() >= {
        "projects", "project_secrets", "notification_types", "type_sets", "type_set_members", "subscriptions",
        "notifications", "covered_accounts", "sendings", "deliveries", "account_buckets", "daily_figures",
        "missed_accounts",
    }  # fmt: skip

    await admin.delete(PROJECT)

    async def swept() -> bool:
        return tables(admin) == others

    await eventually(swept)


async def test_a_deleted_project_is_gone_at_once_and_made_again_is_empty(admin: AdminClient) -> None:
    old_secret = await fill(admin, "app")

    assert (await admin.delete(PROJECT)).json == {"success": True}

    (await admin.delete(PROJECT)).problem(404)
    assert (await admin.get("/admin/projects")).json == {"projects": []}
    for path in ("", "/types", "/subscribers", "/analytics"):
        (await admin.get(f"{PROJECT}{path}")).problem(404)
    assert not await admin.opens("app", old_secret)
    secret = await admin.create("app", "news")
    shown = (await admin.get(PROJECT)).json
    assert (shown["subscribers"], len(shown["types"]), len(shown["secrets"])) == (0, 1, 1)
    assert await admin.subscribed_types("app") == {}
    assert (await admin.get(f"{PROJECT}/analytics")).json["types"] == []
    assert not await admin.opens("app", old_secret)
    account = plain_account(1)
    await admin.subscribe("app", account)
    again = await admin.notify("app", secret, "news", account, notification_id="once")
    assert again.json["sent"] == [account]
    assert (await admin.get(f"{PROJECT}/analytics")).json["total"]["sent"] == 1
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await ask(admin.server, "GET", "/app/subscribers", headers=headers)).json == [account]
