"""`backup --dir`: a series of backups in one directory, of which the newest stay."""

from pathlib import Path

import pytest

from bridge_server.storage.backup import read_record
from tests.cli.conftest import Invoke
from tests.cli.operating import Operating
from tests.support.command import run_command
from tests.support.rows import each_row

PASSPHRASE = "a passphrase of the test"


@pytest.fixture
def operating(tmp_path: Path, invoke: Invoke) -> Operating:
    operating = Operating(invoke, tmp_path / "data")
    operating.text("project", "create", "First", "--id", "first")
    return operating


@pytest.fixture
def stamps(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second passes between any two backups."""
    seconds = iter(range(60))
    monkeypatch.setattr("bridge_server.cli.backup.time_stamp", lambda: f"20260102T0304{next(seconds):02d}Z")


@pytest.mark.usefixtures("stamps")
def test_the_newest_backups_stay_and_other_files_too(operating: Operating, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    operating.text("backup", "--dir", folder, "--keep", "2")
    (folder / "bridge-of-mine.sqlite3").write_text("precious")
    operating.text("backup", "--dir", folder, "--keep", "2")

    made = operating.json("backup", "--dir", folder, "--keep", "2")

    assert made["file"] == str(folder / "bridge-20260102T030402Z.sqlite3")
    assert made["removed"] == [str(folder / "bridge-20260102T030400Z.sqlite3")]
    assert sorted(file.name for file in folder.iterdir()) == [
        "bridge-20260102T030401Z.sqlite3",
        "bridge-20260102T030402Z.sqlite3",
        "bridge-of-mine.sqlite3",
    ]
    assert folder.stat().st_mode & 0o077 == 0


@pytest.mark.usefixtures("stamps")
def test_seven_are_kept_unless_another_number_is_named(operating: Operating, tmp_path: Path) -> None:
    for _ in range(9):
        operating.text("backup", "--dir", tmp_path / "backups")

    assert len(list((tmp_path / "backups").iterdir())) == 7


@pytest.mark.usefixtures("stamps")
def test_key_files_come_and_go_with_their_backup(operating: Operating, tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    operating.json("account", "new", "--passphrase-file", tmp_path / "passphrase")
    [key_file] = (operating.data_dir / "keystore").iterdir()

    first = operating.json("backup", "--dir", tmp_path / "backups", "--with-keys", "--keep", "1")
    [copied] = Path(first["keys"]).iterdir()
    assert (copied.name, copied.read_bytes()) == (key_file.name, key_file.read_bytes())
    assert copied.stat().st_mode & 0o077 == 0
    second = operating.json("backup", "--dir", tmp_path / "backups", "--with-keys", "--keep", "1")

    assert not Path(first["keys"]).exists()
    assert Path(second["keys"]).exists()


def test_a_backup_says_how_many_key_files_it_has(operating: Operating, tmp_path: Path) -> None:
    (tmp_path / "passphrase").write_text(PASSPHRASE)
    without = operating.text("backup", "--dir", tmp_path / "without", "--with-keys")
    operating.json("account", "new", "--passphrase-file", tmp_path / "passphrase")
    with_one = operating.text("backup", "--dir", tmp_path / "with", "--with-keys")

    assert without.endswith(".keys: the wallet has no key files\n")
    assert with_one.endswith(".keys: 1 key file of the wallet\n")


def test_a_backup_can_be_restored(operating: Operating, tmp_path: Path) -> None:
    made = operating.json("backup", "--dir", tmp_path / "backups")

    assert operating.json("restore", made["file"])["bytes"] == made["bytes"]


def test_the_last_backup_is_remembered_for_the_doctor(operating: Operating, tmp_path: Path) -> None:
    assert read_record(operating.data_dir) is None

    made = operating.json("backup", "--dir", tmp_path / "backups")

    last = read_record(operating.data_dir)
    assert last is not None
    assert (last.file, last.bytes) == (made["file"], made["bytes"])


@pytest.mark.usefixtures("stamps")
def test_a_backup_that_fails_removes_none(operating: Operating, tmp_path: Path) -> None:
    folder = tmp_path / "backups"
    operating.text("backup", "--dir", folder)
    (folder / "bridge-20260102T030401Z.sqlite3").write_text("in the way")

    assert "exists already" in operating.refusal("backup", "--dir", folder, "--keep", "1")
    assert len(list(folder.iterdir())) == 2


@each_row(
    ("arguments", "fault"),
    [
        ((), "name the file of the copy, or with --dir the directory of backups"),
        (("file", "--dir", "folder"), "name the file of the copy, or with --dir the directory of backups"),
        (("file", "--keep", "3"), "--keep and --with-keys are for a directory"),
        (("file", "--with-keys"), "--keep and --with-keys are for a directory"),
    ],
)
def test_arguments_that_do_not_agree_are_refused(
    operating: Operating, arguments: tuple[str, ...], fault: str
) -> None:
    assert fault in operating.refusal("backup", *arguments)


def test_a_directory_that_cannot_be_made_is_said(operating: Operating, tmp_path: Path) -> None:
    (tmp_path / "file").touch()

    finished = run_command("backup", "--dir", tmp_path / "file" / "in-it", "--data-dir", operating.data_dir)

    assert finished.exit_code == 2
    assert len(finished.err.splitlines()) == 1
