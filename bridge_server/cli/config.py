"""`bridge-server config check` and `config list`."""

from pathlib import Path
from typing import Any

import click
import orjson
from pydantic import SecretStr
from pydantic_core import PydanticUndefined

from bridge_server.assembly.foundation import backend_of
from bridge_server.cli import options
from bridge_server.cli.options import CommandError, loaded_settings
from bridge_server.cli.output import Group, columns, json_option, print_result
from bridge_server.kernel.events import Events
from bridge_server.settings import settings
from bridge_server.settings.settings import ENVIRONMENT_PREFIX, NOT_SET, SECRET_IS_SET, Settings, shown_value

config_group = Group("config", help="Inspect the settings.")


@config_group.command("check")
@options.config_option
@options.data_dir_option
@options.set_option
@json_option
def check_command(
    config_file: Path | None, data_dir: Path | None, assignments: tuple[str, ...], as_json: bool
) -> None:
    """Print every setting with its value and its source; fail if a value is not valid.

    The source is a flag, an environment variable, the TOML file or the default. Secrets are not shown. If a
    PostgreSQL database is set, it must answer.
    """
    loaded = loaded_settings(config_file, assignments, data_dir=data_dir)
    rows = settings.shown_settings(loaded.settings, loaded.origins)
    if as_json:
        click.echo(orjson.dumps(rows, option=orjson.OPT_INDENT_2))
    else:
        values = {name: _in_toml(getattr(loaded.settings, name), row["value"]) for name, row in rows.items()}
        for line in columns([(name, values[name], row["origin"]) for name, row in rows.items()]):
            click.echo(line)
    for variable in loaded.unknown_variables:
        click.echo(f"bridge-server: {variable} is set, but there is no such setting", err=True)
    fault = backend_of(loaded.settings, Events()).fault()
    if fault is not None:
        raise CommandError(fault)


@config_group.command("list")
@json_option
def list_command(as_json: bool) -> None:
    """Print every setting that there is: its name, its default, and its meaning."""
    rows: list[dict[str, Any]] = []
    for name, each in Settings.model_fields.items():
        # A default that depends on the machine is null.
        default = None if each.default is PydanticUndefined else shown_value(each.default, is_default=True)
        variable = f"{ENVIRONMENT_PREFIX}{name.upper()}"
        rows.append({"name": name, "variable": variable, "default": default, "description": each.description})
    cells = [(row["name"], _cell(row["default"]), row["description"]) for row in rows]
    print_result({"settings": rows}, columns([("setting", "default", "meaning"), *cells]), as_json=as_json)


def _in_toml(value: Any, shown: Any) -> str:
    """The value as a TOML file has it, whose strings are written as in JSON; a secret as it is `shown`."""
    if shown in (None, "", NOT_SET) or (isinstance(value, SecretStr) and shown == SECRET_IS_SET):
        return _cell(shown)
    if isinstance(value, tuple):
        return orjson.dumps(list(map(str, value))).decode().replace('","', '", "')
    is_number = isinstance(shown, int | float) and not isinstance(shown, bool)
    return str(shown) if is_number else orjson.dumps(shown).decode()


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return NOT_SET if value in (None, "") else str(value)
