"""Settings that a running server reads again: parts hold values that are rewritten in place.

A setting that a registered part reads can be changed without a restart; any other setting cannot.
"""

from collections.abc import Callable
from dataclasses import dataclass, fields, is_dataclass
from typing import Any, TypeVar, cast

from bridge_server.kernel.secrets import OneToken
from bridge_server.settings.settings import Settings

Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Taken:
    """The names of settings that differ from before: taken over, or waiting for a restart."""

    changed: tuple[str, ...]
    needs_restart: tuple[str, ...]


class LiveSettings:
    """The settings that hold now, and everything that follows them."""

    def __init__(self, settings: Settings) -> None:
        self.current = settings
        self._names: set[str] = set()
        self._tokens: set[str] = set()
        self._followers: list[Callable[[Settings], None]] = []

    @property
    def names(self) -> frozenset[str]:
        """The settings that can be changed without a restart."""
        return frozenset(self._names | self._tokens)

    def held(self, make: Callable[[Settings], Value]) -> Value:
        """The dataclass that `make` makes of the settings; its fields change with them."""
        value = make(self._noting_names())
        self._followers.append(lambda settings: _rewrite(value, make(settings)))
        return value

    def follow(self, take: Callable[[Settings], None]) -> None:
        """Have `take` called with the settings now, and whenever they change."""
        take(self._noting_names())
        self._followers.append(take)

    def token(self, name: str) -> OneToken | None:
        """The bearer token of this setting, whose text changes with it; None when it is not set.

        Routes are made with or without a token, so setting one or leaving it out takes a restart.
        """
        secret = getattr(self.current, name)
        self._tokens.add(name)
        if secret is None:
            return None
        token = OneToken(secret.get_secret_value())
        self._followers.append(lambda settings: token.replace(getattr(settings, name).get_secret_value()))
        return token

    def take(self, read: Settings) -> Taken:
        """Apply the settings that need no restart."""
        different = [name for name in Settings.model_fields if self._differs(name, read)]
        changed = [name for name in different if self._can_change(name, read)]
        self.current = self.current.model_copy(update={name: getattr(read, name) for name in changed})
        for take in self._followers:
            take(self.current)
        return Taken(tuple(changed), tuple(name for name in different if name not in changed))

    def _differs(self, name: str, read: Settings) -> bool:
        return bool(getattr(self.current, name) != getattr(read, name))

    def _can_change(self, name: str, read: Settings) -> bool:
        if name in self._tokens:
            return getattr(self.current, name) is not None and getattr(read, name) is not None
        return name in self._names

    def _noting_names(self) -> Settings:
        return cast(Settings, _NotedReading(self.current, self._names))


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
