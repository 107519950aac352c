"""Temporary directories go with their process, also when it was killed."""

import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from bridge_server.storage.data_directory import ThrowawayDirectory, remove_left_over

PREFIX = "bridge-test-"
_MAKES_ONE = f"""
import time
from bridge_server.storage.data_directory import ThrowawayDirectory
print(ThrowawayDirectory({PREFIX!r}).path, flush=True)
time.sleep(600)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary files go."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


def test_the_directory_is_private_and_goes_when_it_is_removed(place: Path) -> None:
    directory = ThrowawayDirectory(PREFIX)
    (directory.path / "data").mkdir()

    assert directory.path.parent == place
    assert stat.S_IMODE(directory.path.stat().st_mode) == 0o700
    directory.remove()
    directory.remove()
    assert list(place.iterdir()) == []


def test_the_directory_of_a_killed_process_goes_with_the_next_process(place: Path) -> None:
    command = [sys.executable, "-c", _MAKES_ONE]
    with subprocess.Popen(command, env={"TMPDIR": str(place)}, stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        theirs = Path(other.stdout.readline().strip())
        (theirs / "data").mkdir()
        mine = ThrowawayDirectory(PREFIX)
        assert theirs.exists()
        other.kill()

    remove_left_over(PREFIX)

    assert not theirs.exists()
    assert mine.path.exists()
    mine.remove()


def test_nothing_else_is_removed(place: Path) -> None:
    without_lock = place / f"{PREFIX}somebody's"
    without_lock.mkdir()
    target = ThrowawayDirectory("other-")
    link = place / f"{PREFIX}link"
    link.symlink_to(target.path)
    file = place / f"{PREFIX}file"
    file.touch()

    remove_left_over(PREFIX)

    assert sorted(place.iterdir()) == sorted([without_lock, target.path, link, file])
    target.remove()
