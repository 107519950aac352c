"""A database from before notifications counted their outcomes: what is in the inboxes is counted."""

import asyncio
import sqlite3
from contextlib import closing
from pathlib import Path

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.server import running_server

_BEFORE = 10
_HELD = """
INSERT INTO projects (id, project_id, name, created_at_ms, read_through) VALUES (1, 'app', 'App', 1, 2);
INSERT INTO notification_types (id, project, type_id, name, created_at_ms) VALUES (1, 1, 'news', 'News', 1);
INSERT INTO accounts (id, account_key) VALUES (1, 'test:chain:1'), (2, 'test:chain:2'), (3, 'test:chain:3');
INSERT INTO notifications (id, project, type, idempotency_key, title, body) VALUES
    (1, 1, 1, 'walk', 'Title', 'Body'), (2, 1, 1, NULL, 'Title', 'Body'), (3, 1, 1, 'gone', 'Title', 'Body');
INSERT INTO sendings (id, project, type, notification, sent_at_ms) VALUES
    (1, 1, 1, 1, 1800000000000), (2, 1, 1, 2, 1800000000001), (3, 1, 1, 1, 1800000000002);
INSERT INTO deliveries (account, sending, read_at_ms) VALUES
    (1, 1, 1800000000000), (2, 1, NULL), (3, 3, NULL), (1, 2, NULL);
INSERT INTO covered_accounts (notification, account) VALUES (1, 1), (1, 2), (1, 3), (3, 1);
"""


async def test_earlier_notifications_have_figures_and_outcomes(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    await asyncio.to_thread(data_dir.mkdir, mode=0o700)
    file = data_dir / "bridge.sqlite3"
    migrate(file, packaged_migrations()[:_BEFORE])
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(_HELD)

    async with running_server(data_dir, admin_token=ADMIN_TOKEN) as server:
        admin = AdminClient(server)
        listed = (await admin.get("/admin/projects/app/notifications")).json["notifications"]
        shown = (await admin.get("/admin/projects/app/notifications/1")).json

    counts = [
        (one["number"], one["sent_at"], *(one["figures"][name] for name in ("sent", "read", "bulk_marked")))
        for one in listed
    ]
    assert counts == [
        (3, None, 0, 0, 0),
        (2, "2027-01-15T08:00:00.001Z", 1, 0, 1),
        (1, "2027-01-15T08:00:00.000Z", 3, 1, 1),
    ]
    assert [entry["outcome"] for entry in shown["accounts"]] == ["read", "bulk_marked", "sent"]
