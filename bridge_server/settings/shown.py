"""Settings as they are shown to the operator: values and sources, without secrets."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from bridge_server.settings.settings import NOT_SET, Settings
from bridge_server.settings.types import DatabaseUrl

_GIVEN = "given by the program"
"""The source of a setting that a program handed to the server itself."""


def shown_settings(settings: Settings, origins: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The value and the origin of each setting, by name. A secret is `(set)`."""
    rows = {}
    for name, value in settings:
        is_default = value == Settings.model_fields[name].default
        origin = origins.get(name) or ("default" if is_default else _GIVEN)
        rows[name] = {"value": shown_value(value, is_default=is_default), "origin": origin}
    return rows


def shown_value(value: Any, *, is_default: bool) -> Any:
    """The value of a setting as JSON can have it. A secret is `(set)`, unless it is a default.

    The URL of a database is shown without its password.
    """
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr) and not isinstance(value, DatabaseUrl):
        return value.get_secret_value() if is_default else "(set)"  # a default is public
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or NOT_SET
    return str(value)
