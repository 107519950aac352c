"""Notification types: made, renamed, removed, and made again."""

from typing import Any

from bridge_server.projects.models import TypeId, type_id_of_name
from tests.support.admin_client import ETHEREUM, AdminClient, plain_account
from tests.support.problems import pointers
from tests.support.rows import each_row

TYPES = "/admin/projects/app/types"
NOW = "2027-01-15T08:00:00.000Z"


async def listed(admin: AdminClient) -> list[str]:
    return [kind["type_id"] for kind in (await admin.get(TYPES)).json["types"]]


async def test_a_type_is_answered_and_listed(admin: AdminClient) -> None:
    await admin.create("app")

    answer = await admin.post(TYPES, {"name": "Breaking news", "type_id": "News.1_a-Z"})

    assert answer.json == {"type_id": "News.1_a-Z", "name": "Breaking news", "created_at": NOW}
    assert (await admin.get(TYPES)).json == {"types": [answer.json]}


async def test_an_id_that_is_left_out_is_made(admin: AdminClient) -> None:
    await admin.create("app")

    names = ["News", "news!", "Price alerts", "NEWS", "Änderung", "速報", "News 2"]

    made = [(await admin.post(TYPES, {"name": name})).json["type_id"] for name in names]

    assert made == ["news", "news-2", "price-alerts", "news-3", "anderung", "type", "news-2-2"]
    assert await listed(admin) == made


@each_row(
    ("name", "taken", "made"),
    [
        ("x" * 64, [], "x" * 64),
        ("x" * 64, ["x" * 64], "x" * 59 + "-2"),
        ("x" * 63 + " y", [], "x" * 63),
        ("  --  ", [], "type"),
        ("Ｆｕｌｌ ｗｉｄｔｈ", [], "full-width"),
        ("News", ["news-2"], "news"),
        ("News", ["news", "news-2", "news-3"], "news-4"),
    ],
)
def test_an_id_is_made_from_the_name(name: str, taken: list[str], made: str) -> None:
    assert type_id_of_name(name, set(map(TypeId, taken))) == made


@each_row(
    ("fields", "where"),
    [
        ({}, ["#/name"]),
        ({"name": "", "type_id": ""}, ["#/name", "#/type_id"]),
        ({"name": "x" * 65, "type_id": "x" * 65}, ["#/name", "#/type_id"]),
        ({"name": "a\tb", "type_id": "a b"}, ["#/name", "#/type_id"]),
        ({"name": [], "type_id": {}}, ["#/name", "#/type_id"]),
        ({"name": "News", "type_id": "a/b"}, ["#/type_id"]),
    ],
    empties=True,
)
async def test_every_fault_is_named_and_nothing_is_made(
    admin: AdminClient, fields: dict[str, Any], where: list[str]
) -> None:
    await admin.create("app")

    assert pointers((await admin.post(TYPES, fields)).problem(400)) == where

    assert await listed(admin) == []


async def test_an_id_is_the_projects_own(admin: AdminClient) -> None:
    await admin.create("app", "news")
    await admin.create("other", "news")

    again = await admin.post(TYPES, {"name": "Again", "type_id": "news"})

    assert again.problem(409)["type"].endswith(":type-exists")
    assert (await admin.get(TYPES)).json["types"][0]["name"] == "Type"


async def test_a_type_is_renamed_and_keeps_everything_else(admin: AdminClient) -> None:
    await admin.create("app", "news")
    await admin.subscribe("app", ETHEREUM)
    admin.clock.advance(60)

    for _ in range(2):
        answer = await admin.put(f"{TYPES}/news", {"name": "News today"})

        assert answer.json == {"type_id": "news", "name": "News today", "created_at": NOW}
    assert (await admin.get(TYPES)).json == {"types": [answer.json]}
    assert await admin.subscribed_types("app") == {ETHEREUM: ["news"]}


@each_row("name", ["", "x" * 65, None, 1, "a\x7fb"], empties=True)
async def test_a_name_that_may_not_be_leaves_the_old_one(admin: AdminClient, name: object) -> None:
    await admin.create("app", "news")

    assert pointers((await admin.put(f"{TYPES}/news", {"name": name})).problem(400)) == ["#/name"]

    assert (await admin.get(TYPES)).json["types"][0]["name"] == "Type"


async def test_a_removed_type_leaves_every_subscription(admin: AdminClient) -> None:
    await admin.create("app", "news", "deals")
    await admin.create("other", "news")
    accounts = [plain_account(number) for number in range(3)]
    for account, types in zip(accounts, (["news"], ["news", "deals"], ["deals"]), strict=True):
        await admin.subscribe("app", account, types)
    await admin.subscribe("other", ETHEREUM)

    assert (await admin.delete(f"{TYPES}/news")).json == {"success": True}

    assert await listed(admin) == ["deals"]
    assert await admin.subscribed_types("app") == dict(zip(accounts, ([], ["deals"], ["deals"]), strict=True))
    assert await admin.subscribed_types("other") == {ETHEREUM: ["news"]}


async def test_a_removed_type_can_no_longer_be_sent(admin: AdminClient) -> None:
    secret = await admin.create("app", "news")
    await admin.subscribe("app", ETHEREUM)
    assert (await admin.notify("app", secret, "news", ETHEREUM)).json["sent"] == [ETHEREUM]

    await admin.delete(f"{TYPES}/news")

    (await admin.notify("app", secret, "news", ETHEREUM)).problem(400)


async def test_a_type_that_is_made_again_has_no_subscribers_from_before(admin: AdminClient) -> None:
    await admin.create("app", "news")
    await admin.subscribe("app", ETHEREUM, ["news"])
    await admin.delete(f"{TYPES}/news")

    await admin.post(TYPES, {"name": "Again", "type_id": "news"})

    assert await admin.subscribed_types("app") == {ETHEREUM: []}
    await admin.subscribe("app", plain_account(1))
    assert await admin.subscribed_types("app") == {ETHEREUM: [], plain_account(1): ["news"]}


async def test_the_256th_type_is_taken_and_no_more(admin: AdminClient) -> None:
    await admin.create("app", *(f"type-{number}" for number in range(255)))

    last = await admin.post(TYPES, {"name": "Last"})
    refused = await admin.post(TYPES, {"name": "One more"})

    assert last.status == 200
    assert refused.problem(409)["type"].endswith(":too-many-types")
    assert len(await listed(admin)) == 256


async def test_an_unknown_type_is_not_found(admin: AdminClient) -> None:
    await admin.create("app")
    await admin.create("other", "news")

    for answer in (await admin.put(f"{TYPES}/news", {"name": "News"}), await admin.delete(f"{TYPES}/news")):
        assert answer.problem(404)["type"].endswith(":type-not-found")


async def test_types_of_an_unknown_project_are_not_found(admin: AdminClient) -> None:
    path = "/admin/projects/none/types"

    for answer in (
        await admin.get(path),
        await admin.post(path, {"name": "News"}),
        await admin.put(f"{path}/news", {"name": "News"}),
        await admin.delete(f"{path}/news"),
    ):
        assert answer.problem(404)["type"].endswith(":project-not-found")
