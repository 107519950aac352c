"""Subscribers of a project and the notification types that they choose; its webhook hears of both."""

from typing import Any
from urllib.parse import quote

from tests.support.admin_client import ETHEREUM, AdminClient, plain_account
from tests.support.asking import pointers
from tests.support.webhook_receiver import WebhookReceiver

SUBSCRIBERS = "/admin/projects/app/subscribers"
NOW = "2027-01-15T08:00:00.000Z"
TYPES = "/admin/projects/app/types"
WEBHOOK = "/admin/projects/app/webhook"


async def test_an_account_is_subscribed_to_every_type_when_none_is_named(admin: AdminClient) -> None:
    def entry(account: str, *types: str) -> dict[str, Any]:
        return {"account": account, "notification_types": [*types], "subscribed_at": NOW}

    await admin.create("app", "news", "deals", "alerts")
    first, second = plain_account(1), plain_account(2)

    answers = [
        await admin.put(f"{SUBSCRIBERS}/{ETHEREUM}", {}),
        await admin.put(f"{SUBSCRIBERS}/{first}", {"notification_types": None}),
        await admin.subscribe("app", second, ["alerts", "news", "alerts"]),
    ]

    every = ("news", "deals", "alerts")
    entries = [entry(ETHEREUM, *every), entry(first, *every), entry(second, "news", "alerts")]
    assert [answer.json for answer in answers] == entries  # types are in the project's order
    assert (await admin.get(SUBSCRIBERS)).json == {"subscribers": entries, "next": None}
    admin.clock.advance(60)
    for types in (["deals"], ["deals"], []):
        assert (await admin.subscribe("app", ETHEREUM, types)).json == entry(ETHEREUM, *types)
    assert (await admin.get("/admin/projects/app")).json["subscribers"] == 3


async def test_another_spelling_is_one_account_that_is_unsubscribed_once(admin: AdminClient) -> None:
    await admin.create("app", "news")

    for spelling in (
        quote(ETHEREUM, safe=""), ETHEREUM.lower(), ETHEREUM.replace(":1:", ":137:"),
        ETHEREUM.replace(":1:", ":0001:"),
    ):  # fmt: skip
        await admin.subscribe("app", ETHEREUM)
        await admin.subscribe("app", spelling)
        assert (await admin.get("/admin/projects/app")).json["subscribers"] == 1
        assert (await admin.delete(f"{SUBSCRIBERS}/{spelling}")).json == {"success": True}
        again = await admin.delete(f"{SUBSCRIBERS}/{spelling}")
        assert again.problem(404)["type"].endswith(":subscription-not-found")
        assert await admin.subscribed_types("app") == {}
    for address in ("a%b", "%3A", "%2F", "x" * 128):  # of another namespace it is taken to the letter
        account = f"abcdefgh:{'r' * 32}:{address}"
        assert (await admin.subscribe("app", quote(account))).json["account"] == account
        assert (await admin.delete(f"{SUBSCRIBERS}/{quote(account)}")).json == {"success": True}
    for account in ("nonsense", ETHEREUM.replace("0xab", "0xAB"), "%ed%a0%80"):
        assert (await admin.subscribe("app", account)).status == 400, account
        assert (await admin.delete(f"{SUBSCRIBERS}/{account}")).status == 400, account


async def test_types_that_a_project_does_not_have_are_named_and_change_nothing(admin: AdminClient) -> None:
    await admin.create("app", "news", "gone")
    await admin.create("other", "other")
    await admin.delete("/admin/projects/app/types/gone")
    await admin.subscribe("app", ETHEREUM, [])
    faults: list[tuple[Any, list[str]]] = [
        ("news", [""]), ({}, [""]), (["news"] * 257, [""]), ([1, "news", None], ["/0", "/2"]),
        (["other", "news", "gone"], ["/0", "/2"]),
    ]  # fmt: skip
    for types, places in faults:
        answer = await admin.put(f"{SUBSCRIBERS}/{ETHEREUM}", {"notification_types": types})
        assert pointers(answer.problem(400)) == [f"#/notification_types{place}" for place in places]
    misspelled = await admin.put(f"{SUBSCRIBERS}/{ETHEREUM}", {"notificationTypes": ["news"]})
    assert pointers(misspelled.problem(400)) == ["#/notificationTypes"]
    assert await admin.subscribed_types("app") == {ETHEREUM: []}


async def test_pages_hold_every_subscriber_once_and_begin_anywhere(admin: AdminClient) -> None:
    await admin.create("app", "news")
    accounts = [plain_account(number) for number in range(101)]
    for account in reversed(accounts):
        await admin.subscribe("app", account)

    for search in ("", "?search=test:"):
        pages = await admin.pages(SUBSCRIBERS + search, "subscribers", 40)
        found = [[entry["account"] for entry in page] for page in pages]
        assert found == [accounts[:40], accounts[40:80], accounts[80:]], search
        assert len(await admin.pages(SUBSCRIBERS + search, "subscribers", 101)) == 1
    assert len((await admin.get(SUBSCRIBERS)).json["subscribers"]) == 100
    for limit in ("0", "1001", "-1", "", "x", "1.5", "%D9%A1", "9" * 5000):
        problem = (await admin.get(f"{SUBSCRIBERS}?limit={limit}")).problem(400)
        assert "limit" in problem["detail"], limit
    for after in ("zzz", "%00", "%ff", "%ed%a0%80", "%F0%9F%98%80", "~" * 4000):
        page = (await admin.get(f"{SUBSCRIBERS}?limit=1000&after={after}")).json
        assert (page["next"], len(page["subscribers"])) == (None, 101 if after == "%00" else 0), after


async def test_subscribers_are_found_by_account_address_or_beginning(admin: AdminClient) -> None:
    await admin.create("app", "news")
    others = [plain_account(number) for number in range(3)]
    for account in (ETHEREUM, *others):
        await admin.subscribe("app", account)
    for search, found in (
        (ETHEREUM, [ETHEREUM]), (ETHEREUM.lower(), [ETHEREUM]), (ETHEREUM.replace(":1:", ":5:"), [ETHEREUM]),
        (ETHEREUM.rpartition(":")[2], [ETHEREUM]), ("eip155:1:0xab16", [ETHEREUM]),
        ("test:chain:0000000", others), (others[1], [others[1]]), ("test:chain:9", []),
        ("%F0%9F%98%80", []), ("", [ETHEREUM, *others]),
    ):  # fmt: skip
        answer = await admin.get(f"{SUBSCRIBERS}?search={search}")
        assert [entry["account"] for entry in answer.json["subscribers"]] == found, search


async def listed(admin: AdminClient) -> list[str]:
    return [kind["type_id"] for kind in (await admin.get(TYPES)).json["types"]]


async def test_a_type_has_an_id_that_is_made_if_it_is_left_out(admin: AdminClient) -> None:
    await admin.create("app")
    await admin.create("other", "news", "alerts")
    both = ["#/name", "#/type_id"]
    faults: list[tuple[dict[str, Any], list[str]]] = [
        ({}, ["#/name"]), ({"name": "", "type_id": ""}, both),
        ({"name": "x" * 65, "type_id": "x" * 65}, both), ({"name": "a\tb", "type_id": "a b"}, both),
        ({"name": [], "type_id": {}}, both), ({"name": "News", "type_id": "a/b"}, ["#/type_id"]),
    ]  # fmt: skip
    for fields, where in faults:
        assert pointers((await admin.post(TYPES, fields)).problem(400)) == where, fields
    assert await listed(admin) == []

    named = (await admin.post(TYPES, {"name": "Breaking news", "type_id": "News.1_a-Z"})).json
    names = ["News", "news!", "Price alerts", "NEWS", "Änderung", "速報", "News 2"]
    made = [(await admin.post(TYPES, {"name": name})).json["type_id"] for name in names]
    again = await admin.post(TYPES, {"name": "Again", "type_id": "news"})

    assert named == {"type_id": "News.1_a-Z", "name": "Breaking news", "created_at": NOW}
    assert made == ["news", "news-2", "price-alerts", "news-3", "anderung", "type", "news-2-2"]
    assert again.problem(409)["type"].endswith(":type-exists")
    assert await listed(admin) == ["News.1_a-Z", *made]
    for unknown in (await admin.put(f"{TYPES}/alerts", {"name": "A"}), await admin.delete(f"{TYPES}/alerts")):
        assert unknown.problem(404)["type"].endswith(":type-not-found")


async def test_subscriptions_keep_a_renamed_type_and_lose_a_removed_one(admin: AdminClient) -> None:
    secret = await admin.create("app", "news", "deals")
    await admin.create("other", "news")
    accounts = [plain_account(number) for number in range(3)]
    chosen = dict(zip(accounts, (["news"], ["news", "deals"], ["deals"]), strict=True))
    for account, types in chosen.items():
        await admin.subscribe("app", account, types)
    await admin.subscribe("other", ETHEREUM)
    admin.clock.advance(60)

    renamed = [(await admin.put(f"{TYPES}/news", {"name": "News today"})).json for _ in range(2)]
    kinds = (await admin.get(TYPES)).json["types"]
    assert kinds[0] == renamed[0] == renamed[1]
    assert kinds[0] == {"type_id": "news", "name": "News today", "created_at": NOW}
    assert await admin.subscribed_types("app") == chosen
    assert (await admin.notify("app", secret, "news", accounts[0])).json["sent"] == accounts[:1]
    assert (await admin.delete(f"{TYPES}/news")).json == {"success": True}

    left = dict(zip(accounts, ([], ["deals"], ["deals"]), strict=True))
    assert await listed(admin) == ["deals"]
    assert await admin.subscribed_types("app") == left
    assert await admin.subscribed_types("other") == {ETHEREUM: ["news"]}
    (await admin.notify("app", secret, "news", accounts[0])).problem(400)
    await admin.post(TYPES, {"name": "Again", "type_id": "news"})
    assert await admin.subscribed_types("app") == left
    await admin.subscribe("app", plain_account(9))
    assert await admin.subscribed_types("app") == left | {plain_account(9): ["news", "deals"]}


async def test_the_256th_type_is_taken_and_no_more(admin: AdminClient) -> None:
    await admin.create("app", *(f"type-{number}" for number in range(255)))
    last = await admin.post(TYPES, {"name": "Last"})
    refused = await admin.post(TYPES, {"name": "One more"})
    assert last.status == 200
    assert refused.problem(409)["type"].endswith(":too-many-types")
    assert len(await listed(admin)) == 256


async def test_a_webhook_has_another_secret_each_time(admin: AdminClient, receiver: WebhookReceiver) -> None:
    await admin.create("app")
    url, project = receiver.url("/removed?a=b"), "/admin/projects/app"
    faulty = (None, 7, "", "app.example/hook", "ftp://app.example", "https://", "https://app.example/é",
              "https://app.example/" + "x" * 2048)  # fmt: skip

    for fields in ({}, *({"url": each} for each in faulty)):
        assert pointers((await admin.put(WEBHOOK, fields)).problem(400)) == ["#/url"], fields
    assert (await admin.get(project)).json["webhook"] is None
    first, second = [(await admin.put(WEBHOOK, {"url": url})).json for _ in range(2)]
    for each in faulty:
        (await admin.put(WEBHOOK, {"url": each})).problem(400)

    assert first == {"url": url, "signing_secret": first["signing_secret"]}
    assert first["signing_secret"].startswith("whsec_")
    assert first["signing_secret"] != second["signing_secret"]
    assert (await admin.get(project)).json["webhook"] == url
    for _ in range(2):
        assert (await admin.delete(WEBHOOK)).json == {"success": True}
    await admin.subscribe("app", ETHEREUM)
    assert (await admin.get(project)).json["webhook"] is None
    await admin.put(WEBHOOK, {"url": receiver.url("/kept")})
    await admin.delete(f"{SUBSCRIBERS}/{ETHEREUM}")
    await receiver.got(1)
    assert [got.path for got in receiver.requests] == ["/kept"]
