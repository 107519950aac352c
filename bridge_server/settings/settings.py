"""All settings in one flat model, with the names that the environment, the TOML file and the flags use; as
they are shown to the operator; and as a running server reads them again.
"""

from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from types import MappingProxyType
from typing import Any, NamedTuple, Self, TypeVar, cast

from pydantic import ConfigDict, SecretStr, model_validator

from bridge_server.kernel.secrets import ChangingToken
from bridge_server.settings import rooms, server
from bridge_server.settings.types import DatabaseUrl, secret_of

ENVIRONMENT_PREFIX = "BRIDGE_"
SECRET_IS_SET = "(set)"  # noqa: S105 - no secret
"""The text in the place of a secret that is set."""
NOT_SET = "none"
"""The spelling of an optional setting without a value, and of an empty list."""

_GIVEN = "given by the program"
"""The source of a setting that a program handed to the server itself."""

NOWHERE: Mapping[str, str] = MappingProxyType({})
"""The origins of settings that a program made: it read them from no source."""

_PREVIOUS = "_previous"

Value = TypeVar("Value")


# pydantic lists the fields of the last model first: read from the bottom, this is the order in the table.
class Settings(
    server.TestModeSettings,
    rooms.OutboxSettings,
    rooms.WalletSettings,
    rooms.PushSettings,
    rooms.InboxSettings,
    server.ConsoleSettings,
    server.AdminSettings,
    rooms.NotifySettings,
    rooms.PubSubSettings,
    rooms.RelaySettings,
    server.WebSettings,
    server.ReportingSettings,
    server.StorageSettings,
    server.ServerSettings,
):
    """The settings of one server. Times are in seconds, sizes in bytes."""

    model_config = ConfigDict(extra="forbid", frozen=True, validate_default=True, defer_build=False)

    @model_validator(mode="before")
    @classmethod
    def _none_is_a_value(cls, values: Any) -> Any:
        """Read `none`, as `config check` prints it, as no value or an empty list."""
        return {name: _read_none(name, value) for name, value in values.items()}

    @model_validator(mode="after")
    def _former_secrets_have_successors(self) -> Self:
        for name in Settings.model_fields:
            current = name.removesuffix(_PREVIOUS)
            if current != name and getattr(self, name) is not None and getattr(self, current) is None:
                raise ValueError(f"{name}: works beside {current} only: set {current} too, or leave both out")
        return self


def _read_none(name: str, value: Any) -> Any:
    field = Settings.model_fields.get(name)
    if field is None or not isinstance(value, str) or value.strip().lower() != NOT_SET:
        return value
    if isinstance(field.default, tuple):
        return ()
    return field.default if field.default in (None, "") else value


def shown_settings(settings: Settings, origins: Mapping[str, str]) -> dict[str, dict[str, Any]]:
    """The value and the origin of each setting, by name. A secret is `(set)`."""
    rows = {}
    for name, value in settings:
        is_default = value == Settings.model_fields[name].default
        origin = origins.get(name) or ("default" if is_default else _GIVEN)
        rows[name] = {"value": shown_value(value, is_default=is_default), "origin": origin}
    return rows


def shown_value(value: Any, *, is_default: bool) -> Any:
    """The value as JSON can have it: a secret is `(set)` unless a default, a URL has no password."""
    if value is None or isinstance(value, bool | int | float):
        return value
    if isinstance(value, SecretStr) and not isinstance(value, DatabaseUrl):
        return value.get_secret_value() if is_default else SECRET_IS_SET  # a default is public
    if isinstance(value, tuple):
        return ", ".join(map(str, value)) or NOT_SET
    return str(value)


class Taken(NamedTuple):
    """The names of settings that differ after a reading: taken over (`changed`), or waiting for a restart."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


class LiveSettings:
    """The settings that hold now, with the source of each, for a server that reads them again while it runs.
    Only a setting that was read through `held`, `follow` or `token` can be changed without a restart.
    """

    def __init__(self, settings: Settings, origins: Mapping[str, str] = NOWHERE) -> None:
        self.current = settings
        self.origins = origins
        self._names: set[str] = set()
        self._tokens: set[str] = set()
        self._followers: list[Callable[[Settings], None]] = []

    @property
    def names(self) -> frozenset[str]:
        """The settings that can be changed without a restart."""
        tokens = (each for each in self._tokens if getattr(self.current, each.removesuffix(_PREVIOUS)))
        return frozenset(self._names.union(tokens))

    def shown(self) -> dict[str, dict[str, Any]]:
        """Each setting as it may be shown, and whether a running server takes a new value (`live`)."""
        rows, names = shown_settings(self.current, self.origins), self.names
        return {name: {**row, "live": name in names} for name, row in rows.items()}

    def held(self, make: Callable[[Settings], Value]) -> Value:
        """The dataclass that `make` makes of the settings; its fields change with them."""
        value = make(self._noting_names())
        self._followers.append(lambda settings: _rewrite(value, make(settings)))
        return value

    def follow(self, take: Callable[[Settings], None]) -> None:
        """Have `take` called with the settings now, and whenever they change."""
        take(self._noting_names())
        self._followers.append(take)

    def token(self, name: str) -> ChangingToken | None:
        """The bearer token of this setting, and the token of `NAME_previous`; None when the first is not set.
        Their texts change with the settings. Routes are made with or without a token, so setting the first or
        leaving it out takes a restart.
        """
        self._tokens |= {name, name + _PREVIOUS}
        if getattr(self.current, name) is None:
            return None
        token = ChangingToken(*_token_texts(self.current, name))
        self._followers.append(lambda settings: token.replace(*_token_texts(settings, name)))
        return token

    def take(self, read: Settings, origins: Mapping[str, str] = NOWHERE) -> Taken:
        """Apply the settings that need no restart. `origins` names the source of each."""
        now = self.current
        different = [name for name in Settings.model_fields if getattr(now, name) != getattr(read, name)]
        changed = [name for name in different if self._can_change(name, read)]
        self.current = self.current.model_copy(update={name: getattr(read, name) for name in changed})
        for take in self._followers:
            take(self.current)
        waiting = tuple(name for name in different if name not in changed)
        self.origins = {**self.origins, **{name: origins[name] for name in origins if name not in waiting}}
        return Taken(tuple(changed), waiting)

    def _can_change(self, name: str, read: Settings) -> bool:
        if name not in self._tokens:
            return name in self._names
        if name.endswith(_PREVIOUS):
            return getattr(self.current, name.removesuffix(_PREVIOUS)) is not None
        return getattr(self.current, name) is not None and getattr(read, name) is not None

    def _noting_names(self) -> Settings:
        return cast(Settings, _NotedReading(self.current, self._names))


def _token_texts(settings: Settings, name: str) -> tuple[str, str | None]:
    return getattr(settings, name).get_secret_value(), secret_of(getattr(settings, name + _PREVIOUS))


class _NotedReading:
    def __init__(self, settings: Settings, names: set[str]) -> None:
        self._settings = settings
        self._names = names

    def __getattr__(self, name: str) -> Any:
        self._names.add(name)
        return getattr(self._settings, name)


def _rewrite(held: Any, wanted: Any) -> None:
    """Give the held dataclass the values of the other; dataclasses in its fields are rewritten as well."""
    for field in fields(held):
        value = getattr(wanted, field.name)
        if is_dataclass(value):
            _rewrite(getattr(held, field.name), value)
        else:
            setattr(held, field.name, value)
