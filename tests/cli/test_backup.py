"""`backup` and `restore`: a copy beside a running server, a series of copies, a copy in use again.

White-box: names of copies are seconds of the clock, which a test does not wait for.
"""

import sqlite3
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from bridge_server.storage.backup import read_record
from tests.cli.conftest import Invoke, Operating, damaged
from tests.support.command import watched_server
from tests.support.server import RunningServer


def session_ids(file: Path) -> list[str]:
    with closing(sqlite3.connect(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return [row[0] for row in connection.execute("SELECT session_id FROM sessions")]


async def test_a_running_server_is_copied(server: RunningServer, tmp_path: Path, invoke: Invoke) -> None:
    session_id, operating = await server.open_session(), Operating(invoke, server.settings.data_dir)
    target, second, taken = (tmp_path / name for name in ("copy", "second", "taken"))
    taken.write_text("precious")
    assert operating.text("backup", target) == f"{target}: {target.stat().st_size} bytes, checked\n"
    assert operating.json("backup", second) == {"file": str(second), "bytes": second.stat().st_size}
    assert session_ids(target) == session_ids(second) == [session_id]
    assert operating.refusal("backup", taken) == f"{taken} exists already: name a new file"
    assert taken.read_text() == "precious"
    place = "name the file of the copy, or with --dir the directory of backups"
    assert place in operating.refusal("backup")
    assert "--keep and --with-keys are for a directory" in operating.refusal("backup", "file", "--keep", "3")


@pytest.fixture
def operating(tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> Operating:
    """A database with a project `first`; a second passes between any two backups."""
    seconds = iter(range(60))
    monkeypatch.setattr("bridge_server.cli.backup.time_stamp", lambda: f"20260102T0304{next(seconds):02d}Z")
    operating = Operating(invoke, tmp_path / "data")
    operating.text("project", "create", "First", "--id", "first")
    return operating


def test_the_newest_backups_and_other_files_stay(operating: Operating, tmp_path: Path) -> None:
    folder, keeping = tmp_path / "backups", ("backup", "--dir", tmp_path / "backups", "--keep")
    assert read_record(operating.data_dir) is None
    operating.text(*keeping, "2")
    (folder / "bridge-of-mine.sqlite3").write_text("precious")
    operating.text(*keeping, "2")
    made = operating.json(*keeping, "2")

    assert made["file"] == str(folder / "bridge-20260102T030402Z.sqlite3")
    assert made["removed"] == [str(folder / "bridge-20260102T030400Z.sqlite3")]
    stamps = ("20260102T030401Z", "20260102T030402Z", "of-mine")
    assert sorted(file.name for file in folder.iterdir()) == [f"bridge-{each}.sqlite3" for each in stamps]
    assert folder.stat().st_mode & 0o077 == 0
    (folder / "bridge-20260102T030403Z.sqlite3").write_text("in the way")
    assert "exists already" in operating.refusal(*keeping, "1")
    assert len(list(folder.iterdir())) == 4
    last = read_record(operating.data_dir)
    assert last is not None
    assert (last.file, last.bytes) == (made["file"], made["bytes"])
    made = [operating.json("backup", "--dir", tmp_path / "seven") for _ in range(9)][-1]
    assert len(list((tmp_path / "seven").iterdir())) == 7
    assert operating.json("restore", made["file"])["bytes"] == made["bytes"]


def test_key_files_come_and_go_with_their_backup(operating: Operating, tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text("a passphrase of the test")
    folder, series = tmp_path / "without", ("--dir", tmp_path / "backups", "--with-keys", "--keep", "1")
    without = operating.text("backup", "--dir", folder, "--with-keys")
    operating.json("account", "new", "--passphrase-file", tmp_path / "passphrase")
    [key_file] = (operating.data_dir / "keystore").iterdir()
    with_one = operating.text("backup", *series)
    [first] = (tmp_path / "backups").glob("*.keys")
    [copied] = first.iterdir()

    assert without.endswith(".keys: the wallet has no key files\n")
    assert with_one.endswith(".keys: 1 key file of the wallet\n")
    assert (copied.name, copied.read_bytes()) == (key_file.name, key_file.read_bytes())
    assert copied.stat().st_mode & 0o077 == 0
    second = operating.json("backup", *series)
    assert not first.exists()
    assert Path(second["keys"]).exists()


@pytest.fixture
def changed(operating: Operating, tmp_path: Path) -> Operating:
    """There is a backup, and a second project that was made since."""
    operating.text("backup", tmp_path / "backup.sqlite3")
    operating.text("project", "create", "Second", "--id", "second")
    return operating


def projects(operating: Operating) -> list[str]:
    return sorted(each["project_id"] for each in operating.json("project", "list")["projects"])


def test_a_restored_backup_keeps_what_it_replaces(changed: Operating, tmp_path: Path, invoke: Invoke) -> None:
    backup = (tmp_path / "backup.sqlite3").read_bytes()
    done = changed.json("restore", tmp_path / "backup.sqlite3")

    assert projects(changed) == ["first"]
    assert (tmp_path / "backup.sqlite3").read_bytes() == backup
    assert Path(done["kept"]).parent == changed.data_dir
    assert Path(done["database"]).stat().st_mode & 0o077 == 0
    assert "is the database itself" in changed.refusal("restore", changed.data_dir / "bridge.sqlite3")
    changed.text("restore", done["kept"])
    assert projects(changed) == ["first", "second"]

    elsewhere = Operating(invoke, tmp_path / "elsewhere")
    said = elsewhere.text("restore", tmp_path / "backup.sqlite3").splitlines()
    assert said[0].startswith(f"{tmp_path / 'elsewhere' / 'bridge.sqlite3'}: restored, ")
    assert said[1] == "there was no database before"
    assert projects(elsewhere) == ["first"]


def test_a_database_that_cannot_be_read_is_kept_with_its_log(changed: Operating, tmp_path: Path) -> None:
    database = changed.data_dir / "bridge.sqlite3"
    database.write_bytes(b"not a database" * 1_000)
    database.with_name("bridge.sqlite3-wal").write_bytes(b"its log")
    kept = Path(changed.json("restore", tmp_path / "backup.sqlite3")["kept"])
    assert kept.read_bytes().startswith(b"not a database")
    assert kept.with_name(f"{kept.name}-wal").read_bytes() == b"its log"
    assert projects(changed) == ["first"]


def test_a_log_that_is_left_is_not_applied_to_the_backup(changed: Operating, tmp_path: Path) -> None:
    database = changed.data_dir / "bridge.sqlite3"
    log = database.with_name("bridge.sqlite3-wal")
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        connection.execute("UPDATE projects SET name = 'Changed'")
        connection.commit()
        left = log.read_bytes()  # as kill -9 leaves it
    database.unlink()
    log.write_bytes(left)

    assert changed.json("restore", tmp_path / "backup.sqlite3")["kept"] is None
    assert [each["name"] for each in changed.json("project", "list")["projects"]] == ["First"]
    kept = changed.data_dir.glob("bridge.sqlite3.before-restore-*-wal")
    assert [each.read_bytes() for each in kept] == [left]


def test_a_running_server_is_not_robbed_of_its_database(tmp_path: Path, invoke: Invoke) -> None:
    operating = Operating(invoke, tmp_path / "data")
    with watched_server(tmp_path) as server:
        operating.text("backup", tmp_path / "backup.sqlite3")
        refusal = operating.refusal("restore", tmp_path / "backup.sqlite3")
        assert f"another server (process {server.process.pid}) uses the data directory" in refusal
    assert not list(operating.data_dir.glob("*before-restore*"))


def run_in(file: Path, script: str) -> None:
    with closing(sqlite3.connect(file)) as connection:
        connection.executescript(script)


def other_program(file: Path) -> None:
    file.unlink()
    run_in(file, "CREATE TABLE things (id); PRAGMA user_version = 3;")


def test_another_file_is_refused_and_nothing_is_changed(changed: Operating, tmp_path: Path) -> None:
    file, database = tmp_path / "backup.sqlite3", changed.data_dir / "bridge.sqlite3"
    sound, before = file.read_bytes(), database.read_bytes()
    rows: list[tuple[Callable[[Path], object], str]] = [
        (Path.unlink, "there is no file"),
        (lambda file: file.write_bytes(b"text"), "cannot be read as a database"),
        (lambda file: file.write_bytes(b""), "is no database of this server"),
        (other_program, "is no database of this server"),
        (
            partial(run_in, script="PRAGMA user_version = 999"),
            "has schema version 999, and this program knows versions up to",
        ),
        (damaged, "name another backup"),
    ]
    for spoil, fault in rows:
        file.write_bytes(sound)
        spoil(file)
        assert fault in changed.refusal("restore", file)
        assert database.read_bytes() == before
        assert not list(changed.data_dir.glob("bridge.sqlite3.*"))
    assert projects(changed) == ["first", "second"]
