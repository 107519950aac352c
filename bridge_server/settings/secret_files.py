"""Secrets in files: variables of the form BRIDGE_ADMIN_TOKEN_FILE, which name one, and systemd credentials.

A file is not shown by `ps e`, `docker inspect` or `systemctl show`, as an environment variable is.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from pydantic import SecretStr

from bridge_server.settings.checks import text_of
from bridge_server.settings.settings import ENVIRONMENT_PREFIX, Settings

CREDENTIALS_DIRECTORY = "CREDENTIALS_DIRECTORY"
"""The variable by which systemd names the directory of a service's credentials (systemd.exec)."""

FILES_OF_SECRETS = ("apns_key", "fcm_credentials", "private_keys_file")
"""Settings that name a file with a secret: a credential of that name is the file."""


@dataclass(frozen=True, slots=True)
class FoundSecret:
    """The value of a setting, and the source as `config check` shows it."""

    value: Any
    origin: str


def secret_names() -> tuple[str, ...]:
    """The settings whose values are secrets."""
    return tuple(name for name, field in Settings.model_fields.items() if _holds_a_secret(field.annotation))


def file_variables() -> Mapping[str, str]:
    """The environment variables that name a file with a secret: the setting of each.

    `BRIDGE_PRIVATE_KEYS_FILE` is not among them, because `private_keys_file` is a setting.
    """
    names = [name for name in secret_names() if f"{name}_file" not in Settings.model_fields]
    return {f"{ENVIRONMENT_PREFIX}{name}_file".upper(): name for name in names}


def secrets_of_variables() -> dict[str, FoundSecret]:
    """The secrets in files that environment variables name. Raises ValueError if a file cannot be read."""
    known = file_variables()
    found = {}
    for variable, value in os.environ.items():
        name = known.get(variable.upper())
        if name is not None and value:
            origin = f"file {value} of environment {variable}"
            found[name] = FoundSecret(_content(variable, Path(value)), origin)
    return found


def credentials() -> dict[str, FoundSecret]:
    """The secrets among the systemd credentials of this service. Raises ValueError if one cannot be read."""
    folder = os.environ.get(CREDENTIALS_DIRECTORY)
    return dict(_credentials(Path(folder))) if folder else {}


def _credentials(folder: Path) -> Iterator[tuple[str, FoundSecret]]:
    for name in (*secret_names(), *FILES_OF_SECRETS):
        file = folder / name
        if file.exists():
            value = file if name in FILES_OF_SECRETS else _content(f"credential {name}", file)
            yield name, FoundSecret(value, f"systemd credential {name}")


def _content(source: str, file: Path) -> str:
    try:
        return text_of(file.expanduser()).strip()
    except ValueError as error:
        raise ValueError(f"{source}: {error}") from error


def _holds_a_secret(annotation: Any) -> bool:
    is_secret = isinstance(annotation, type) and issubclass(annotation, SecretStr)
    return is_secret or any(map(_holds_a_secret, get_args(annotation)))
