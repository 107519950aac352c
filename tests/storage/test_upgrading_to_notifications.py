"""A database from before there were notifications keeps what it holds, and can hold them then."""

import sqlite3
from contextlib import closing
from pathlib import Path

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.project import account, opened_app
from tests.support.server import running_server

_HELD = """
INSERT INTO sessions (id, session_id, payload, expires_at_ms)
VALUES (1, 'session', x'226122', 9000000000000);
INSERT INTO calls (id, call_id, session, payload, expires_at_ms)
VALUES (7, 'call', 1, x'226222', 9000000000000);
INSERT INTO pending_calls (session, call, expires_at_ms) VALUES (1, 7, 9000000000000);
INSERT INTO outbox (message_id, destination, url, body, created_at_ms, next_attempt_at_ms)
VALUES ('message', 'http://127.0.0.1:9', 'http://127.0.0.1:9/', x'7b7d', 5, 9000000000000);
INSERT INTO buckets (limit_name, key, full_at_us) VALUES ('requests', '192.0.2.1', 9000000000000000);
"""


async def test_sessions_of_the_first_version_are_served_and_a_project_publishes(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    file = data_dir / "bridge.sqlite3"
    migrate(file, packaged_migrations()[:1])
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(_HELD)

    async with running_server(data_dir) as server, opened_app(server) as app:
        async with server.client.get(f"{server.url}/session/session/calls") as response:
            calls = await response.json()
        await app.subscribe(account(1))
        sent = await app.notify([account(1)])

    assert calls == {"call": {"encryptionPayload": "b"}}
    assert sent.json["sent"] == [account(1)]
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("SELECT message_id, signing_secret FROM outbox").fetchall() == [
            ("message", None)
        ]
        assert connection.execute("SELECT key FROM buckets WHERE limit_name = 'requests'").fetchall() == [
            ("192.0.2.1",)
        ]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []
    assert (data_dir / "bridge.sqlite3.before-upgrade-from-1").exists()
