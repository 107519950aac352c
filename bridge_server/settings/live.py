"""Settings that a running server reads again: parts hold values that are rewritten in place.

A setting that a registered part reads can be changed without a restart; any other setting cannot.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, is_dataclass
from types import MappingProxyType
from typing import Any, TypeVar, cast

from bridge_server.kernel.secrets import ChangingToken
from bridge_server.settings.checks import secret_of
from bridge_server.settings.settings import Settings
from bridge_server.settings.shown import shown_settings

NOWHERE: Mapping[str, str] = MappingProxyType({})
"""The origins of settings that a program made: it read them from no source."""

_PREVIOUS = "_previous"

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Taken:
    """The names of settings that differ from before: taken over, or waiting for a restart."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


class LiveSettings:
    """The settings that hold now with the source of each, and everything that follows them."""

    def __init__(self, settings: Settings, origins: Mapping[str, str] = NOWHERE) -> None:
        self.current = settings
        self.origins = origins
        self._names: set[str] = set()
        self._tokens: set[str] = set()
        self._followers: list[Callable[[Settings], None]] = []

    @property
    def names(self) -> frozenset[str]:
        """The settings that can be changed without a restart."""
        return frozenset(self._names | self._tokens)

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
        self._tokens |= {name, previous_of(name)}
        if getattr(self.current, name) is None:
            return None
        token = ChangingToken(*_token_texts(self.current, name))
        self._followers.append(lambda settings: token.replace(*_token_texts(settings, name)))
        return token

    def take(self, read: Settings, origins: Mapping[str, str] = NOWHERE) -> Taken:
        """Apply the settings that need no restart. `origins` names the source of each."""
        different = [name for name in Settings.model_fields if self._differs(name, read)]
        changed = [name for name in different if self._can_change(name, read)]
        self.current = self.current.model_copy(update={name: getattr(read, name) for name in changed})
        for take in self._followers:
            take(self.current)
        waiting = tuple(name for name in different if name not in changed)
        self.origins = {**self.origins, **{name: origins[name] for name in origins if name not in waiting}}
        return Taken(tuple(changed), waiting)

    def _differs(self, name: str, read: Settings) -> bool:
        return bool(getattr(self.current, name) != getattr(read, name))

    def _can_change(self, name: str, read: Settings) -> bool:
        if name not in self._tokens:
            return name in self._names
        if name.endswith(_PREVIOUS):
            return getattr(self.current, name.removesuffix(_PREVIOUS)) is not None
        return getattr(self.current, name) is not None and getattr(read, name) is not None

    def _noting_names(self) -> Settings:
        return cast(Settings, _NotedReading(self.current, self._names))


def previous_of(name: str) -> str:
    """The setting with the value that a token or secret had before, which is still good."""
    return name + _PREVIOUS


def _token_texts(settings: Settings, name: str) -> tuple[str, str | None]:
    return getattr(settings, name).get_secret_value(), secret_of(getattr(settings, previous_of(name)))


class _NotedReading:
    """Reads settings, and records the names that were read."""

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
