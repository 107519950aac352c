"""Making, listing, showing and deleting projects."""

import re
from typing import Any

import pytest

from tests.support.admin_client import ADMIN_TOKEN, ETHEREUM, AdminClient
from tests.support.asking import ask
from tests.support.engines import database_of
from tests.support.problems import pointers
from tests.support.rows import each_row

NOW = "2027-01-15T08:00:00.000Z"
LATER = "2027-01-15T08:01:00.500Z"
SERVERS_LIMIT = {"per_hour": 2, "burst": 50, "own": False}


async def test_a_new_project_is_answered_with_its_secret(admin: AdminClient) -> None:
    answer = await admin.post("/admin/projects", {"name": "My app 😀", "project_id": "my-app"})

    secret = answer.json["secret"]["secret"]
    assert answer.json == {
        "project_id": "my-app",
        "name": "My app 😀",
        "created_at": NOW,
        "account_limit": SERVERS_LIMIT,
        "webhook": None,
        "types": [],
        "secrets": [{"number": 1, "created_at": NOW}],
        "subscribers": 0,
        "secret": {"number": 1, "secret": secret},
    }
    assert re.fullmatch(r"bsk_[A-Za-z0-9_-]{43}", secret)
    assert await admin.opens("my-app", secret)


@each_row("fields", [{}, {"project_id": None}, {"unknown": 1}])
async def test_an_id_that_is_left_out_is_made(admin: AdminClient, fields: dict[str, Any]) -> None:
    made = [(await admin.post("/admin/projects", {"name": "App", **fields})).json for _ in range(2)]

    first, second = (project["project_id"] for project in made)
    assert re.fullmatch("app(-[0-9]+)?", first)
    assert re.fullmatch("app-[0-9]+", second)
    assert first != second
    assert made[0]["secret"]["secret"] != made[1]["secret"]["secret"]


@each_row("project_id", ["a", "-", "0-a", "x" * 64])
async def test_an_id_at_its_bounds_is_taken(admin: AdminClient, project_id: str) -> None:
    await admin.create(project_id)

    assert (await admin.get(f"/admin/projects/{project_id}")).json["project_id"] == project_id


@each_row("length", [1, 64])
async def test_a_name_is_counted_in_code_points(admin: AdminClient, length: int) -> None:
    name = "😀" * length

    assert (await admin.post("/admin/projects", {"name": name})).json["name"] == name


@each_row(
    ("fields", "where"),
    [
        ({}, ["#/name"]),
        ({"name": None}, ["#/name"]),
        ({"name": 1}, ["#/name"]),
        ({"name": ""}, ["#/name"]),
        ({"name": "x" * 65}, ["#/name"]),
        ({"name": "a\nb"}, ["#/name"]),
        ({"name": "a\0b"}, ["#/name"]),
        ({"name": "App", "project_id": ""}, ["#/project_id"]),
        ({"name": "App", "project_id": "x" * 65}, ["#/project_id"]),
        ({"name": "App", "project_id": "App"}, ["#/project_id"]),
        ({"name": "App", "project_id": "a_b"}, ["#/project_id"]),
        ({"name": "App", "project_id": "ä"}, ["#/project_id"]),
        ({"name": "App", "project_id": "a\n"}, ["#/project_id"]),
        ({"name": "App", "project_id": "١"}, ["#/project_id"]),
        ({"name": "App", "project_id": 7}, ["#/project_id"]),
        ({"name": "", "project_id": "session"}, ["#/name", "#/project_id"]),
        *(
            ({"name": "App", "project_id": reserved}, ["#/project_id"])
            for reserved in ("session", "call-status", "v1", "rpc", "inbox", "admin", "console")
        ),
    ],
)
async def test_every_fault_is_named_and_nothing_is_made(
    admin: AdminClient, fields: dict[str, Any], where: list[str]
) -> None:
    problem = (await admin.post("/admin/projects", fields)).problem(400)

    assert pointers(problem) == where
    assert (await admin.get("/admin/projects")).json == {"projects": []}


@each_row("body", [b"", b"[]", b"{", b'{"name":"\\ud800"}', b'{"name":"a","name":"b"}', b'{"name":NaN}'])
async def test_body_other_than_a_plain_json_object_is_refused(admin: AdminClient, body: bytes) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}

    (await ask(admin.server, "POST", "/admin/projects", body, headers)).problem(400)


async def test_a_body_that_is_not_declared_as_json_is_refused(admin: AdminClient) -> None:
    headers = {"Authorization": f"Bearer {ADMIN_TOKEN}"}

    answer = await ask(
        admin.server, "POST", "/admin/projects", b'{"name":"App"}', headers, content_type="text/plain"
    )

    answer.problem(415)


async def test_an_id_that_is_taken_is_a_conflict_and_changes_nothing(admin: AdminClient) -> None:
    secret = await admin.create("app")

    answer = await admin.post("/admin/projects", {"name": "Other", "project_id": "app"})

    assert answer.problem(409)["type"].endswith(":project-exists")
    assert (await admin.get("/admin/projects/app")).json["name"] == "App"
    assert await admin.opens("app", secret)


async def test_every_project_is_listed_oldest_first(admin: AdminClient) -> None:
    await admin.create("zebra")
    admin.clock.advance(60.5)
    await admin.create("ant")
    await admin.put("/admin/projects/ant/account-limit", {"per_hour": 3.5, "burst": 7})
    await admin.put("/admin/projects/ant/webhook", {"url": "https://app.example/hook"})

    listed = (await admin.get("/admin/projects")).json

    zebra = {"project_id": "zebra", "name": "App", "created_at": NOW, "account_limit": SERVERS_LIMIT}
    own_limit = {"per_hour": 3.5, "burst": 7, "own": True}
    ant = {"project_id": "ant", "name": "App", "created_at": LATER, "account_limit": own_limit}
    figures = {"types": [], "subscribers": 0, "sent_today": 0, "read_rate": None}
    hook = {"webhook": "https://app.example/hook"}
    assert listed == {"projects": [zebra | {"webhook": None} | figures, ant | hook | figures]}


async def test_projects_come_page_by_page_also_when_the_last_one_of_a_page_is_deleted(
    admin: AdminClient,
) -> None:
    for project_id in ("one", "two", "three"):
        await admin.create(project_id)

    first = (await admin.get("/admin/projects?limit=2")).json
    await admin.delete("/admin/projects/two")
    second = (await admin.get(f"/admin/projects?limit=2&after={first['next']}")).json

    assert [each["project_id"] for each in first["projects"]] == ["one", "two"]
    assert ([each["project_id"] for each in second["projects"]], second["next"]) == (["three"], None)


@each_row("query", ["limit=0", "limit=1001", "limit=x", "after=two", "after=-1", "after=%25"])
async def test_a_page_of_projects_that_cannot_be_is_refused(admin: AdminClient, query: str) -> None:
    (await admin.get(f"/admin/projects?{query}")).problem(400)


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
async def test_a_project_is_shown_with_what_belongs_to_it_and_without_secrets(admin: AdminClient) -> None:
    secret = await admin.create("app", "news", "deals")
    admin.clock.advance(60.5)
    second = (await admin.post("/admin/projects/app/secrets")).json["secret"]
    signing = (await admin.put("/admin/projects/app/webhook", {"url": "https://app.example/"})).json
    await admin.subscribe("app", ETHEREUM)

    answer = await admin.get("/admin/projects/app")

    assert answer.json == {
        "project_id": "app",
        "name": "App",
        "created_at": NOW,
        "account_limit": SERVERS_LIMIT,
        "webhook": "https://app.example/",
        "types": [
            {"type_id": "news", "name": "Type", "created_at": NOW},
            {"type_id": "deals", "name": "Type", "created_at": NOW},
        ],
        "secrets": [{"number": 1, "created_at": NOW}, {"number": 2, "created_at": LATER}],
        "subscribers": 1,
    }
    listed = (await admin.get("/admin/projects")).body
    for hidden in (secret, second, signing["signing_secret"]):
        assert hidden.encode() not in answer.body + listed


async def test_a_project_of_another_id_is_not_found(admin: AdminClient) -> None:
    await admin.create("app")

    for path in ("/admin/projects/other", "/admin/projects/APP", "/admin/projects/app%20"):
        assert (await admin.get(path)).problem(404)["type"].endswith(":project-not-found")
        assert (await admin.delete(path)).problem(404)["type"].endswith(":project-not-found")
