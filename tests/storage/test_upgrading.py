"""A server that starts over the database of an older version."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bridge_server.assembly import engine
from bridge_server.storage.migrate import Migration, packaged_migrations
from tests.support.server import running_server


async def test_an_upgrade_keeps_a_copy_and_loses_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir, newest = tmp_path / "data", packaged_migrations()[-1].version
    async with running_server(data_dir) as server:
        session_id = await server.open_session()
        call_id = await server.request_call(session_id, payload="sealed")
    next_step = Migration(newest + 1, "next.sql", "CREATE TABLE more (name TEXT);")
    monkeypatch.setattr(engine, "packaged_migrations", lambda: [*packaged_migrations(), next_step])

    async with (
        running_server(data_dir) as server,
        server.client.get(f"{server.url}/session/{session_id}/calls") as response,
    ):
        assert await response.json() == {call_id: {"encryptionPayload": "sealed"}}

    copy = data_dir / f"bridge.sqlite3.before-upgrade-from-{newest}"
    with closing(sqlite3.connect(copy)) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (newest,)
        assert connection.execute("SELECT session_id FROM sessions").fetchall() == [(session_id,)]


async def test_a_step_that_fails_keeps_it_from_starting_and_the_older_version_still_can(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data_dir = tmp_path / "data"
    async with running_server(data_dir) as server:
        session_id = await server.open_session()
    bad_step = Migration(
        packaged_migrations()[-1].version + 1, "bad.sql", "DROP TABLE sessions; this is not SQL;"
    )

    with monkeypatch.context() as patch:
        patch.setattr(engine, "packaged_migrations", lambda: [*packaged_migrations(), bad_step])
        with pytest.raises(sqlite3.OperationalError):
            async with running_server(data_dir):
                pass

    async with (
        running_server(data_dir) as server,
        server.client.get(f"{server.url}/session/{session_id}") as response,
    ):
        assert response.status == 204
