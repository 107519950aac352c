"""The directory that holds the database: made private, checked, and used by one server at a time; and
temporary directories for servers that throw their data away.
"""

import fcntl
import os
import pwd
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import S_IMODE, S_ISVTX

_LOCK_FILE = "lock"
_PRIVATE = 0o700
_OF_OTHERS = 0o077
_OWNER_LOCK = "owner.lock"
_TRIES_SECONDS = 10.0
_CHECK_SECONDS = 0.001


class DataDirectoryError(Exception):
    """The data directory cannot be used. The text names the reason and the remedy."""


class DataDirectoryInUseError(DataDirectoryError):
    """Another server uses it."""


@contextmanager
def held(directory: Path) -> Iterator[int | None]:
    """Make the directory if need be (mode 0700) and keep other servers out while in use. An existing
    directory that others could enter is made private: its previous mode is yielded, else None. Raises
    DataDirectoryError or its subclass DataDirectoryInUseError.
    """
    locks: list[int] = []
    try:
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            mode_before = _made_private(directory)
            locks.append(_locked_directory(directory))
            locks.append(_locked_file(directory))
        except BlockingIOError as error:
            raise DataDirectoryInUseError(
                f"another server (process {_holder(directory)}) uses the data directory {directory}: "
                "stop it, or name another directory with --data-dir"
            ) from error
        except OSError as error:
            raise DataDirectoryError(
                f"the data directory {directory} cannot be used ({error.strerror}): "
                "make it writable, or name another with --data-dir"
            ) from error
        yield mode_before
    finally:
        for lock in locks:
            os.close(lock)


def require_own(directory: Path) -> None:
    """Keep root from making files in another user's directory. Raises DataDirectoryError."""
    if os.geteuid() != 0 or not directory.exists():
        return
    owner = directory.stat().st_uid
    if owner != 0:
        name = _name_of(owner)
        advice = f"run this as that user, as with sudo -u {name}"
        raise DataDirectoryError(f"the data directory {directory} belongs to {name}: {advice}")


def require_data(database: Path) -> None:
    """Refuse an empty file, which SQLite would take for a new database. Raises DataDirectoryError."""
    with suppress(OSError):  # its opening has the reason
        if not database.stat().st_size:
            raise DataDirectoryError(
                f"the database {database} is an empty file, so its data is lost: restore a backup with "
                "`bridge-server restore FILE`, or move the file away to begin with a new database"
            )


def is_held(directory: Path) -> bool:
    """Whether a server uses the directory at this moment."""
    return any(map(_is_locked, (directory / _LOCK_FILE, directory)))


def _is_locked(path: Path) -> bool:
    try:
        lock = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system that locks no directories
        return False
    finally:
        os.close(lock)
    return False


def _made_private(directory: Path) -> int | None:
    mode = S_IMODE(directory.stat().st_mode)
    if not mode & _OF_OTHERS:
        return None
    if mode & S_ISVTX or directory == Path(directory.root):
        advice = "name one of the server's own with --data-dir"
        raise DataDirectoryError(f"the data directory {directory} is for everybody: {advice}")
    directory.chmod(_PRIVATE)
    return mode


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


def _locked_directory(directory: Path) -> int:
    """The directory with a lock that outlives its lock file. Raises BlockingIOError if another has it."""
    lock = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        _lock(lock)
    except BlockingIOError:
        os.close(lock)
        raise
    except OSError:  # a file system that locks no directories
        pass
    return lock


def _locked_file(directory: Path) -> int:
    """The locked file, with the number of this process. Raises BlockingIOError if another server has it."""
    file = directory / _LOCK_FILE
    while True:
        lock = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(lock)
            with suppress(FileNotFoundError):
                if os.path.samestat(os.fstat(lock), file.stat()):
                    os.ftruncate(lock, 0)
                    os.pwrite(lock, str(os.getpid()).encode(), 0)
                    return lock
        except BaseException:
            os.close(lock)
            raise
        os.close(lock)  # the file was deleted in between: another server may lock the next one


def _lock(descriptor: int) -> None:
    """Lock it for this server alone. Raises BlockingIOError if another server has it. A command that looks
    whether a server runs shares the lock for an instant, which is waited out.
    """
    until = time.monotonic() + _TRIES_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError:
            if time.monotonic() >= until:
                raise
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)  # as long as no server has it
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_CHECK_SECONDS)


def _holder(directory: Path) -> str:
    with suppress(OSError):
        return (directory / _LOCK_FILE).read_bytes()[:20].decode(errors="replace").strip() or "unknown"
    return "unknown"


class ThrowawayDirectory:
    """A new private directory (mode 0700) for temporary files, which ends with its process. The process holds
    a lock on a file in it. A directory of the prefix whose lock nobody holds is left over from a process that
    was killed, and is removed first.
    """

    def __init__(self, prefix: str) -> None:
        remove_left_over(prefix)
        self.path = Path(tempfile.mkdtemp(prefix=prefix))
        self._lock = _locked(self.path)

    def remove(self) -> None:
        """Remove it with everything in it. A second call changes nothing."""
        if self._lock is None:
            return
        shutil.rmtree(self.path, ignore_errors=True)
        os.close(self._lock)
        self._lock = None


def remove_left_over(prefix: str) -> None:
    """Remove this user's directories of the prefix whose processes have ended."""
    for directory in Path(tempfile.gettempdir()).glob(f"{prefix}*"):
        _remove_if_left_over(directory)


def _remove_if_left_over(directory: Path) -> None:
    try:
        if directory.is_symlink() or directory.lstat().st_uid != os.geteuid():
            return
        lock = os.open(directory / _OWNER_LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:  # no directory of this program, or another process is making or removing it
        return
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(directory, ignore_errors=True)
    except BlockingIOError:  # its process runs
        pass
    finally:
        os.close(lock)


def _locked(directory: Path) -> int | None:
    """The lock of the directory. Its file appears when it is held already: until then nobody removes it."""
    partial = directory / f"{_OWNER_LOCK}.partial"
    lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    partial.rename(directory / _OWNER_LOCK)
    return lock
