"""Models of the console: sessions, pages, and the values that pages answer with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

ROOT = "/console"
"""The path of every page begins with this."""


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A browser that is signed in. `form_token` stands in each of its forms."""

    digest: bytes = field(repr=False)
    expires_at_ms: int
    form_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page: the names in its path, its query, and the fields of the form that was sent."""

    names: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class View:
    """A template with its fields. Open pages load again when one of the topics in `live` has changed."""

    template: str
    fields: Mapping[str, Any]
    live: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Done:
    """A change is made: the page to go to, a message on it, and secrets that are shown this once, by name."""

    to: str
    message: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)


Show: TypeAlias = Callable[[Asked], Awaitable[View]]
Change: TypeAlias = Callable[[Asked], Awaitable[Done]]


@dataclass(frozen=True, slots=True)
class PagePath:
    """A path below `/console`: its view, and the changes that its forms make, by their names."""

    path: str
    show: Show
    changes: Mapping[str, Change] = field(default_factory=dict)


class NavigationGroup(StrEnum):
    """A part of the navigation."""

    LIVE = "Live"
    OUT = "Out"
    NOTIFICATIONS = "Notifications"
    SERVER = "Server"


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """An entry of the navigation: its name in routes, title, paths, and the number beside the title."""

    name: str
    title: str
    group: NavigationGroup
    paths: Sequence[PagePath]
    count: Callable[[], Awaitable[int]] | None = None


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of the server, for the header of every page."""

    is_ready: bool
    troubles: Sequence[str]
    mode: str | None
    """What makes the server unfit for others, in a few words."""
    due: int
    dead: int
    chain_id: int | None
    is_test: bool
    ahead_ms: int = 0
    """How far tests have moved the clock."""
