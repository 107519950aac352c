"""Input of secrets: typed at the terminal without echo, from a file, or from standard input.

A secret is never an argument: every user of the machine can see arguments, and the shell stores them.
"""

import sys

import click

from bridge_server.cli.files import STANDARD_STREAM, reading
from bridge_server.cli.options import CommandError
from bridge_server.ethereum.keystore import LARGEST_FILE_BYTES

passphrase_option = click.option(
    "--passphrase-file", type=click.Path(allow_dash=True),
    help="Read the passphrase from the first line of this file (- is standard input), not from the terminal.",
)  # fmt: skip


def is_standard_input(file: str | None) -> bool:
    """Whether the input comes from standard input: `-` was given, or no file and no terminal."""
    return file == STANDARD_STREAM or (file is None and not sys.stdin.isatty())


def new_passphrase(file: str | None) -> str:
    """Read the passphrase of a new key file; a terminal asks for it twice. Raises CommandError."""
    return _passphrase(file, repeated="Repeat the passphrase")


def passphrase(file: str | None) -> str:
    """Read the passphrase of an existing key file. Raises CommandError."""
    return _passphrase(file, repeated=False)


def key_or_file(file: str | None) -> bytes:
    """Read a key file or private key to import; on a terminal without a file, ask for a private key.

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
