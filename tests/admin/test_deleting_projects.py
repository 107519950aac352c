"""A deleted project is out of sight at once, and soon nothing of it is left in the file."""

from tests.support.admin_client import AdminClient, plain_account
from tests.support.asking import ask
from tests.support.engines import database_of
from tests.support.eventually import eventually

PROJECT = "/admin/projects/app"
_STAYS = {"irn_id_blocks", "accounts", "outbox", "buckets"}
"""What knows nothing of projects."""


def tables(admin: AdminClient) -> dict[str, int]:
    """How many rows each table has that has any."""
    with database_of(admin.server.settings) as database:
        counts = {name: database.execute(f"SELECT count(*) FROM {name}")[0][0] for name in database.tables()}
    return {name: count for name, count in counts.items() if count and name not in _STAYS}


async def fill(admin: AdminClient, project_id: str) -> str:
    """Make a project that has left something in every table that knows of projects; returns its secret."""
    secret = await admin.create(project_id, "news", "deals")
    for number in range(3):
        await admin.subscribe(project_id, plain_account(number))
    await admin.subscribe(project_id, plain_account(4), ["deals"])
    accounts = [plain_account(number) for number in range(3)]
    await admin.notify(project_id, secret, "news", *accounts, plain_account(4))
    await admin.notify(project_id, secret, "news", plain_account(4))
    await admin.notify(project_id, secret, "news", *accounts, notification_id="once")
    await admin.delete(f"/admin/projects/{project_id}/types/news")
    return secret


async def test_deleted_project_is_gone_at_once(admin: AdminClient) -> None:
    secret = await fill(admin, "app")

    assert (await admin.delete(PROJECT)).json == {"success": True}

    (await admin.get(PROJECT)).problem(404)
    (await admin.delete(PROJECT)).problem(404)
    assert (await admin.get("/admin/projects")).json == {"projects": []}
    assert not await admin.opens("app", secret)
    for path in ("types", "subscribers", "analytics"):
        (await admin.get(f"{PROJECT}/{path}")).problem(404)


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


async def test_project_created_again_under_a_deleted_id_is_empty(admin: AdminClient) -> None:
    old_secret = await fill(admin, "app")
    await admin.delete(PROJECT)

    secret = await admin.create("app", "news")

    shown = (await admin.get(PROJECT)).json
    assert (shown["subscribers"], len(shown["types"]), len(shown["secrets"])) == (0, 1, 1)
    assert await admin.subscribed_types("app") == {}
    assert (await admin.get(f"{PROJECT}/analytics")).json["types"] == []
    assert not await admin.opens("app", old_secret)
    await admin.subscribe("app", plain_account(1))
    again = await admin.notify("app", secret, "news", plain_account(1), notification_id="once")
    assert again.json["sent"] == [plain_account(1)]
    assert (await admin.get(f"{PROJECT}/analytics")).json["total"]["sent"] == 1
    headers = {"Authorization": f"Bearer {secret}"}
    assert (await ask(admin.server, "GET", "/app/subscribers", headers=headers)).json == [plain_account(1)]
