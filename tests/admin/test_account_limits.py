"""A project's own limit on what it sends to one account."""

from typing import Any

from tests.support.admin_client import AdminClient, plain_account
from tests.support.problems import pointers
from tests.support.rows import each_row

LIMIT = "/admin/projects/app/account-limit"


async def shown_limit(admin: AdminClient) -> Any:
    return (await admin.get("/admin/projects/app")).json["account_limit"]


@each_row(
    ("per_hour", "burst"),
    [(1, 1), (7, 3), (0.001, 1_000_000), (1_000_000, 1_000_000), (0.001, 1), (2.5, 50)],
    empties=True,
)
async def test_a_limit_is_answered_and_shown_as_it_was_set(
    admin: AdminClient, per_hour: float, burst: int
) -> None:
    await admin.create("app")

    for _ in range(2):
        answer = await admin.put(LIMIT, {"per_hour": per_hour, "burst": burst})

        assert answer.json == {"per_hour": per_hour, "burst": burst, "own": True}
    assert await shown_limit(admin) == answer.json


async def test_without_its_own_the_servers_limit_is_shown(admin: AdminClient) -> None:
    await admin.create("app")
    await admin.put(LIMIT, {"per_hour": 7, "burst": 3})

    for _ in range(2):
        assert (await admin.delete(LIMIT)).json == {"success": True}

    assert await shown_limit(admin) == {"per_hour": 2, "burst": 50, "own": False}


@each_row("burst", [1, 3], empties=True)
async def test_a_limit_applies_from_the_next_request(admin: AdminClient, burst: int) -> None:
    secret = await admin.create("app", "news")
    account = plain_account(1)
    await admin.subscribe("app", account)

    await admin.put(LIMIT, {"per_hour": 1, "burst": burst})

    sent = [(await admin.notify("app", secret, "news", account)).json["sent"] for _ in range(burst + 1)]
    assert sent == [[account]] * burst + [[]]


@each_row("burst", [1, 1_000_000], empties=True)
async def test_the_widest_limits_can_be_charged(admin: AdminClient, burst: int) -> None:
    secret = await admin.create("app", "news")
    account = plain_account(1)
    await admin.subscribe("app", account)

    await admin.put(LIMIT, {"per_hour": 0.001, "burst": burst})

    assert (await admin.notify("app", secret, "news", account)).json["sent"] == [account]


@each_row(
    ("fields", "where"),
    [
        ({}, ["#/per_hour", "#/burst"]),
        ({"per_hour": "2", "burst": "3"}, ["#/per_hour", "#/burst"]),
        ({"per_hour": 0, "burst": 0}, ["#/per_hour", "#/burst"]),
        ({"per_hour": 1_000_000.5, "burst": 1_000_001}, ["#/per_hour", "#/burst"]),
        ({"per_hour": 0.0009, "burst": 1.5}, ["#/per_hour", "#/burst"]),
        ({"per_hour": 1e-300, "burst": 1}, ["#/per_hour"]),
        ({"per_hour": -1, "burst": 10**18}, ["#/per_hour", "#/burst"]),
        ({"per_hour": True, "burst": True}, ["#/per_hour", "#/burst"]),
        ({"per_hour": None, "burst": None}, ["#/per_hour", "#/burst"]),
        ({"per_hour": 1}, ["#/burst"]),
    ],
    empties=True,
)
async def test_a_limit_out_of_range_is_refused_and_the_old_one_stays(
    admin: AdminClient, fields: dict[str, Any], where: list[str]
) -> None:
    await admin.create("app")
    before = (await admin.put(LIMIT, {"per_hour": 7, "burst": 3})).json

    problem = (await admin.put(LIMIT, fields)).problem(400)

    assert pointers(problem) == where
    assert await shown_limit(admin) == before
