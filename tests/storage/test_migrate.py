"""Bringing the schema up to date: in order, whole steps only, never without a copy, never backwards."""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from stat import S_IMODE

import pytest

from bridge_server.storage.data_directory import DataDirectoryError
from bridge_server.storage.migrate import Migration, NewerSchemaError, migrate, packaged_migrations

FIRST = Migration(
    1,
    "0001_notes.sql",
    "-- Notes.\nCREATE TABLE notes (name TEXT PRIMARY KEY);\nINSERT INTO notes VALUES ('kept');\n",
)
SECOND = Migration(2, "0002_text.sql", "ALTER TABLE notes ADD COLUMN text TEXT NOT NULL DEFAULT 'x';")
THIRD = Migration(
    3,
    "0003_tags.sql",
    """
CREATE TABLE tags (note TEXT REFERENCES notes (name), tag TEXT);
CREATE INDEX tags_by_note ON tags (note);
UPDATE notes SET text = 'filled';
""",
)
CHAIN = [FIRST, SECOND, THIRD]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "bridge.sqlite3"


def ask(file: Path, sql: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(file)) as connection:
        return connection.execute(sql).fetchall()


def version(file: Path) -> object:
    return ask(file, "PRAGMA user_version")[0][0]


def schema(file: Path) -> list[tuple[object, ...]]:
    return ask(file, "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name")


def columns(file: Path) -> dict[object, list[tuple[object, ...]]]:
    tables = [name for (name,) in ask(file, "SELECT name FROM sqlite_master WHERE type = 'table'")]
    return {table: ask(file, f"PRAGMA table_xinfo({table})") for table in tables}


def test_a_new_file_gets_every_step(file: Path) -> None:
    saved = migrate(file, CHAIN)

    assert saved is None
    assert version(file) == 3
    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]
    assert ask(file, "PRAGMA journal_mode") == [("wal",)]


def test_a_file_that_is_up_to_date_is_left_alone(file: Path) -> None:
    migrate(file, CHAIN)
    before = schema(file)

    saved = migrate(file, CHAIN)

    assert saved is None
    assert schema(file) == before
    assert sorted(path.name for path in file.parent.iterdir()) == [file.name]


@pytest.mark.parametrize("known", [1, 2])
def test_an_older_file_is_copied_before_the_missing_steps_are_taken(file: Path, known: int) -> None:
    migrate(file, CHAIN[:known])

    saved = migrate(file, CHAIN)

    assert saved == file.with_name(f"bridge.sqlite3.before-upgrade-from-{known}")
    assert version(saved) == known
    assert ask(saved, "SELECT name FROM notes") == [("kept",)]
    assert version(file) == 3
    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]


def test_a_copy_that_an_earlier_attempt_left_is_replaced(file: Path) -> None:
    migrate(file, CHAIN[:1])
    file.with_name("bridge.sqlite3.before-upgrade-from-1").write_text("half a copy")
    file.with_name("bridge.sqlite3.before-upgrade-from-1.partial").write_text("less than half")

    saved = migrate(file, CHAIN)

    assert saved is not None
    assert version(saved) == 1


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE notes ADD COLUMN text TEXT; INSERT INTO nowhere VALUES (1);",
        "DELETE FROM notes; this is not SQL;",
        "CREATE TABLE more (name TEXT); INSERT INTO notes VALUES ('kept');",
        "DELETE FROM notes; CREATE TABLE unfinished (",
    ],
)
def test_a_step_that_fails_leaves_the_one_before_it_with_its_data(file: Path, sql: str) -> None:
    migrate(file, CHAIN[:1])
    before = schema(file)

    with pytest.raises(sqlite3.Error):
        migrate(file, [FIRST, Migration(2, "0002_bad.sql", sql), THIRD])

    assert version(file) == 1
    assert schema(file) == before
    assert ask(file, "SELECT * FROM notes") == [("kept",)]
    migrate(file, CHAIN)
    assert version(file) == 3


def test_the_steps_before_a_failing_one_stay(file: Path) -> None:
    migrate(file, CHAIN[:1])

    with pytest.raises(sqlite3.Error):
        migrate(file, [FIRST, SECOND, Migration(3, "0003_bad.sql", "DROP TABLE notes; SELECT * FROM notes;")])

    assert version(file) == 2
    assert ask(file, "SELECT * FROM notes") == [("kept", "x")]


def test_of_a_new_file_with_a_failing_step_nothing_stays(file: Path) -> None:
    with pytest.raises(sqlite3.Error):
        migrate(file, [FIRST, Migration(2, "0002_bad.sql", "this is not SQL;")])

    assert list(file.parent.iterdir()) == []


def test_what_a_killed_first_start_has_left_is_replaced(file: Path) -> None:
    for name in ("", "-wal", "-shm", "-journal"):
        file.with_name(f"{file.name}.creating{name}").write_bytes(b"unfinished")

    migrate(file, CHAIN)

    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]
    assert [each.name for each in file.parent.iterdir()] == [file.name]


def test_the_log_of_a_database_that_was_deleted_is_not_applied_to_a_new_one(file: Path) -> None:
    migrate(file, CHAIN)
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        connection.execute("DELETE FROM notes")
        log = file.with_name(f"{file.name}-wal").read_bytes()
    file.unlink()
    file.with_name(f"{file.name}-wal").write_bytes(log)

    migrate(file, CHAIN)

    assert ask(file, "SELECT * FROM notes") == [("kept", "filled")]


def test_an_empty_file_is_refused_and_its_log_stays(file: Path) -> None:
    file.touch()
    log = file.with_name(f"{file.name}-wal")
    log.write_bytes(b"what is left of the data")

    with pytest.raises(DataDirectoryError, match=r"is an empty file.*bridge-server restore FILE"):
        migrate(file, CHAIN)

    assert file.stat().st_size == 0
    assert log.read_bytes() == b"what is left of the data"


def test_a_file_of_a_newer_program_is_refused_and_not_touched(file: Path) -> None:
    migrate(file, CHAIN)
    before = file.read_bytes()

    with pytest.raises(NewerSchemaError) as caught:
        migrate(file, CHAIN[:2])

    assert str(file) in str(caught.value)
    assert "version 3" in str(caught.value)
    assert "up to 2" in str(caught.value)
    assert file.read_bytes() == before


def test_the_packaged_steps_are_numbered_without_a_gap() -> None:
    migrations = packaged_migrations()

    assert [migration.version for migration in migrations] == list(range(1, len(migrations) + 1))


def test_a_new_file_has_the_newest_packaged_version(file: Path) -> None:
    migrate(file, packaged_migrations())

    assert version(file) == packaged_migrations()[-1].version


@pytest.mark.parametrize("chain", [lambda: CHAIN, packaged_migrations], ids=["example", "packaged"])
def test_a_schema_that_was_upgraded_step_by_step_equals_a_new_one(
    tmp_path: Path, chain: Callable[[], list[Migration]]
) -> None:
    migrations = chain()
    fresh, upgraded = tmp_path / "fresh.sqlite3", tmp_path / "upgraded.sqlite3"

    migrate(fresh, migrations)
    for known in range(1, len(migrations) + 1):
        migrate(upgraded, migrations[:known])

    assert schema(upgraded) == schema(fresh)
    assert columns(upgraded) == columns(fresh)
    assert version(upgraded) == version(fresh)


def test_every_packaged_table_and_index_is_sound(file: Path) -> None:
    migrate(file, packaged_migrations())

    assert ask(file, "PRAGMA integrity_check") == [("ok",)]
    assert ask(file, "PRAGMA foreign_key_check") == []


def test_the_file_and_its_copy_are_for_their_owner_only(file: Path) -> None:
    migrate(file, CHAIN[:1])

    saved = migrate(file, CHAIN)

    assert saved is not None
    assert S_IMODE(file.stat().st_mode) == 0o600
    assert S_IMODE(saved.stat().st_mode) == 0o600
