"""Sources of settings. A flag wins over the environment, that over the TOML file, that over the default.
Between the environment and the TOML file come secrets in files that a variable names
(BRIDGE_ADMIN_TOKEN_FILE) and systemd credentials, which `ps e` and `docker inspect` do not show.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import field
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, get_args

from pydantic import SecretStr, ValidationError

from bridge_server.kernel.fields import near_words
from bridge_server.kernel.values import dataclass
from bridge_server.settings.settings import ENVIRONMENT_PREFIX, Settings
from bridge_server.settings.types import text_of

CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd names the directory of a service's credentials (systemd.exec)."""

FILES_OF_SECRETS = ("apns_key", "fcm_credentials", "private_keys_file")
"""Settings that name a file with a secret: a credential of that name is the file."""

CONFIG_VARIABLE = "BRIDGE_CONFIG"
PROJECT_SECRET_VARIABLE = "BRIDGE_PROJECT_SECRET"  # noqa: S105
"""The variable with the secret of a project, for the command `notify`; with _FILE, the name of its file."""
_OF_TESTS = ("URL", "V07_URL", "RPC_URL", "LAN_URL", "TEST_TOKEN", "PROJECT_ID", "SERVER_BIN", "SERVER_VENV")
"""Variables that `dev` gives to tests, and those that tell tests where the server's program is."""


class SettingsError(Exception):
    """The settings are invalid; each line names a setting, its source and the fault."""


@dataclass(frozen=True, slots=True)
class LoadedSettings:
    """Settings, the origin of each by name, and variables that look like settings but are none."""

    settings: Settings
    origins: Mapping[str, str]
    unknown_variables: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandSettings:
    """Settings that a command brings along: nothing changes the `fixed` ones, every source the `defaults`."""

    command: str = ""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    defaults: Mapping[str, Any] = field(default_factory=dict)


NO_COMMAND = CommandSettings()


def load_settings(
    flags: Mapping[str, Any],
    config_file: Path | None,
    assigned: Mapping[str, str] = MappingProxyType({}),
    command: CommandSettings = NO_COMMAND,
) -> LoadedSettings:
    """Merge flags, environment, file and defaults; `assigned` are the flags `--set`. Raises SettingsError."""
    faults = [f"--set: {_unknown(name)}" for name in assigned if name not in Settings.model_fields]
    faults += [f"--set: {name} is also given by its own flag" for name in assigned if name in flags]
    faults += [
        f"--set: {command.command} decides {name} itself" for name in assigned if name in command.fixed
    ]
    if faults:
        raise SettingsError("\n".join(faults))
    file_values = _read_file(config_file) if config_file else {}
    # The names of variables are read in any letter case.
    named = {f"{ENVIRONMENT_PREFIX}{name}".upper(): name for name in Settings.model_fields}
    in_upper_case = ((variable.upper(), value) for variable, value in os.environ.items())
    environment_values = {named[variable]: value for variable, value in in_upper_case if variable in named}
    secrets = _read_secrets(environment_values)
    origins = dict.fromkeys(Settings.model_fields, "default")
    origins |= dict.fromkeys(command.defaults, command.command)
    origins |= dict.fromkeys(file_values, f"file {config_file}")
    origins |= {name: origin for name, (_, origin) in secrets.items()}
    origins |= {name: f"environment {ENVIRONMENT_PREFIX}{name.upper()}" for name in environment_values}
    origins |= {name: "flag --" + name.replace("_", "-") for name in flags}
    origins |= {name: f"flag --set {name}" for name in assigned}
    origins |= dict.fromkeys(command.fixed, command.command)
    secret_values = {name: value for name, (value, _) in secrets.items()}
    merged: dict[str, Any] = {
        **command.defaults, **file_values, **secret_values, **environment_values,
        **flags, **assigned, **command.fixed,
    }  # fmt: skip
    return LoadedSettings(_checked(merged, origins), origins, _unknown_variables())


def settings_of(values: Mapping[str, Any]) -> Settings:
    """The settings with these values, without environment and file. Raises SettingsError."""
    _refuse_unknown(values, "")
    return _checked(values, {})


def _checked(values: Mapping[str, Any], origins: Mapping[str, str]) -> Settings:
    """The settings with these values, whose sources the complaints name. Raises SettingsError."""
    try:
        return Settings(**values)
    except ValidationError as error:
        lines = []
        for fault in error.errors():
            name = str(fault["loc"][0]) if fault["loc"] else ""
            origin = f" ({origins[name]})" if name in origins else ""
            message = fault["msg"].removeprefix("Value error, ")
            lines.append(f"{name}{origin}: {message}" if name else message)
        raise SettingsError("\n".join(lines)) from error


def _read_file(path: Path) -> dict[str, Any]:
    toml = import_module("tomllib")  # most servers have no file
    try:
        values: dict[str, Any] = toml.loads(path.read_text("utf-8"))
    except OSError as error:
        raise SettingsError(f"{path}: cannot be read: {error.strerror}") from error
    except ValueError as error:  # no UTF-8, or no TOML
        raise SettingsError(f"{path}: is not TOML: {error}") from error
    _refuse_unknown(values, f"{path}: ")
    return values


def _refuse_unknown(names: Iterable[str], where: str) -> None:
    unknown = [name for name in names if name not in Settings.model_fields]
    if unknown:
        raise SettingsError("\n".join(f"{where}{_unknown(name)}" for name in unknown))


def _read_secrets(environment_values: Mapping[str, Any]) -> dict[str, tuple[Any, str]]:
    known, in_files = file_variables(), {}
    try:
        for variable, value in os.environ.items():
            setting = known.get(variable.upper())
            if setting is not None and value:
                origin = f"file {value} of environment {variable}"
                in_files[setting] = _content(variable, Path(value)), origin
        of_systemd = credentials()
    except ValueError as error:
        raise SettingsError(str(error)) from error
    twice = [f"{ENVIRONMENT_PREFIX}{name.upper()}" for name in in_files if name in environment_values]
    if twice:
        both = [f"{name} and {name}_FILE are both set: leave one out" for name in twice]
        raise SettingsError("\n".join(both))
    return {**of_systemd, **in_files}


def _unknown(name: str) -> str:
    near = near_words(name, Settings.model_fields, 1)
    return f"there is no setting {name}" + (f"; did you mean {near[0]}?" if near else "")


def _unknown_variables() -> tuple[str, ...]:
    known = {f"{ENVIRONMENT_PREFIX}{name}".upper() for name in Settings.model_fields} | {CONFIG_VARIABLE}
    known |= {PROJECT_SECRET_VARIABLE, f"{PROJECT_SECRET_VARIABLE}_FILE"} | file_variables().keys()
    known |= {f"{ENVIRONMENT_PREFIX}{name}" for name in _OF_TESTS}
    named = [name for name in os.environ if name.upper().startswith(ENVIRONMENT_PREFIX)]
    return tuple(sorted(name for name in named if name.upper() not in known))


def secret_names() -> tuple[str, ...]:
    """The settings whose values are secrets."""
    return tuple(name for name, field in Settings.model_fields.items() if _holds_a_secret(field.annotation))


def file_variables() -> Mapping[str, str]:
    """The environment variables that name a file with a secret: the setting of each.
    `BRIDGE_PRIVATE_KEYS_FILE` is not among them, because `private_keys_file` is a setting.
    """
    names = [name for name in secret_names() if f"{name}_file" not in Settings.model_fields]
    return {f"{ENVIRONMENT_PREFIX}{name}_file".upper(): name for name in names}


def credentials() -> dict[str, tuple[Any, str]]:
    """The secrets among the systemd credentials of this service, each with its source. Raises ValueError."""
    folder = os.environ.get(CREDENTIALS_DIRECTORY)
    found = {}
    for name in (*secret_names(), *FILES_OF_SECRETS) if folder else ():
        file = Path(folder or "") / name
        if file.exists():
            value = file if name in FILES_OF_SECRETS else _content(f"credential {name}", file)
            found[name] = value, f"systemd credential {name}"
    return found


def _content(source: str, file: Path) -> str:
    try:
        return text_of(file.expanduser()).strip()
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _holds_a_secret(annotation: Any) -> bool:
    is_secret = isinstance(annotation, type) and issubclass(annotation, SecretStr)
    return is_secret or any(map(_holds_a_secret, get_args(annotation)))
