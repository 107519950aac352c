"""Files that commands read and write. The name `-` means standard input or standard output."""

import os
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import BinaryIO, cast

import click

from bridge_server.cli.options import CommandError

STANDARD_STREAM = "-"


@contextmanager
def reading(file: str) -> Iterator[BinaryIO]:
    """Open a file, or standard input for `-`, as a binary stream. Raises CommandError."""
    if file == STANDARD_STREAM:
        yield sys.stdin.buffer
        return
    try:
        stream = Path(file).open("rb")  # noqa: SIM115 - closed below
    except OSError as error:
        raise CommandError(f"{click.format_filename(file)} cannot be read: {error.strerror}") from error
    with stream:
        yield stream


def regular_size(stream: BinaryIO) -> int | None:
    """The bytes of an open file; None for a pipe, a terminal and whatever else has no size."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):  # a stream of a test has no descriptor
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


@contextmanager
def replacing(file: Path) -> Iterator[BinaryIO]:
    """Open a temporary file that replaces `file` at the end of the block; on failure `file` is unchanged.

    Raises CommandError.
    """
    target, name = file.resolve(), click.format_filename(file)
    if target.exists() and not target.is_file():
        raise CommandError(f"{name} is not a file: name one, or - for standard output")
    partial: Path | None = None
    try:
        with NamedTemporaryFile(prefix=f"{target.name}.", dir=target.parent, delete=False) as stream:
            partial = Path(stream.name)
            yield cast(BinaryIO, stream.file)
            stream.flush()
            os.fsync(stream.fileno())
        partial.replace(target)
    except OSError as error:
        raise CommandError(f"{name} cannot be written: {error.strerror}") from error
    finally:
        if partial is not None:
            partial.unlink(missing_ok=True)
