"""Notifications that were sent and read, by type and by the day on which it was sent."""

from datetime import date
from typing import Any

import pytest

from tests.support.admin_client import AdminClient, plain_account
from tests.support.asking import ask
from tests.support.engines import database_of

ANALYTICS = "/admin/projects/app/analytics"
DAY = 86_400
NOTHING = {"sent": 0, "read": 0, "bulk_marked": 0, "read_rate": None}


def figures(sent: int, read: int = 0, bulk_marked: int = 0, read_rate: float | None = 0.0) -> dict[str, Any]:
    return {"sent": sent, "read": read, "bulk_marked": bulk_marked, "read_rate": read_rate}


def record_reads(admin: AdminClient, type_id: str, day: str, read: int) -> None:
    """As if so many of that day's notifications had been read by their users."""
    with database_of(admin.server.settings) as database:
        changed = database.changed(
            "UPDATE daily_figures SET read = ? WHERE day = ? AND type ="
            " (SELECT id FROM notification_types WHERE type_id = ?)",
            (read, (date.fromisoformat(day) - date(1970, 1, 1)).days, type_id),
        )
        assert changed == 1


@pytest.fixture
async def secret(admin: AdminClient) -> str:
    """The secret of a project with two types and four subscribers to both."""
    secret = await admin.create("app", "news", "deals")
    for number in range(4):
        await admin.subscribe("app", plain_account(number))
    return secret


async def send(admin: AdminClient, secret: str, type_id: str, accounts: int) -> None:
    wanted = [plain_account(number) for number in range(accounts)]
    assert (await admin.notify("app", secret, type_id, *wanted)).json["sent"] == wanted


async def test_a_project_that_sent_nothing_has_no_rate_and_30_days_that_end_today(
    admin: AdminClient, secret: str
) -> None:
    others = await admin.create("other", "news")
    await admin.subscribe("other", plain_account(1))
    await admin.notify("other", others, "news", plain_account(1))

    report = (await admin.get(ANALYTICS)).json

    days = report.pop("by_day")
    assert report == {
        "project_id": "app", "from": "2026-12-17", "to": "2027-01-15", "total": NOTHING, "types": [],
    }  # fmt: skip
    assert [days[0]["day"], days[-1]["day"], len(days)] == ["2026-12-17", "2027-01-15", 30]
    assert all(day == {"day": day["day"], **NOTHING, "types": []} for day in days)


async def test_sendings_count_for_their_day_and_type(admin: AdminClient, secret: str) -> None:
    await send(admin, secret, "deals", 2)
    await send(admin, secret, "deals", 1)
    await send(admin, secret, "news", 4)
    admin.clock.advance(2 * DAY)
    await send(admin, secret, "deals", 3)
    record_reads(admin, "deals", "2027-01-15", 1)
    record_reads(admin, "news", "2027-01-15", 4)

    report = (await admin.get(f"{ANALYTICS}?from=2027-01-15&to=2027-01-17")).json

    assert report["total"] == figures(10, 5, 0, 0.5)
    first = {"deals": figures(3, 1, 0, 1 / 3), "news": figures(4, 4, 0, 1.0)}
    days = [{"day": "2027-01-15", **first["deals"]}, {"day": "2027-01-17", **figures(3)}]
    assert report["types"] == [
        {"type_id": "news", "total": first["news"], "days": [{"day": "2027-01-15", **first["news"]}]},
        {"type_id": "deals", "total": figures(6, 1, 0, 1 / 6), "days": days},
    ]
    by_type = [{"type_id": name, **first[name]} for name in ("news", "deals")]
    assert report["by_day"] == [
        {"day": "2027-01-15", **figures(7, 5, 0, 5 / 7), "types": by_type},
        {"day": "2027-01-16", **NOTHING, "types": []},
        {"day": "2027-01-17", **figures(3), "types": [{"type_id": "deals", **figures(3)}]},
    ]


async def test_read_rate_leaves_out_notifications_marked_in_bulk_and_a_removed_type_keeps_its_figures(
    admin: AdminClient, secret: str
) -> None:
    await send(admin, secret, "news", 4)
    headers = {"Authorization": f"Bearer {secret}"}

    marked = await ask(admin.server, "POST", "/v1/app/mark-all-as-read", b"", headers)
    await admin.delete("/admin/projects/app/types/news")

    assert marked.json == {"marked": 4}
    report = (await admin.get(ANALYTICS)).json
    assert report["total"] == figures(4, 0, 4, None)
    assert [kind["type_id"] for kind in report["types"]] == ["news"]


async def test_both_ends_of_a_period_belong_to_it(admin: AdminClient, secret: str) -> None:
    for _ in range(3):
        await send(admin, secret, "news", 1)
        admin.clock.advance(DAY)
    admin.clock.advance(-DAY)

    for query, days in (
        ("?from=2027-01-15&to=2027-01-17", ["2027-01-15", "2027-01-16", "2027-01-17"]),
        ("?from=2027-01-16&to=2027-01-16", ["2027-01-16"]),
        ("?from=2027-01-16", ["2027-01-16", "2027-01-17"]),
        ("?to=2027-01-16", ["2027-01-15", "2027-01-16"]),
        ("?from=2027-01-18&to=2028-01-01", []),
        ("?to=1970-02-01", []),
    ):
        types = (await admin.get(ANALYTICS + query)).json["types"]
        assert [day["day"] for kind in types for day in kind["days"]] == days, query


async def test_a_period_has_366_days_at_most_and_may_lie_at_an_end_of_the_calendar(
    admin: AdminClient,
) -> None:
    await admin.create("app")

    for query in (
        "from=yesterday", "to=", "from=20270101", "to=2027-02-30", "from=2027-01-16&to=2027-01-15",
        "from=2027-01-16", "from=2026-01-15&to=2027-01-16", "to=1969-12-31", "from=9999-12-31",
    ):  # fmt: skip
        assert (await admin.get(f"{ANALYTICS}?{query}")).status == 400, query

    for query, first, last in (
        ("?from=2026-01-15&to=2027-01-15", "2026-01-15", "2027-01-15"),
        ("?to=1970-01-01", "1970-01-01", "1970-01-01"),
        ("?to=1970-01-30", "1970-01-01", "1970-01-30"),
        ("?to=1970-01-31", "1970-01-02", "1970-01-31"),
        ("?to=9999-12-31", "9999-12-02", "9999-12-31"),
    ):
        report = (await admin.get(ANALYTICS + query)).json
        assert (report["from"], report["to"], report["types"]) == (first, last, []), query
