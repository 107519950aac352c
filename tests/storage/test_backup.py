"""A copy of the database: whole, checked, private, and made while others write.

White-box: another process must come between the check of a copy and its last step.
"""

import asyncio
import os
import sqlite3
import subprocess
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from bridge_server.storage import backup as backup_module
from bridge_server.storage.backup import BackupError, backup
from tests.storage.notes import ask
from tests.support.drivers import make_notes_file
from tests.support.server import RunningServer
from tests.support.waiting import locked


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = make_notes_file(tmp_path)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("INSERT INTO notes (name) VALUES ('kept')")
    return file


@pytest.fixture
def target(tmp_path: Path) -> Path:
    return tmp_path / "copy.sqlite3"


async def test_a_backup_under_load_holds_what_was_answered(server: RunningServer, target: Path) -> None:
    answered: list[str] = []
    enough = asyncio.Event()

    async def keep_writing() -> None:
        while True:
            session_id = await server.open_session()
            await server.request_call(session_id, payload="sealed")
            answered.append(session_id)
            if len(answered) >= 100:
                enough.set()

    writers = [asyncio.create_task(keep_writing()) for _ in range(8)]
    await enough.wait()
    before = set(answered)
    await asyncio.to_thread(backup, server.settings.database_file, target)
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)

    assert ask(target, "PRAGMA integrity_check") == [("ok",)]
    assert ask(target, "PRAGMA foreign_key_check") == []
    with_calls = ask(
        target,
        "SELECT session_id FROM calls JOIN sessions ON sessions.id = session"
        " WHERE CAST(calls.payload AS TEXT) = '\"sealed\"'",
    )
    assert before <= {name for (name,) in with_calls}


def test_a_held_database_is_copied_for_its_owner_only(database: Path, tmp_path: Path, target: Path) -> None:
    with locked(database):
        size = backup(database, target)
    assert size == target.stat().st_size > 0
    assert S_IMODE(target.stat().st_mode) == 0o600
    assert ask(target, "SELECT name FROM notes") == [("kept",)]

    odd = tmp_path / "50% of what? #1 & 'more'"
    odd.mkdir()
    backup(database.rename(odd / "notes.sqlite3"), odd / "copy.sqlite3")
    assert ask(odd / "copy.sqlite3", "SELECT name FROM notes") == [("kept",)]


def test_a_copy_that_cannot_be_made_changes_nothing(database: Path, tmp_path: Path, target: Path) -> None:
    precious, text, damaged = [tmp_path / name for name in ("precious", "text.sqlite3", "header.sqlite3")]
    precious.write_text("precious")
    text.write_bytes(b"this is not a database, and never was one. " * 100)
    damaged.write_bytes(b"SQLite format 3\0")
    before = sorted(tmp_path.iterdir())

    for source, into, said in (
        (database, precious, "exists already"),
        (database, database, "exists already"),
        (tmp_path / "missing.sqlite3", target, "there is no database"),
        (database, tmp_path / "nowhere" / "copy.sqlite3", "failed"),
        (text, target, "failed"),
        (damaged, target, "failed"),
    ):
        with pytest.raises(BackupError, match=said):
            backup(source, into)
    assert sorted(tmp_path.iterdir()) == before
    assert precious.read_text() == "precious"
    assert ask(database, "SELECT name FROM notes") == [("kept",)]


def test_a_copy_that_does_not_pass_its_check_is_not_kept(database: Path, target: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO notes (name, number) VALUES ('against the rule', -1)")
    with pytest.raises(BackupError, match="damaged"):
        backup(database, target)
    assert not list(target.parent.glob("copy*"))


def test_the_first_copy_of_two_stays(database: Path, target: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, sizes = backup_module._check, []

    def check_after_another_process(file: Path) -> None:
        monkeypatch.setattr(backup_module, "_check", check)
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", os.getppid)
            sizes.append(backup(database, target))
        check(file)

    monkeypatch.setattr(backup_module, "_check", check_after_another_process)
    with pytest.raises(BackupError, match="exists already"):
        backup(database, target)

    assert sizes == [target.stat().st_size]
    assert ask(target, "SELECT name FROM notes") == [("kept",)]
    assert list(target.parent.glob("copy*")) == [target]


def test_what_a_killed_process_left_is_removed_and_nothing_else(database: Path, target: Path) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    removed = [f"{target.name}{number}.partial" for number in (f".{ended.pid}", f".{os.getpid()}", "")]
    kept = [f"{target.name}.{os.getppid()}.partial", f"other.sqlite3.{ended.pid}.partial", "notes.partial"]
    for name in (*removed, *kept):
        (target.parent / name).write_text("half")

    backup(database, target)
    assert sorted(path.name for path in target.parent.glob("*.partial")) == sorted(kept)
