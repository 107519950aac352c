"""Options that several commands share, and their conversion to settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bridge_server.settings.sources import (
    CONFIG_VARIABLE,
    NO_COMMAND,
    CommandSettings,
    LoadedSettings,
    SettingsError,
    load_settings,
)

config_option = click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), envvar=CONFIG_VARIABLE,
    help="A TOML file with settings.",
)  # fmt: skip
data_dir_option = click.option(
    "--data-dir",
    type=click.Path(file_okay=False, path_type=Path),
    help="The directory of the database and of other files of the server.",
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE",
    help="Set any setting, such as max_wait=10. Repeatable. Not for secrets: other users can see arguments.",
)  # fmt: skip
ready_file_option = click.option(
    "--ready-file", type=click.Path(dir_okay=False, path_type=Path),
    help="Once the server is ready, write a JSON object with its url and pid to this file.",
)  # fmt: skip
stop_with_parent_option = click.option(
    "--stop-with-parent", is_flag=True, help="Stop when the process that started the server has ended."
)


class CommandError(click.ClickException):
    """A failure that is printed as one line; the exit code is 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"bridge-server: {self.format_message()}", err=True)


class EndedItselfError(CommandError):
    """The server has ended itself, because it could not do its work any more; the exit code is 1."""

    exit_code = 1


def loaded_settings(
    config_file: Path | None,
    assignments: Sequence[str] = (),
    command: CommandSettings = NO_COMMAND,
    **flags: Any,
) -> LoadedSettings:
    """Load the settings with the given flags and `--set` assignments. Raises CommandError."""
    try:
        return reread_settings(config_file, assignments, command, **flags)
    except SettingsError as error:
        raise CommandError(str(error)) from error


def reread_settings(
    config_file: Path | None,
    assignments: Sequence[str],
    command: CommandSettings = NO_COMMAND,
    **flags: Any,
) -> LoadedSettings:
    """Load the settings like `loaded_settings`. Raises SettingsError, and CommandError for a bad `--set`."""
    given = {name: value for name, value in flags.items() if value is not None}
    return load_settings(given, config_file, dict(map(_assignment, assignments)), command)


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise CommandError(f"--set {text}: write NAME=VALUE, as in --set max_wait=10")
    return name.strip().lower().replace("-", "_"), value
