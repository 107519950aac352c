"""The data directory: private, and one server's at a time."""

import errno
import fcntl
import os
from pathlib import Path
from stat import S_IMODE, S_ISDIR
from threading import Event, Thread
from time import monotonic, sleep

import pytest
from structlog.testing import capture_logs

from bridge_server.storage.data_directory import DataDirectoryError, DataDirectoryInUseError, held, is_held
from tests.support.command import running_command, watched_server
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server


def test_a_directory_is_made_with_its_parents_and_for_its_owner_only(tmp_path: Path) -> None:
    directory = tmp_path / "some" / "where"
    with held(directory):
        assert S_IMODE(directory.stat().st_mode) == 0o700
        assert [S_IMODE(path.stat().st_mode) for path in directory.iterdir()] == [0o600]


def test_a_directory_that_was_there_is_private_at_once_unless_it_belongs_to_everybody(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    with pytest.raises(DataDirectoryError, match="is for everybody"), held(tmp_path):
        pass
    assert S_IMODE(tmp_path.stat().st_mode) == 0o1777
    assert list(tmp_path.iterdir()) == []

    for mode in (0o700, 0o755, 0o777, 0o750, 0o704, 0o2770):
        tmp_path.chmod(mode)
        with held(tmp_path) as mode_before:
            assert mode_before == (None if mode == 0o700 else mode)
            assert S_IMODE(tmp_path.stat().st_mode) == 0o700


@pytest.fixture
def open_directory(tmp_path: Path) -> Path:
    tmp_path.chmod(0o755)
    return tmp_path


async def test_a_server_in_an_open_directory_says_that_it_is_private_now(open_directory: Path) -> None:
    with capture_logs() as events:
        async with running_server(open_directory):
            pass
    notes = [event for event in events if event["event"] == "data_directory_made_private"]
    assert [(event["directory"], event["mode_before"]) for event in notes] == [(str(open_directory), "0755")]


@each_row("name", [".", "lock"])
def test_a_command_that_looks_for_a_server_lets_one_start(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    starts, flock, is_refused = [], fcntl.flock, Event()

    def flock_that_says_so(descriptor: int, operation: int) -> None:
        try:
            flock(descriptor, operation)
        except BlockingIOError:
            is_refused.set()
            raise

    def start() -> None:
        with held(tmp_path):
            starts.append(True)

    start()
    look = os.open(tmp_path / name, os.O_RDONLY)
    fcntl.flock(look, fcntl.LOCK_SH)
    monkeypatch.setattr(fcntl, "flock", flock_that_says_so)
    server = Thread(target=start)
    server.start()
    assert is_refused.wait(60)
    os.close(look)
    server.join(60)
    assert starts == [True, True]


def test_a_lock_file_that_was_deleted_lets_no_second_server_in(tmp_path: Path) -> None:
    with held(tmp_path):
        (tmp_path / "lock").unlink()
        assert is_held(tmp_path)
        for _ in range(2):
            with pytest.raises(DataDirectoryInUseError, match=str(tmp_path)), held(tmp_path):
                pass
        assert is_held(tmp_path)
    assert not is_held(tmp_path)


def test_a_lock_file_deleted_too_early_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, flock, deleted = tmp_path / "lock", fcntl.flock, list[bytes]()

    def flock_of_a_deleted_file(descriptor: int, operation: int) -> None:
        if not deleted and not S_ISDIR(os.fstat(descriptor).st_mode):
            deleted.append(lock.read_bytes())
            lock.unlink()
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_of_a_deleted_file)
    with held(tmp_path):
        monkeypatch.undo()
        assert lock.read_text() == str(os.getpid())
        with lock.open("rb") as stream, pytest.raises(BlockingIOError):
            fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_a_file_system_without_directory_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flock = fcntl.flock

    def flock_of_files(descriptor: int, operation: int) -> None:
        if S_ISDIR(os.fstat(descriptor).st_mode):
            raise OSError(errno.EBADF, "Bad file descriptor")
        flock(descriptor, operation)

    monkeypatch.setattr(fcntl, "flock", flock_of_files)
    with held(tmp_path):
        assert is_held(tmp_path)
        with pytest.raises(DataDirectoryInUseError), held(tmp_path):
            pass
    assert not is_held(tmp_path)


def test_a_directory_is_free_after_it_was_left_after_a_failure_and_after_a_kill(tmp_path: Path) -> None:
    for _ in range(2):
        with held(tmp_path):
            assert (tmp_path / "lock").read_text() == str(os.getpid())
    with pytest.raises(LookupError), held(tmp_path):
        raise LookupError
    (tmp_path / "lock").write_text("99999999999999999999")  # of a process that was killed
    with held(tmp_path):
        assert (tmp_path / "lock").read_text() == str(os.getpid())


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for place in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(DataDirectoryError, match="cannot be used") as caught, held(place):
            pass
        assert str(place) in str(caught.value)


@pytest.mark.skipif(os.geteuid() == 0, reason="nothing is unwritable to root")
def test_a_directory_that_may_not_be_made_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(DataDirectoryError, match="Permission denied"), held(tmp_path / "below"):
        pass


async def test_everything_a_server_leaves_in_it_is_for_its_owner_only(server: RunningServer) -> None:
    await server.open_session()
    directory = server.settings.data_dir
    files = ["lock", "bridge.sqlite3", "bridge.sqlite3-wal", "bridge.sqlite3-shm", "audit.log"]
    modes = {path.name: S_IMODE(path.stat().st_mode) for path in directory.iterdir()}
    assert S_IMODE(directory.stat().st_mode) == 0o700
    assert modes == dict.fromkeys(files, 0o600)


@each_row("made", ["lock", "bridge.sqlite3*", "bridge.sqlite3"])
def test_a_first_start_that_was_killed_at_any_moment_is_begun_anew(tmp_path: Path, made: str) -> None:
    data_dir, deadline = tmp_path / "data", monotonic() + 60
    with running_command("serve", "--port", "0", "--data-dir", data_dir) as first:
        while not any(data_dir.glob(made)):
            assert monotonic() < deadline
            sleep(0.0002)
        first.process.kill()
        first.process.wait(60)

    with watched_server(tmp_path) as server:
        assert server.url
        assert not list(data_dir.glob("*.creating*"))
