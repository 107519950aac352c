"""A database from before there were pushes keeps its devices and what it owes them."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.figures import METRICS_TOKEN, until_delivered
from tests.support.inbox_client import sign_in
from tests.support.project import look, opened_app
from tests.support.push_client import PushClient
from tests.support.server import running_server
from tests.support.wallet import Wallet
from tests.support.webhook_receiver import open_receiver

_BEFORE = 2
_HELD = """
INSERT INTO accounts (id, account_key) VALUES (1, '{account}');
INSERT INTO devices (id, device_id, account, channel, address, created_at_ms)
VALUES (1, 'web', 1, 'webhook', '{url}', 5), (2, 'log', 1, 'log', 'log:inbox', 6);
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)
VALUES ('web.7', '{origin}', '{url}', x'7b7d', 5, 5),
       ('log.7', 'unreadable', 'log:inbox', x'7b7d', 5, 5),
       ('dead', '{origin}', '{url}', x'7b7d', 5, NULL);
UPDATE outbox SET died_at_ms = 1800000000000, last_error = 'late' WHERE message_id = 'dead';
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms) VALUES ('t', '{url}', 9000000000000);
"""


def facts(file: Path) -> list[Any]:
    """The schema: each table with its columns, each index with its SQL."""
    with closing(sqlite3.connect(file)) as connection:
        names = connection.execute("SELECT type, name, tbl_name FROM sqlite_master ORDER BY 1, 2").fetchall()
        tables = [name for kind, name, _ in names if kind == "table"]
        columns = [connection.execute(f"PRAGMA table_info({name})").fetchall() for name in tables]
        indexes = connection.execute("SELECT sql FROM sqlite_master WHERE type = 'index' ORDER BY name")
        return [names, columns, indexes.fetchall()]


async def test_devices_and_what_is_owed_to_them_are_kept_and_served(tmp_path: Path) -> None:
    wallet, data_dir = Wallet(1), tmp_path / "data"
    await asyncio.to_thread(data_dir.mkdir, mode=0o700)
    file = data_dir / "bridge.sqlite3"
    migrate(file, packaged_migrations()[:_BEFORE])
    settings: dict[str, Any] = {"metrics_token": METRICS_TOKEN, "allow_private_webhooks": True}
    async with open_receiver() as receiver:
        held = _HELD.format(
            account=wallet.account.replace("eip155:1:", "eip155:").lower(),
            url=receiver.url(),
            origin=f"http://127.0.0.1:{receiver.port}",
        )
        with closing(sqlite3.connect(file)) as connection:
            connection.executescript(held)

        async with running_server(data_dir, **settings) as server, opened_app(server) as app:
            await until_delivered(server)
            inbox = await sign_in(server)
            await inbox.subscribe(app.project_id)
            log_again = (await inbox.add_device("log")).json
            await app.notify([inbox.account], title="after")
            await until_delivered(server)
            registered = await PushClient(server).register()
            devices = await inbox.devices()
            kept = look(server, "SELECT message_id, last_error, device_id FROM outbox")
            reached = look(server, "SELECT device_id, delivered_at_ms IS NOT NULL, lane FROM devices")

    delivered = [request.headers["webhook-id"].partition(".")[0] for request in receiver.requests]
    assert delivered == ["web", "web"]
    assert [(device["id"], device["channel"]) for device in devices] == [("web", "webhook"), ("log", "log")]
    assert log_again == devices[1]
    assert kept == [("dead", "late", None)]
    assert reached == [("web", 1, None), ("log", 1, "log")]
    assert registered.status == 200


def test_an_upgraded_database_with_rows_has_the_schema_of_a_new_one(tmp_path: Path) -> None:
    upgraded, fresh = tmp_path / "upgraded.sqlite3", tmp_path / "fresh.sqlite3"
    migrate(upgraded, packaged_migrations()[:_BEFORE])
    with closing(sqlite3.connect(upgraded)) as connection:
        connection.executescript(
            _HELD.format(account="a", url="https://a.test/", origin="https://a.test:443")
        )

    migrate(upgraded, packaged_migrations())
    migrate(fresh, packaged_migrations())

    assert facts(upgraded) == facts(fresh)
    with closing(sqlite3.connect(upgraded)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
        assert connection.execute("SELECT count(*) FROM outbox").fetchall() == [(3,)]
