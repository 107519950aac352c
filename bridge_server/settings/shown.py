"""Settings as they are shown to the operator: values and sources, without secrets."""

from collections.abc import Mapping
from typing import Any

from pydantic import SecretStr

from bridge_server.settings.settings import NOT_SET, Settings

_GIVEN = "given by the program"
"""The source of a setting that a program handed to the server itself."""


def shown_settings(settings: Settings, origins: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The value and the origin of each setting, by name. A secret is `(set)`."""
    rows = {}
    for name, value in settings:
        is_default = value == Settings.model_fields[name].default
        origin = origins.get(name) or ("default" if is_default else _GIVEN)
        rows[name] = {"value": _shown(value, is_default), "origin": origin}
    return rows


def _shown(value: Any, is_default: bool) -> Any:
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr):
        return value.get_secret_value() if is_default else "(set)"  # a default is public
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or NOT_SET
    return str(value)
