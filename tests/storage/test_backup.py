"""A copy of the database: whole, checked, private, and made while others write."""

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
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.waiting import locked

SESSIONS_WITH_CALLS = """
SELECT session_id, CAST(calls.payload AS TEXT) AS payload FROM calls JOIN sessions ON sessions.id = session
"""


@pytest.fixture
def database(tmp_path: Path) -> Path:
    file = make_notes_file(tmp_path)
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("INSERT INTO notes (name) VALUES ('kept')")
        connection.commit()
    return file


async def test_a_backup_under_load_holds_everything_that_was_answered_before_it(
    server: RunningServer, tmp_path: Path
) -> None:
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
    target = tmp_path / "copy.sqlite3"
    await asyncio.to_thread(backup, server.settings.database_file, target)
    for writer in writers:
        writer.cancel()
    await asyncio.gather(*writers, return_exceptions=True)

    assert ask(target, "PRAGMA integrity_check") == [("ok",)]
    assert ask(target, "PRAGMA foreign_key_check") == []
    copied = {name for (name,) in ask(target, "SELECT session_id FROM sessions")}
    with_calls = ask(target, f"SELECT session_id FROM ({SESSIONS_WITH_CALLS}) WHERE payload = '\"sealed\"'")
    assert before <= copied
    assert before <= {name for (name,) in with_calls}


def test_a_database_that_another_program_holds_is_copied_for_its_owner_only(
    database: Path, tmp_path: Path
) -> None:
    target = tmp_path / "copy.sqlite3"
    with locked(database):
        size = backup(database, target)

    assert size == target.stat().st_size > 0
    assert S_IMODE(target.stat().st_mode) == 0o600
    assert ask(target, "SELECT name FROM notes") == [("kept",)]


def test_a_database_whose_name_has_odd_characters_is_copied(database: Path, tmp_path: Path) -> None:
    odd = tmp_path / "50% of what? #1 & 'more'"
    odd.mkdir()
    source = database.rename(odd / "notes.sqlite3")

    backup(source, odd / "copy.sqlite3")

    assert ask(odd / "copy.sqlite3", "SELECT name FROM notes") == [("kept",)]


def test_a_copy_that_cannot_be_made_is_an_error_that_says_why_and_changes_nothing(
    database: Path, tmp_path: Path
) -> None:
    target, precious = tmp_path / "copy.sqlite3", tmp_path / "precious"
    precious.write_text("precious")
    before = sorted(tmp_path.iterdir())

    for source, into, said in (
        (database, precious, "exists already"),
        (database, database, "exists already"),
        (tmp_path / "missing.sqlite3", target, "there is no database"),
        (database, tmp_path / "nowhere" / "copy.sqlite3", "failed"),
    ):
        with pytest.raises(BackupError, match=said):
            backup(source, into)

    assert sorted(tmp_path.iterdir()) == before
    assert precious.read_text() == "precious"
    assert ask(database, "SELECT name FROM notes") == [("kept",)]


@each_row("content", [b"this is not a database, and never was one. " * 100, b"SQLite format 3\0"])
def test_a_file_that_is_not_a_database_is_not_copied(tmp_path: Path, content: bytes) -> None:
    source = tmp_path / "odd.sqlite3"
    source.write_bytes(content)

    with pytest.raises(BackupError, match="failed"):
        backup(source, tmp_path / "copy.sqlite3")

    assert [path.name for path in tmp_path.iterdir()] == ["odd.sqlite3"]


def test_a_copy_that_does_not_pass_its_check_is_not_kept(database: Path, tmp_path: Path) -> None:
    with closing(sqlite3.connect(database, isolation_level=None)) as connection:
        connection.execute("PRAGMA ignore_check_constraints = ON")
        connection.execute("INSERT INTO notes (name, number) VALUES ('against the rule', -1)")

    with pytest.raises(BackupError, match="damaged"):
        backup(database, tmp_path / "copy.sqlite3")

    assert not list(tmp_path.glob("copy*"))


def test_of_two_copies_to_one_name_the_second_is_refused_and_the_first_is_whole(
    database: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target, check, sizes = tmp_path / "copy.sqlite3", backup_module._check, []

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
    assert [path.name for path in tmp_path.glob("copy*")] == ["copy.sqlite3"]


def test_what_a_killed_process_left_is_removed_and_what_a_living_one_writes_is_not(
    database: Path, tmp_path: Path
) -> None:
    ended = subprocess.Popen(["true"])
    ended.wait()
    numbers = [f".{ended.pid}", f".{os.getpid()}", "", f".{os.getppid()}"]
    names = [f"copy.sqlite3{number}.partial" for number in numbers]
    others = [f"other.sqlite3.{ended.pid}.partial", "notes.partial"]
    for name in (*names, *others):
        (tmp_path / name).write_text("half")

    backup(database, tmp_path / "copy.sqlite3")

    left = sorted(path.name for path in tmp_path.glob("*.partial"))
    assert left == sorted([names[-1], *others])
