"""SIGKILL under load: whatever was answered 200 is there after a restart, and what was due is delivered."""

import asyncio
import socket
import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, closing
from pathlib import Path
from random import Random
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp import web

from bridge_server.kernel.clock import SystemClock
from tests.support.bridge_client import BridgeClient
from tests.support.engines import settings_over
from tests.support.loads import Content, Ledger, NotifyLoad, WriteLoad
from tests.support.project import NEWS, accounts, operator_beside, subscribe
from tests.support.rows import each_row
from tests.support.server import reached, server_process
from tests.support.waiting import eventually
from tests.support.webhook_receiver import WebhookReceiver


async def losses(client: aiohttp.ClientSession, url: str, ledger: Ledger) -> list[str]:
    """A line for everything in the ledger that the server no longer has as it was answered."""
    calls = ledger.calls.items()
    owed = {
        **{f"/session/{session_id}": content for session_id, content in ledger.sessions.items()},
        **{f"/session/{session}/call/{call}": Content(payload) for (session, call), payload in calls},
        **{f"/call-status/{call_id}": content for call_id, content in ledger.statuses.items()},
    }

    async def loss(path: str) -> str | None:
        async with client.get(f"{url}{path}") as response:
            found = (await response.json())["encryptionPayload"] if response.status == 200 else None
        if response.status in (200, 204) and owed[path].may_be(found):
            return None
        return f"{path}: {response.status} {found} instead of {owed[path]}"

    return [line for line in await asyncio.gather(*map(loss, owed)) if line is not None]


def ask(directory: Path, sql: str) -> list[tuple[Any, ...]]:
    """Look into the database file."""
    with closing(sqlite3.connect(directory / "bridge.sqlite3")) as connection:
        return connection.execute(sql).fetchall()


def assert_sound(directory: Path, *finding_faults: str) -> None:
    """The file is whole, and these queries find nothing."""
    assert ask(directory, "PRAGMA integrity_check") == [("ok",)]
    for sql in ("PRAGMA foreign_key_check", *finding_faults):
        assert ask(directory, sql) == [], sql


@each_row("seed", [1, 2])
async def test_everything_that_was_answered_survives_a_kill(tmp_path: Path, seed: int) -> None:
    chance, ledger, data_dir, rounds = Random(seed), Ledger(), tmp_path / "data", 2
    for _ in range(rounds):
        async with aiohttp.ClientSession() as client:
            with server_process(data_dir) as server:
                load = asyncio.create_task(WriteLoad(client, server.url, ledger, chance).run(16))
                await ledger.reaches(ledger.answers + chance.randint(50, 800))
                server.kill()
                await load

    async with aiohttp.ClientSession() as client:
        with server_process(data_dir) as server:
            assert await losses(client, server.url, ledger) == []
            assert server.stop() == 0
    assert ledger.answers >= 50 * rounds
    assert_sound(data_dir, "SELECT id FROM calls WHERE session NOT IN (SELECT id FROM sessions)")


_DELIVERED = """
SELECT projects.project_id, notifications.idempotency_key, accounts.account_key, count(*)
FROM deliveries JOIN accounts ON accounts.id = deliveries.account
JOIN sendings ON sendings.id = deliveries.sending JOIN projects ON projects.id = sendings.project
JOIN notifications ON notifications.id = sendings.notification GROUP BY 1, 2, 3
"""
_COVERED = """
SELECT projects.project_id, notifications.idempotency_key, accounts.account_key
FROM covered_accounts JOIN accounts ON accounts.id = covered_accounts.account
JOIN notifications ON notifications.id = covered_accounts.notification
JOIN projects ON projects.id = notifications.project
"""
_UNCHARGED = """
SELECT sendings.project, deliveries.account, count(*) FROM deliveries
JOIN sendings ON sendings.id = deliveries.sending
LEFT JOIN account_buckets ON account_buckets.project = sendings.project
    AND account_buckets.account = deliveries.account
GROUP BY 1, 2, account_buckets.full_at_us
HAVING coalesce(account_buckets.full_at_us, 0) < min(sendings.sent_at_ms) * 1000 + count(*) * 1800000000
"""
_MISCOUNTED = """
SELECT project, sum(sent) FROM daily_figures GROUP BY project EXCEPT
SELECT sendings.project, count(*) FROM deliveries JOIN sendings ON sendings.id = deliveries.sending GROUP BY 1
"""
_MISCOUNTED_NOTIFICATIONS = """
SELECT id, sent FROM notifications EXCEPT
SELECT sendings.notification, count(*) FROM deliveries
JOIN sendings ON sendings.id = deliveries.sending GROUP BY 1
"""


@pytest.mark.parametrize("seed", [1, 2])
async def test_every_answered_notification_survives_a_kill_once(tmp_path: Path, seed: int) -> None:
    data_dir, everybody = tmp_path / "data", accounts(300)
    secrets = []
    async with aiohttp.ClientSession() as client:
        with server_process(data_dir) as server:
            async with operator_beside(settings_over(data_dir), SystemClock()) as operator:
                for number in range(6):
                    project, secret = await operator.projects.create(f"App {number}")
                    await operator.projects.add_type(project.project_id, "News", NEWS)
                    await subscribe(operator, project.project_id, everybody)
                    secrets.append((project.project_id, secret.secret))
            load = NotifyLoad(client, server.url, secrets, everybody, Random(seed))
            calls = asyncio.create_task(load.run())
            await load.reaches(60)
            server.kill()
            await calls

    with server_process(data_dir) as server:
        assert server.stop() == 0

    owed, possible = (
        {
            (project_id, notification_id, account_id.replace("eip155:1:", "eip155:"))
            for project_id, ledger in load.ledgers.items()
            for notification_id, reached in getattr(ledger, name).items()
            for account_id in reached
        }
        for name in ("sent", "asked")
    )
    delivered = ask(data_dir, _DELIVERED)
    found = {row[:3] for row in delivered}
    assert {row[3] for row in delivered} == {1}
    assert owed <= found <= possible
    assert set(ask(data_dir, _COVERED)) == found
    assert_sound(data_dir, _UNCHARGED, _MISCOUNTED, _MISCOUNTED_NOTIFICATIONS)


async def test_webhooks_that_were_due_before_a_kill_are_delivered_after_the_restart(tmp_path: Path) -> None:
    data_dir, calls = tmp_path / "data", 20
    with closing(socket.create_server(("127.0.0.1", 0))) as listening:
        port = listening.getsockname()[1]
        with server_process(data_dir, "--allow-private-webhooks") as server:
            async with reached(server) as running:
                bridge = BridgeClient(running)
                session_id = await bridge.open_session()
                push = {"type": "fcm", "token": "token", "webhook": f"http://127.0.0.1:{port}/push"}
                assert (await bridge.update(session_id, push=push)).status == 200
                await bridge.subscribe(session_id, f"http://127.0.0.1:{port}/topic")
                call_ids = [await bridge.request_call(session_id) for _ in range(calls)]
                server.kill()
        hang_up(listening)

        with server_process(data_dir, "--allow-private-webhooks"):
            async with receiver_on(listening) as receiver:
                await receiver.got(2 * calls)
                await eventually(lambda: ask(data_dir, "SELECT count(*) FROM outbox") == [(0,)])

    pushed = [orjson.loads(request.body) for request in receiver.requests if request.path == "/push"]
    told = [orjson.loads(request.body) for request in receiver.requests if request.path == "/topic"]
    assert sorted(notice["callId"] for notice in pushed) == sorted(call_ids)
    assert told == [{"topic": session_id}] * calls
    assert len({request.headers["webhook-id"] for request in receiver.requests}) == 2 * calls


def hang_up(listening: socket.socket) -> None:
    """Drop the connections of the killed server, which have no answer yet."""
    listening.setblocking(False)
    try:
        while True:
            listening.accept()[0].close()
    except BlockingIOError:
        return


@asynccontextmanager
async def receiver_on(listening: socket.socket) -> AsyncIterator[WebhookReceiver]:
    """A receiver on a socket that has been listening all the time."""
    receiver = WebhookReceiver()
    runner = web.ServerRunner(web.Server(receiver.handle, access_log=None), shutdown_timeout=1)
    await runner.setup()
    await web.SockSite(runner, listening).start()
    try:
        yield receiver
    finally:
        await runner.cleanup()
