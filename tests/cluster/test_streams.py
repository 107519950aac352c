"""Streams at two processes, while both send to their accounts."""

import asyncio
from contextlib import AsyncExitStack
from typing import Any

import orjson
import pytest

from tests.cluster.processes import ClusterProcess
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.asking import ask
from tests.support.event_reader import open_stream
from tests.support.inbox_client import InboxClient, sign_in
from tests.support.postgres import needs_postgres
from tests.support.project import NEWS, a_notification
from tests.support.slow import slow

pytestmark = needs_postgres

ACCOUNTS, PROJECTS, SENDINGS = 20, 50, 10


@pytest.fixture(scope="module")
def cluster_settings() -> dict[str, Any]:
    return {"admin_token": ADMIN_TOKEN, "account_burst": 1_000, "quota_exempt": '["127.0.0.1/32"]'}


@slow
async def test_no_stream_misses_or_repeats_one_of_ten_thousand_notifications_of_both_processes(
    pair: tuple[ClusterProcess, ClusterProcess],
) -> None:
    one, two = pair
    inboxes = [await sign_in(one.server, number) for number in range(1, ACCOUNTS + 1)]
    admin, secrets = AdminClient(one.server), {}
    for number in range(PROJECTS):
        project = f"project-{number}"
        secrets[project] = await admin.create(project, NEWS)
        subscribed = await asyncio.gather(*(admin.subscribe(project, each.account) for each in inboxes))
        assert {answer.status for answer in subscribed} <= {200, 201}

    async def send(project: str, secret: str) -> None:
        for number in range(SENDINGS):
            body = orjson.dumps(
                {
                    "notification": a_notification(title=f"{project} {number}"),
                    "accounts": [each.account for each in inboxes],
                }
            )
            sender = pair[(number + len(project)) % 2]
            headers = {"Authorization": f"Bearer {secret}"}
            answer = await ask(sender.server, "POST", f"/{project}/notify", body, headers)
            while answer.status == 503:  # nothing was stored, because others wrote for too long
                answer = await ask(sender.server, "POST", f"/{project}/notify", body, headers)
            assert answer.status == 200, answer

    async with AsyncExitStack() as stack:
        there = [InboxClient(two.server, each.wallet, each.token) for each in inboxes]
        streams = [await stack.enter_async_context(open_stream(inbox)) for inbox in (*inboxes, *there)]
        reading = [asyncio.create_task(stream.titles(PROJECTS * SENDINGS)) for stream in streams]
        await asyncio.gather(*(send(*each) for each in secrets.items()))
        found = await asyncio.gather(*reading)

    everything = sorted(f"{project} {number}" for project in secrets for number in range(SENDINGS))
    assert all(sorted(titles) == everything for titles in found)
    assert all(titles == found[0] for titles in found)
