"""A database from before pending marks were part of calls keeps its sessions, calls and statuses."""

import sqlite3
from contextlib import closing
from pathlib import Path

from bridge_server.storage.migrate import migrate, packaged_migrations
from tests.support.bridge_client import BridgeClient
from tests.support.clock import ManualClock
from tests.support.server import running_server

_BEFORE = 5
_LATER = 9_000_000_000_000
_HELD = f"""
INSERT INTO sessions (id, session_id, payload, push_type, push_token, push_webhook, expires_at_ms)
VALUES (1, 'open', NULL, NULL, NULL, NULL, {_LATER}),
       (4, 'paired', x'226122', 'log', 'token', 'https://example.org/hook', {_LATER + 4}),
       (5, 'ended', NULL, NULL, NULL, NULL, 0),
       (9, 'expired', x'226222', NULL, NULL, NULL, 5);
INSERT INTO calls (id, call_id, session, payload, expires_at_ms)
VALUES (3, 'second', 4, x'226322', {_LATER}), (2, 'first', 4, x'226422', {_LATER}),
       (6, 'answered', 4, x'226522', {_LATER}), (7, 'of-ended', 5, x'226622', {_LATER}),
       (8, 'lapsed', 4, x'226722', 5), (11, 'of-expired', 9, x'226822', {_LATER});
INSERT INTO pending_calls (session, call, expires_at_ms)
VALUES (4, 2, {_LATER}), (4, 3, {_LATER}), (4, 8, 5), (9, 11, {_LATER});
INSERT INTO call_statuses (call, payload, expires_at_ms)
VALUES (6, x'226922', {_LATER}), (7, x'226a22', {_LATER});
INSERT INTO topic_webhooks (topic, webhook, expires_at_ms)
VALUES ('paired', 'https://example.org/', {_LATER});
"""
_MOVED = {
    "sessions": "id, session_id, payload, push_type, push_token, push_webhook, expires_at_ms",
    "calls": "id, call_id, session, payload, expires_at_ms",
    "call_statuses": "call, payload, expires_at_ms",
    "topic_webhooks": "topic, webhook, expires_at_ms",
}


def held(file: Path) -> dict[str, list[tuple[object, ...]]]:
    with closing(sqlite3.connect(file)) as connection:
        return {
            table: connection.execute(f"SELECT {columns} FROM {table} ORDER BY 1").fetchall()
            for table, columns in _MOVED.items()
        }


def older(file: Path) -> None:
    migrate(file, packaged_migrations()[:_BEFORE])
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(_HELD)


def test_every_row_is_moved_as_it_is(tmp_path: Path) -> None:
    file = tmp_path / "bridge.sqlite3"
    older(file)
    before = held(file)

    migrate(file, packaged_migrations())

    assert held(file) == before
    with closing(sqlite3.connect(file)) as connection:
        listed = connection.execute("SELECT call_id FROM calls WHERE listed = 1 ORDER BY id").fetchall()
        assert listed == [("first",), ("second",), ("lapsed",), ("of-expired",)]
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert connection.execute("PRAGMA foreign_key_check").fetchall() == []


async def test_stored_calls_are_served_answered_and_swept(tmp_path: Path) -> None:
    data_dir = tmp_path / "data"
    data_dir.mkdir(mode=0o700)
    older(data_dir / "bridge.sqlite3")

    async with running_server(data_dir, clock=ManualClock()) as server:
        bridge = BridgeClient(server)
        statuses = [(await bridge.session(session_id)).status for session_id in ("open", "ended", "expired")]
        paired = (await bridge.session("paired")).json
        pending = await bridge.pending("paired")
        first, status = (await bridge.call("paired", "first")).json, (await bridge.status("answered")).json
        gone = [(await bridge.status(call_id)).status for call_id in ("of-ended", "of-expired", "lapsed")]
        await bridge.answer("first")
        left = await bridge.pending("paired")

    assert statuses == [204, 404, 404]
    assert paired == {"encryptionPayload": "a"}
    assert pending == ["first", "second"]
    assert first == {"encryptionPayload": "d"}
    assert status == {"encryptionPayload": "i"}
    assert gone == [404, 404, 404]
    assert left == ["second"]
