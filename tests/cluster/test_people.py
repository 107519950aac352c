"""Operators and subscribers change something at one process, and the other goes by it at once."""

import asyncio
from typing import Any

import orjson
import pytest

from tests.cluster.processes import ClusterProcess
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import Answer, ask
from tests.support.event_reader import open_stream
from tests.support.figures import until_waiting
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.postgres import needs_postgres
from tests.support.project import NEWS, a_notification, account

pytestmark = needs_postgres

PROJECT = "app"


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    return {"admin_token": ADMIN_TOKEN}


@pytest.fixture(scope="module")
async def secret(pair: tuple[ClusterProcess, ClusterProcess]) -> str:
    """Of a project that the first process has made."""
    return await AdminClient(pair[0].server).create(PROJECT, NEWS)


async def notify(process: ClusterProcess, secret: str, account: str, **content: str) -> Answer:
    body = {"notification": a_notification(**content), "accounts": [account]}
    headers = {"Authorization": f"Bearer {secret}"}
    return await ask(process.server, "POST", f"/{PROJECT}/notify", orjson.dumps(body), headers)


def beside(process: ClusterProcess, inbox: InboxClient) -> InboxClient:
    """A client of this account's inbox at another process."""
    return InboxClient(process.server, inbox.wallet, inbox.token)


async def test_a_secret_that_is_revoked_at_one_process_is_refused_at_the_other(
    pair: tuple[ClusterProcess, ClusterProcess],
) -> None:
    first, second = pair
    admin = AdminClient(first.server)
    old = await admin.create("rotated", NEWS)
    path, headers = "/rotated/subscribers", {"Authorization": f"Bearer {old}"}
    lookup = ("POST", "/v1/rotated/subscribers", orjson.dumps({"accounts": [account(1)]}))
    assert (await ask(second.server, "GET", path, headers=headers)).status == 200
    assert (await ask(second.server, *lookup, headers)).status == 200

    new = (await admin.post("/admin/projects/rotated/secrets")).json
    fresh = {"Authorization": f"Bearer {new['secret']}"}
    assert (await admin.delete(f"/admin/projects/rotated/secrets/{new['number'] - 1}")).status in (200, 204)

    assert (await ask(second.server, *lookup, headers)).status == 401
    assert (await ask(second.server, "GET", path, headers=headers)).status == 401
    assert (await ask(second.server, "GET", path, headers=fresh)).status == 200


async def test_an_account_that_signs_in_at_one_process_reads_its_inbox_at_the_other_and_waits_there(
    pair: tuple[ClusterProcess, ClusterProcess], secret: str
) -> None:
    first, second = pair
    inbox = await sign_in(first.server, 1)
    there = beside(second, inbox)
    assert (await inbox.subscribe(PROJECT)).status == 200

    polling = asyncio.create_task(there.page("?wait=20"))
    await until_waiting(second.server, 1)
    assert (await notify(first, secret, inbox.account, title="Across")).status == 200

    assert [each["title"] for each in (await polling)["notifications"]] == ["Across"]


async def test_a_stream_tells_of_what_another_process_sends_and_ends_with_a_sign_out_there(
    pair: tuple[ClusterProcess, ClusterProcess], secret: str
) -> None:
    first, second = pair
    inbox = await sign_in(first.server, 2)
    assert (await inbox.subscribe(PROJECT)).status == 200

    async with open_stream(beside(second, inbox)) as stream:
        for number in range(10):
            sender = (first, second)[number % 2]
            assert (await notify(sender, secret, inbox.account, title=f"No. {number}")).status == 200
        assert await stream.titles(10) == [f"No. {number}" for number in range(10)]
        assert (await inbox.ask("POST", "/logout")).status in (200, 204)
        assert await stream.ended()

    assert (await beside(second, inbox).ask("GET", "/notifications")).status == 401
