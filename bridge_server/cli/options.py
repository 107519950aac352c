"""Options that several commands share, and how they become settings."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from bridge_server.settings.sources import CONFIG_VARIABLE, LoadedSettings, SettingsError, load_settings

config_option = click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), envvar=CONFIG_VARIABLE,
    help="A TOML file of settings.",
)  # fmt: skip
data_dir_option = click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the database lives."
)
set_option = click.option(
    "--set", "assignments", multiple=True, metavar="NAME=VALUE",
    help="Any setting, spelled as in the environment; may be repeated. Not for secrets: other users see it.",
)  # fmt: skip


class CommandError(click.ClickException):
    """One clear line, and exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"bridge-server: {self.format_message()}", err=True)


def loaded_settings(
    config_file: Path | None, assignments: Sequence[str] = (), **flags: Any
) -> LoadedSettings:
    """The settings with the flags that were given, `--set` among them. Raises CommandError."""
    try:
        return reread_settings(config_file, assignments, **flags)
    except SettingsError as error:
        raise CommandError(str(error)) from error


def reread_settings(config_file: Path | None, assignments: Sequence[str], **flags: Any) -> LoadedSettings:
    """As `loaded_settings`. Raises SettingsError, and CommandError for flags that are not well formed."""
    given = {name: value for name, value in flags.items() if value is not None}
    return load_settings(given, config_file, dict(map(_assignment, assignments)))


def _assignment(text: str) -> tuple[str, str]:
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise CommandError(f"--set {text}: write NAME=VALUE, as in --set max_wait=10")
    return name.strip().lower().replace("-", "_"), value
