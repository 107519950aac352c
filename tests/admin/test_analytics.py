"""Notifications that were sent and read, by type and by the day on which it was sent."""

from typing import Any

import pytest

from tests.support.admin_client import AdminClient, plain_account
from tests.support.asking import ask

ANALYTICS = "/admin/projects/app/analytics"
DAY = 86_400
NOTHING = {"sent": 0, "read": 0, "bulk_marked": 0, "read_rate": None}


def figures(sent: int, read: int = 0, bulk_marked: int = 0, read_rate: float | None = 0.0) -> dict[str, Any]:
    return {"sent": sent, "read": read, "bulk_marked": bulk_marked, "read_rate": read_rate}


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


async def test_sendings_count_for_their_day_and_type(admin: AdminClient, secret: str) -> None:
    others = await admin.create("other", "theirs")
    await admin.subscribe("other", plain_account(1))
    await admin.notify("other", others, "theirs", plain_account(1))
    report = (await admin.get(ANALYTICS)).json
    days = report.pop("by_day")
    period = {"from": "2026-12-17", "to": "2027-01-15"}
    assert report == {"project_id": "app", **period, "total": NOTHING, "types": []}
    assert [days[0]["day"], days[-1]["day"], len(days)] == ["2026-12-17", "2027-01-15", 30]
    assert all(day == {"day": day["day"], **NOTHING, "types": []} for day in days)

    for type_id, accounts in (("deals", 2), ("deals", 1), ("news", 4)):
        await send(admin, secret, type_id, accounts)
    admin.clock.advance(2 * DAY)
    await send(admin, secret, "deals", 3)
    for type_id, read in (("deals", 1), ("news", 4)):  # so many of the first day
        sql = """
            UPDATE daily_figures SET read = ? WHERE day = (SELECT min(day) FROM daily_figures)
            AND type = (SELECT id FROM notification_types WHERE type_id = ?)
        """
        assert admin.server.change(sql, read, type_id) == 1

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


async def test_marks_in_bulk_and_removed_types_in_the_figures(admin: AdminClient, secret: str) -> None:
    await send(admin, secret, "news", 4)
    headers = {"Authorization": f"Bearer {secret}"}
    marked = await ask(admin.server, "POST", "/v1/app/mark-all-as-read", b"", headers)
    await admin.delete("/admin/projects/app/types/news")
    assert marked.json == {"marked": 4}
    report = (await admin.get(ANALYTICS)).json
    assert report["total"] == figures(4, 0, 4, None)
    assert [kind["type_id"] for kind in report["types"]] == ["news"]


async def test_both_ends_of_a_period_of_366_days_belong_to_it(admin: AdminClient, secret: str) -> None:
    for _ in range(3):
        await send(admin, secret, "news", 1)
        admin.clock.advance(DAY)
    admin.clock.advance(-DAY)

    for query in (
        "from=yesterday", "to=", "from=20270101", "to=2027-02-30", "from=2027-01-16&to=2027-01-15",
        "from=2027-01-18", "from=2026-01-15&to=2027-01-16", "to=1969-12-31", "from=9999-12-31",
    ):  # fmt: skip
        assert (await admin.get(f"{ANALYTICS}?{query}")).status == 400, query
    sent = ["2027-01-15", "2027-01-16", "2027-01-17"]
    for query, first, last, days in (
        ("from=2027-01-15&to=2027-01-17", sent[0], sent[2], sent),
        ("from=2027-01-16&to=2027-01-16", sent[1], sent[1], sent[1:2]),
        ("from=2027-01-16", sent[1], sent[2], sent[1:]),
        ("to=2027-01-16", "2026-12-18", sent[1], sent[:2]),
        ("from=2027-01-18&to=2028-01-01", "2027-01-18", "2028-01-01", []),
        ("from=2026-01-15&to=2027-01-15", "2026-01-15", sent[0], sent[:1]),
        ("to=1970-01-01", "1970-01-01", "1970-01-01", []),
        ("to=1970-01-30", "1970-01-01", "1970-01-30", []),
        ("to=1970-01-31", "1970-01-02", "1970-01-31", []),
        ("to=9999-12-31", "9999-12-02", "9999-12-31", []),
    ):
        report = (await admin.get(f"{ANALYTICS}?{query}")).json
        found = [day["day"] for kind in report["types"] for day in kind["days"]]
        assert (report["from"], report["to"], found) == (first, last, days), query
