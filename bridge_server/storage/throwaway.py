"""Temporary directories that end with their process, also when it is killed: a later one removes them then.

The process holds a lock on a file in its directory. A directory whose lock nobody holds is left over.
"""

import fcntl
import os
import shutil
import tempfile
from pathlib import Path

_LOCK = "owner.lock"


class ThrowawayDirectory:
    """A new private directory (mode 0700) in the system's place for temporary files.

    Directories of the same prefix whose processes have ended are removed first.
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
        lock = os.open(directory / _LOCK, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
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
    partial = directory / f"{_LOCK}.partial"
    lock = os.open(partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    fcntl.flock(lock, fcntl.LOCK_EX)
    partial.rename(directory / _LOCK)
    return lock
