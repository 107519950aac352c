"""Programs of Debian's packages that a test starts, on free ports of this machine."""

import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

_STOP_SECONDS = 60.0
_PLACES = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
"""nginx is not on the path of every user."""


def path_of(program: str) -> str | None:
    """Where the program is; None if it is not installed."""
    return shutil.which(program) or shutil.which(program, path=_PLACES)


def needs(program: str) -> pytest.MarkDecorator:
    """The mark of tests that are skipped without the program."""
    reason = f"needs {program}: scripts/system-packages"
    return pytest.mark.skipif(path_of(program) is None, reason=reason)


@contextmanager
def running(
    command: Sequence[str | Path], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """Run the program until the end of the block; what it writes is in the log."""
    with log.open("wb") as out:
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT
        )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_STOP_SECONDS)
