"""Options that several commands share, and how they become settings."""

from pathlib import Path
from typing import Any

import click

from bridge_server.settings import CONFIG_VARIABLE, LoadedSettings, SettingsError, load_settings

config_option = click.option(
    "--config", "config_file", type=click.Path(dir_okay=False, path_type=Path), envvar=CONFIG_VARIABLE,
    help="A TOML file of settings.",
)  # fmt: skip
data_dir_option = click.option(
    "--data-dir", type=click.Path(file_okay=False, path_type=Path), help="Where the database lives."
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


class CommandError(click.ClickException):
    """One clear line, and exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"bridge-server: {self.format_message()}", err=True)


def loaded_settings(config_file: Path | None, **flags: Any) -> LoadedSettings:
    """The settings with the flags that were given. Raises CommandError."""
    given = {name: value for name, value in flags.items() if value is not None}
    try:
        return load_settings(given, config_file)
    except SettingsError as error:
        raise CommandError(str(error)) from error
