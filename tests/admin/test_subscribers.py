"""Subscribing accounts, changing their types, listing them in pages."""

from typing import Any
from urllib.parse import quote

from tests.support.admin_client import ETHEREUM, AdminClient, plain_account
from tests.support.problems import pointers
from tests.support.rows import each_row

SUBSCRIBERS = "/admin/projects/app/subscribers"
NOW = "2027-01-15T08:00:00.000Z"


@each_row("fields", [{}, {"notification_types": None}], empties=True)
async def test_an_account_is_subscribed_to_every_type_when_none_is_named(
    admin: AdminClient, fields: dict[str, Any]
) -> None:
    await admin.create("app", "news", "deals")

    answer = await admin.put(f"{SUBSCRIBERS}/{ETHEREUM}", fields)

    assert answer.json == {"account": ETHEREUM, "notification_types": ["news", "deals"], "subscribed_at": NOW}
    assert (await admin.get(SUBSCRIBERS)).json == {"subscribers": [answer.json], "next": None}


async def test_types_are_listed_once_each_in_the_projects_order(admin: AdminClient) -> None:
    await admin.create("app", "news", "deals", "alerts")

    answer = await admin.subscribe("app", ETHEREUM, ["alerts", "news", "alerts"])

    assert answer.json["notification_types"] == ["news", "alerts"]


async def test_subscribing_again_changes_the_types_and_keeps_the_time(admin: AdminClient) -> None:
    await admin.create("app", "news", "deals")
    await admin.subscribe("app", ETHEREUM)
    admin.clock.advance(60)

    for types in (["deals"], ["deals"], []):
        answer = await admin.subscribe("app", ETHEREUM, types)

        assert answer.json == {"account": ETHEREUM, "notification_types": types, "subscribed_at": NOW}
    assert (await admin.get("/admin/projects/app")).json["subscribers"] == 1


@each_row(
    "spelling",
    [
        quote(ETHEREUM, safe=""),
        ETHEREUM.lower(),
        ETHEREUM.replace(":1:", ":137:"),
        ETHEREUM.replace(":1:", ":0001:"),
    ],
    empties=True,
)
async def test_another_spelling_is_the_same_account(admin: AdminClient, spelling: str) -> None:
    await admin.create("app", "news")
    await admin.subscribe("app", ETHEREUM)

    await admin.subscribe("app", spelling)

    assert (await admin.get("/admin/projects/app")).json["subscribers"] == 1
    assert (await admin.delete(f"{SUBSCRIBERS}/{spelling}")).json == {"success": True}
    assert await admin.subscribed_types("app") == {}


@each_row("address", ["a%b", "%" * 128, "%3A", "%2F", "x" * 128], empties=True)
async def test_an_address_of_another_namespace_is_taken_to_the_letter(
    admin: AdminClient, address: str
) -> None:
    await admin.create("app")
    account = f"abcdefgh:{'r' * 32}:{address}"

    answer = await admin.subscribe("app", quote(account))

    assert answer.json["account"] == account
    assert (await admin.delete(f"{SUBSCRIBERS}/{quote(account)}")).json == {"success": True}


@each_row(
    "account",
    [
        "nonsense",
        "eip155:1:0x12",
        ETHEREUM.replace("0xab", "0xAB"),
        ETHEREUM + "%0A",
        ETHEREUM.replace("eip155", "EIP155"),
        "eip155:%D9%A1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb",
        "%ed%a0%80",
    ],
    empties=True,
)
async def test_malformed_account_is_refused(admin: AdminClient, account: str) -> None:
    await admin.create("app", "news")

    (await admin.subscribe("app", account)).problem(400)
    (await admin.delete(f"{SUBSCRIBERS}/{account}")).problem(400)

    assert await admin.subscribed_types("app") == {}


@each_row(
    ("types", "where"),
    [
        ("news", ["#/notification_types"]),
        ({}, ["#/notification_types"]),
        ([1, "news", None], ["#/notification_types/0", "#/notification_types/2"]),
        (["other", "news", "gone"], ["#/notification_types/0", "#/notification_types/2"]),
        (["news"] * 257, ["#/notification_types"]),
    ],
    empties=True,
)
async def test_types_that_the_project_does_not_have_are_named_and_nothing_changes(
    admin: AdminClient, types: Any, where: list[str]
) -> None:
    await admin.create("app", "news", "gone")
    await admin.create("other", "other")
    await admin.delete("/admin/projects/app/types/gone")
    await admin.subscribe("app", ETHEREUM, [])

    answer = await admin.put(f"{SUBSCRIBERS}/{ETHEREUM}", {"notification_types": types})

    assert pointers(answer.problem(400)) == where
    assert await admin.subscribed_types("app") == {ETHEREUM: []}


async def test_an_account_that_is_not_subscribed_cannot_be_unsubscribed(admin: AdminClient) -> None:
    await admin.create("app", "news")
    await admin.subscribe("app", ETHEREUM)

    first, second = [await admin.delete(f"{SUBSCRIBERS}/{ETHEREUM}") for _ in range(2)]

    assert first.json == {"success": True}
    assert second.problem(404)["type"].endswith(":subscription-not-found")


async def test_pages_hold_every_subscriber_once_in_order(admin: AdminClient) -> None:
    await admin.create("app", "news")
    accounts = [plain_account(number) for number in range(7)]
    for account in reversed(accounts):
        await admin.subscribe("app", account)

    pages = []
    after: str | None = ""
    while after is not None:
        page = (await admin.get(f"{SUBSCRIBERS}?limit=3&after={quote(after)}")).json
        pages.append([entry["account"] for entry in page["subscribers"]])
        after = page["next"]

    assert pages == [accounts[:3], accounts[3:6], accounts[6:]]


async def test_a_last_page_that_is_full_says_so(admin: AdminClient) -> None:
    await admin.create("app")
    for number in range(3):
        await admin.subscribe("app", plain_account(number))

    assert (await admin.get(f"{SUBSCRIBERS}?limit=3")).json["next"] is None
    assert (await admin.get(f"{SUBSCRIBERS}?limit=2")).json["next"] == plain_account(1)


async def test_a_page_has_100_unless_asked_otherwise(admin: AdminClient) -> None:
    await admin.create("app")
    for number in range(101):
        await admin.subscribe("app", plain_account(number))

    assert len((await admin.get(SUBSCRIBERS)).json["subscribers"]) == 100


@each_row("limit", ["0", "1001", "-1", "", "x", "1.5", "%D9%A1", "9" * 5000], empties=True)
async def test_a_page_size_out_of_range_is_refused(admin: AdminClient, limit: str) -> None:
    await admin.create("app")

    assert "limit" in (await admin.get(f"{SUBSCRIBERS}?limit={limit}")).problem(400)["detail"]


@each_row("after", ["zzz", "%00", "%ff", "%ed%a0%80", "%F0%9F%98%80", "~" * 4000], empties=True)
async def test_a_page_may_begin_anywhere(admin: AdminClient, after: str) -> None:
    await admin.create("app")
    await admin.subscribe("app", ETHEREUM)

    page = (await admin.get(f"{SUBSCRIBERS}?after={after}")).json

    assert page["next"] is None
    assert len(page["subscribers"]) == (1 if after == "%00" else 0)


async def test_subscribers_of_an_unknown_project_are_not_found(admin: AdminClient) -> None:
    path = "/admin/projects/none/subscribers"

    for answer in (
        await admin.get(path),
        await admin.put(f"{path}/{ETHEREUM}", {}),
        await admin.delete(f"{path}/{ETHEREUM}"),
    ):
        assert answer.problem(404)["type"].endswith(":project-not-found")


@each_row(
    ("search", "found"),
    [
        (ETHEREUM, [ETHEREUM]),
        (ETHEREUM.lower(), [ETHEREUM]),
        (ETHEREUM.replace(":1:", ":5:"), [ETHEREUM]),
        (ETHEREUM.rpartition(":")[2], [ETHEREUM]),
        ("eip155:1:0xab16", [ETHEREUM]),
        ("test:chain:0000000", [plain_account(number) for number in range(3)]),
        (plain_account(1), [plain_account(1)]),
        ("test:chain:9", []),
        ("%F0%9F%98%80", []),
        ("", [ETHEREUM, *(plain_account(number) for number in range(3))]),
    ],
    empties=True,
)
async def test_subscribers_are_found_by_account_address_or_beginning(
    admin: AdminClient, search: str, found: list[str]
) -> None:
    await admin.create("app", "news")
    for account in (ETHEREUM, *(plain_account(number) for number in range(3))):
        await admin.subscribe("app", account)

    answer = await admin.get(f"{SUBSCRIBERS}?search={search}")

    assert [entry["account"] for entry in answer.json["subscribers"]] == found


async def test_a_search_goes_on_page_by_page(admin: AdminClient) -> None:
    await admin.create("app", "news")
    for number in range(3):
        await admin.subscribe("app", plain_account(number))

    first = (await admin.get(f"{SUBSCRIBERS}?search=test:&limit=2")).json
    second = (await admin.get(f"{SUBSCRIBERS}?search=test:&limit=2&after={first['next']}")).json

    assert first["next"] == plain_account(1)
    assert [entry["account"] for entry in second["subscribers"]] == [plain_account(2)]
    assert second["next"] is None
