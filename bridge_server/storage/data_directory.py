"""The directory that holds the database: made private, checked, and used by one server at a time."""

import fcntl
import os
import pwd
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from stat import S_IMODE, S_ISVTX

_PRIVATE = 0o700
_OF_OTHERS = 0o077


class DataDirectoryError(Exception):
    """The data directory cannot be used. The text names the reason and the remedy."""


class DataDirectoryInUseError(DataDirectoryError):
    """Another server uses it."""


@contextmanager
def held(directory: Path) -> Iterator[int | None]:
    """Make the directory if need be (mode 0700) and keep other servers out while in use.

    An existing directory that others could enter is made private: its previous mode is yielded, else None.
    Raises DataDirectoryError or its subclass DataDirectoryInUseError.
    """
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        mode_before = _made_private(directory)
        lock = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise DataDirectoryError(
            f"the data directory {directory} cannot be used ({error.strerror}): "
            "make it writable, or name another with --data-dir"
        ) from error
    try:
        _take(lock, directory)
        yield mode_before
    finally:
        os.close(lock)


def require_own(directory: Path) -> None:
    """Keep root from making files in another user's directory, whose server could not open them.

    Raises DataDirectoryError.
    """
    if os.geteuid() != 0 or not directory.exists():
        return
    owner = directory.stat().st_uid
    if owner != 0:
        raise DataDirectoryError(
            f"the data directory {directory} belongs to {_name_of(owner)}: run this as that user, "
            f"as with sudo -u {_name_of(owner)}"
        )


def is_held(directory: Path) -> bool:
    """Whether a server uses the directory at this moment."""
    try:
        lock = os.open(directory / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return False
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


def _made_private(directory: Path) -> int | None:
    mode = S_IMODE(directory.stat().st_mode)
    if not mode & _OF_OTHERS:
        return None
    if mode & S_ISVTX or directory == Path(directory.root):
        raise DataDirectoryError(
            f"the data directory {directory} is for everybody: name one of the server's own with --data-dir"
        )
    directory.chmod(_PRIVATE)
    return mode


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return f"#{user}"


def _take(lock: int, directory: Path) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        holder = os.pread(lock, 20, 0).decode(errors="replace").strip() or "unknown"
        raise DataDirectoryInUseError(
            f"another server (process {holder}) uses the data directory {directory}: "
            "stop it, or name another directory with --data-dir"
        ) from error
    os.ftruncate(lock, 0)
    os.pwrite(lock, str(os.getpid()).encode(), 0)
