"""`restore FILE`: a backup takes the database's place, and nothing else does."""

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.cli.conftest import Invoke
from tests.cli.operating import Operating
from tests.support.command import watched_server


@pytest.fixture
def operating(tmp_path: Path, invoke: Invoke) -> Operating:
    """A database with a project `first`, a backup of it, and a second project made since."""
    operating = Operating(invoke, tmp_path / "data")
    operating.text("project", "create", "First", "--id", "first")
    operating.text("backup", tmp_path / "backup.sqlite3")
    operating.text("project", "create", "Second", "--id", "second")
    return operating


def projects(operating: Operating) -> list[str]:
    return sorted(each["project_id"] for each in operating.json("project", "list")["projects"])


def test_the_backup_takes_the_place_and_the_database_of_before_is_kept(
    operating: Operating, tmp_path: Path
) -> None:
    backup = (tmp_path / "backup.sqlite3").read_bytes()

    done = operating.json("restore", tmp_path / "backup.sqlite3")

    assert projects(operating) == ["first"]
    assert (tmp_path / "backup.sqlite3").read_bytes() == backup
    kept = Path(done["kept"])
    assert kept.parent == operating.data_dir
    with closing(sqlite3.connect(kept)) as connection:
        rows = connection.execute("SELECT project_id FROM projects ORDER BY 1").fetchall()
    assert rows == [("first",), ("second",)]
    assert Path(done["database"]).stat().st_mode & 0o077 == 0


def test_the_replaced_database_is_kept_and_can_be_restored(operating: Operating, tmp_path: Path) -> None:
    kept = operating.json("restore", tmp_path / "backup.sqlite3")["kept"]

    operating.text("restore", kept)

    assert projects(operating) == ["first", "second"]


def test_a_new_machine_gets_the_backup(operating: Operating, tmp_path: Path, invoke: Invoke) -> None:
    elsewhere = Operating(invoke, tmp_path / "elsewhere")

    said = elsewhere.text("restore", tmp_path / "backup.sqlite3").splitlines()

    assert said[0].startswith(f"{tmp_path / 'elsewhere' / 'bridge.sqlite3'}: restored, ")
    assert said[1] == "there was no database before"
    assert projects(elsewhere) == ["first"]


def test_a_database_that_cannot_be_read_is_kept_with_its_log(operating: Operating, tmp_path: Path) -> None:
    database = operating.data_dir / "bridge.sqlite3"
    database.write_bytes(b"not a database" * 1_000)
    database.with_name("bridge.sqlite3-wal").write_bytes(b"its log")

    kept = Path(operating.json("restore", tmp_path / "backup.sqlite3")["kept"])

    assert kept.read_bytes().startswith(b"not a database")
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"its log"
    assert projects(operating) == ["first"]


def test_the_log_of_a_deleted_database_is_not_applied_to_the_backup(
    operating: Operating, tmp_path: Path
) -> None:
    database = operating.data_dir / "bridge.sqlite3"
    log = database.with_name("bridge.sqlite3-wal")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("UPDATE projects SET name = 'Changed'")
        connection.commit()
        left = log.read_bytes()  # as kill -9 leaves it
    database.unlink()
    log.write_bytes(left)

    done = operating.json("restore", tmp_path / "backup.sqlite3")

    assert done["kept"] is None
    assert [each["name"] for each in operating.json("project", "list")["projects"]] == ["First"]
    kept = operating.data_dir.glob("bridge.sqlite3.before-restore-*-wal")
    assert [each.read_bytes() for each in kept] == [left]


def test_a_running_server_is_not_robbed_of_its_database(tmp_path: Path, invoke: Invoke) -> None:
    with watched_server(tmp_path) as server:
        operating = Operating(invoke, tmp_path / "data")
        operating.text("backup", tmp_path / "backup.sqlite3")

        refusal = operating.refusal("restore", tmp_path / "backup.sqlite3")

        assert f"another server (process {server.process.pid}) uses the data directory" in refusal
    assert not list(operating.data_dir.glob("*before-restore*"))


def with_version(file: Path, version: int) -> None:
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute(f"PRAGMA user_version = {version}")


def other_program(file: Path) -> None:
    file.unlink()
    with closing(sqlite3.connect(file)) as connection, connection:
        connection.execute("CREATE TABLE things (id)")
        connection.execute("PRAGMA user_version = 3")


def damaged(file: Path) -> None:
    content = bytearray(file.read_bytes())
    for page in range(2, len(content) // 4096):
        content[page * 4096 : page * 4096 + 64] = b"\xff" * 64
    file.write_bytes(content)


@pytest.mark.parametrize(
    ("spoil", "fault"),
    [
        (lambda file: file.unlink(), "there is no file"),
        (lambda file: file.write_bytes(b"text"), "cannot be read as a database"),
        (lambda file: file.write_bytes(b""), "is no database of this server"),
        (other_program, "is no database of this server"),
        (
            lambda file: with_version(file, 999),
            "has schema version 999, and this program knows versions up to",
        ),
        (damaged, "name another backup"),
    ],
)
def test_another_file_is_refused_and_nothing_is_changed(
    operating: Operating, tmp_path: Path, spoil: object, fault: str
) -> None:
    file = tmp_path / "backup.sqlite3"
    assert callable(spoil)
    spoil(file)
    before = (operating.data_dir / "bridge.sqlite3").read_bytes()

    said = operating.refusal("restore", file)

    assert fault in said
    assert "\n" not in said
    assert (operating.data_dir / "bridge.sqlite3").read_bytes() == before
    assert not list(operating.data_dir.glob("bridge.sqlite3.*"))
    assert projects(operating) == ["first", "second"]


def test_the_database_itself_is_refused(operating: Operating) -> None:
    assert "is the database itself" in operating.refusal("restore", operating.data_dir / "bridge.sqlite3")


def test_json_has_no_kept_file_where_none_was(tmp_path: Path, operating: Operating, invoke: Invoke) -> None:
    result = invoke("restore", "--json", tmp_path / "backup.sqlite3", "--data-dir", tmp_path / "new")

    assert json.loads(result.stdout)["kept"] is None
