"""Secrets that commands are given: at the terminal without being shown, from a file, or on standard input.

They are never arguments: every user of the machine sees those, and the shell keeps them.
"""

import sys

import click

from bridge_server.cli.files import STANDARD_STREAM, reading
from bridge_server.cli.options import CommandError
from bridge_server.ethereum.keystore import LARGEST_FILE_BYTES

passphrase_option = click.option(
    "--passphrase-file", type=click.Path(allow_dash=True),
    help="Take the passphrase from the first line of this file, instead of asking for it.",
)  # fmt: skip


def is_standard_input(file: str | None) -> bool:
    """Whether this is read from standard input; without a file, it is unless that is a terminal."""
    return file == STANDARD_STREAM or (file is None and not sys.stdin.isatty())


def new_passphrase(file: str | None) -> str:
    """The passphrase of a new key file, which a terminal is asked for twice. Raises CommandError."""
    return _passphrase(file, repeated="Repeat the passphrase")


def passphrase(file: str | None) -> str:
    """The passphrase of a key file that there is. Raises CommandError."""
    return _passphrase(file, repeated=False)


def key_or_file(file: str | None) -> bytes:
    """What to import: the bytes of the file or of standard input; a terminal is asked for a private key.

    Raises CommandError.
    """
    if file is None and not is_standard_input(file):
        return _asked("Private key").encode(errors="surrogateescape")
    with reading(file or STANDARD_STREAM) as stream:
        return stream.read(LARGEST_FILE_BYTES + 1)


def _passphrase(file: str | None, repeated: str | bool) -> str:
    if file is None and not is_standard_input(file):
        return _asked("Passphrase", repeated)
    with reading(file or STANDARD_STREAM) as stream:
        line = stream.readline()
    if not line and file is None:
        raise CommandError("there is no passphrase: write it to standard input, or name a --passphrase-file")
    return line.rstrip(b"\r\n").decode(errors="surrogateescape")


def _asked(question: str, repeated: str | bool = False) -> str:
    return str(click.prompt(question, hide_input=True, confirmation_prompt=repeated, err=True))
