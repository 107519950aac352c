"""Models of the console: sessions, pages, and the values that pages answer with."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Literal, TypeAlias

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.values import dataclass
from bridge_server.web.answers import Source

ROOT = "/console"  # the path of every page begins with this


@dataclass(frozen=True, slots=True)
class ConsoleSession:
    """A browser that is signed in. `form_token` stands in each of its forms."""

    digest: bytes = field(repr=False)
    expires_at_ms: int
    form_token: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Asked:
    """A request for a page: the names in its path, its query, the fields of its form, and the host."""

    names: Mapping[str, str]
    query: Mapping[str, str]
    form: Mapping[str, str] = field(default_factory=dict)
    host: str = ""

    def texts(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Any]:
        """Fields of the form. An optional field that is empty is left out."""
        given = {name: self.form.get(name, "").strip() for name in (*names, *optional)}
        return {name: text for name, text in given.items() if text or name in names}


@dataclass(frozen=True, slots=True)
class View:
    """A template with its fields."""

    template: str
    fields: Mapping[str, Any]
    live: Sequence[str] = ()  # topics: open pages load again when one of them has changed
    error: BridgeError | None = None  # the failure of a request whose page is shown nevertheless


@dataclass(frozen=True, slots=True)
class Done:
    """A change is made: the page to go to, a message on it, secrets that are shown once, a picture's URL."""

    to: str
    message: str
    secrets: Mapping[str, str] = field(default_factory=dict, repr=False)
    picture: str = field(default="", repr=False)
    picture_of: str = ""  # a description of the image for people who do not see it
    is_good: bool = True  # false when the change was made without the wanted outcome


Show: TypeAlias = Callable[[Asked], Awaitable[View]]
Change: TypeAlias = Callable[[Asked], Awaitable[Done | View]]
"""A form that changes nothing, such as a dry run, answers with a view: its fields stay as they were sent."""


@dataclass(frozen=True, slots=True)
class PagePath:
    """A path below `/console`: its view, and the changes that its forms make, by their names."""

    path: str
    show: Show
    changes: Mapping[str, Change] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PageStream:
    """A path below `/console` with server-sent events, which end with the session of the browser."""

    path: str
    opened: Callable[[Asked], Source]


NavigationGroup: TypeAlias = Literal["Live", "Out", "Notifications", "Server"]
"""A part of the navigation; the parts in their order."""


@dataclass(frozen=True, slots=True)
class ConsolePage:
    """An entry of the navigation: its name in routes, title, paths, and the number beside the title."""

    name: str
    title: str
    group: NavigationGroup
    paths: Sequence[PagePath]
    count: Callable[[], Awaitable[int]] | None = None
    streams: Sequence[PageStream] = ()


@dataclass(frozen=True, slots=True)
class ServerState:
    """The state of the server, for the header of every page."""

    is_ready: bool
    troubles: Sequence[str]
    due: int
    dead: int
    chain_id: int | None
    is_test: bool
    ahead_ms: int = 0  # the time by which tests have moved the clock


def number_of(text: str) -> Any:
    """The number that the text spells, or the text itself: no shape takes it for a number."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text
