"""Options that several commands share, and their conversion to settings."""

import os
import stat
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any, BinaryIO, cast

import click

from bridge_server.kernel import errors, process
from bridge_server.settings import sources

FILE = click.Path(dir_okay=False, path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)

config_option = click.option(
    "--config", "config_file", type=FILE, envvar=sources.CONFIG_VARIABLE, help="A TOML file with settings."
)
port_option = click.option(
    "--port", type=int, help="The port to listen on; 0 picks a free one.  [default: 8080]"
)
node_url_option = click.option("--node-url", help="The JSON-RPC URL of the wallet's Ethereum node.")
data_dir_option = click.option(
    "--data-dir", type=FOLDER, help="The directory of the database and of other files of the server."
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE",
    help="Set any setting, such as max_wait=10. Repeatable. Not for secrets: other users can see arguments.",
)  # fmt: skip
ready_file_option = click.option(
    "--ready-file", type=FILE,
    help="Once the server is ready, write a JSON object with its url and pid to this file.",
)  # fmt: skip
stop_with_parent_option = click.option(
    process.PARENT_OPTION, expose_value=False, is_flag=False, flag_value="", metavar="[=PID]",
    help="Stop when the process PID has ended, by default the parent of this one. The variable "
    f"{process.PARENT_VARIABLE} names a PID, too.",
)  # fmt: skip
"""`cli.main` carries it out, before anything else is loaded."""


class CommandError(click.ClickException):
    """A failure that is printed as one line; the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"bridge-server: {self.format_message()}", err=True)


@contextmanager
def command_errors(*kinds: type[Exception], about: str = "") -> Iterator[None]:
    """Raise CommandError with one line, which begins with `about`, for errors of these kinds."""
    try:
        yield
    except kinds as error:
        raise CommandError(f"{about}{one_line(error)}") from error


def one_line(error: Exception) -> str:
    """The error in one line; for an invalid input, every fault."""
    if isinstance(error, errors.InvalidInputError) and error.faults:
        return "; ".join(f"{fault.pointer.removeprefix('#/')} {fault.detail}" for fault in error.faults)
    return error.detail if isinstance(error, errors.BridgeError) else str(error)


class EndedItselfError(CommandError):
    """The server could not do its work any more; the exit code is 1. A service manager starts it again."""

    exit_code = 1


def loaded_settings(
    config_file: Path | None,
    assignments: Sequence[str] = (),
    command: sources.CommandSettings = sources.NO_COMMAND,
    **flags: Any,
) -> sources.LoadedSettings:
    """Load the settings with the given flags and `--set` assignments. Raises CommandError."""
    with command_errors(sources.SettingsError):
        return reread_settings(config_file, assignments, command, **flags)


def reread_settings(
    config_file: Path | None,
    assignments: Sequence[str],
    command: sources.CommandSettings = sources.NO_COMMAND,
    **flags: Any,
) -> sources.LoadedSettings:
    """Load the settings like `loaded_settings`. Raises SettingsError, and CommandError for a bad `--set`."""
    given = {name: value for name, value in flags.items() if value is not None}
    return sources.load_settings(given, config_file, dict(map(_assignment, assignments)), command)


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise CommandError(f"--set {text}: write NAME=VALUE, as in --set max_wait=10")
    return name.strip().lower().replace("-", "_"), value


# Files that commands read and write. The name `-` means standard input or standard output.

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
    """Open a temporary file, which replaces `file` unless the block fails. Raises CommandError."""
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
