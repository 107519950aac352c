"""A route as data: one row per endpoint, with its access rules beside its path."""

import re
from collections.abc import Awaitable, Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.fields import is_loopback
from bridge_server.kernel.token_bucket import Limit

_ORIGIN = re.compile(r"https?://([^/:@\[\]]+|\[[^\[\]]+\])(?::[0-9]{1,5})?", re.ASCII)

_SLASHES = re.compile(r"\{(slashes|first_slashes|last_slashes)[^{}]*\}")
_PATTERN = re.compile(r"\{(\w+):[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")

_OBSERVERS = frozenset({"test", "console", "reader"})


class AllowedOrigins:
    """The origins whose pages may call an endpoint: `named` ones, and others that the rule `admits`."""

    def __init__(self, named: Iterable[str] = (), admits: Callable[[str], bool] | None = None) -> None:
        self._named = frozenset(named)
        self._admits = admits

    def __contains__(self, origin: object) -> bool:
        if origin in self._named:
            return True
        return self._admits is not None and isinstance(origin, str) and self._admits(origin)

    def __bool__(self) -> bool:
        """Whether any origin may be allowed."""
        return bool(self._named) or self._admits is not None


NO_ORIGINS = AllowedOrigins()


def any_of(many: Iterable[AllowedOrigins]) -> AllowedOrigins:
    """The union of many: an origin is allowed if one of them allows it."""
    each = [origins for origins in many if origins]
    if not each:
        return NO_ORIGINS
    return AllowedOrigins(admits=lambda origin: any(origin in origins for origins in each))


def is_loopback_origin(origin: str) -> bool:
    """Whether a page of this origin comes from the machine that its browser runs on, at whatever port."""
    found = _ORIGIN.fullmatch(origin)
    return found is not None and is_loopback(found[1])


Handler: TypeAlias = Callable[[web.Request], Awaitable[web.StreamResponse]]
Identify: TypeAlias = Callable[[web.Request, str], Awaitable[str | None]]
"""Finds whose bearer token this is, keeps it in the request, and returns the key of the caller's buckets."""


# The values of a row are named tuples: dataclasses take four times as long to define at each start.

_TEXT_SCHEMA = MappingProxyType({"type": "string"})

JSON = "application/json"
TEXT = "text/plain"
HTML = "text/html"
EVENTS = "text/event-stream"


class DescribedAnswer(NamedTuple):
    """One answer: its status, its meaning in a sentence, and the shape of its body (None: no body)."""

    status: int
    meaning: str
    shape: Any = None
    media_type: str = JSON


UNCHANGED = DescribedAnswer(304, "It has not changed since the ETag of If-None-Match.")


class Parameter(NamedTuple):
    """A parameter of the query or the header fields, or the meaning of one in the path."""

    name: str
    text: str
    schema: Mapping[str, Any] = _TEXT_SCHEMA
    place: Literal["query", "header", "path"] = "query"
    example: str | None = None
    """Its value in the example; None leaves it out."""


class About(NamedTuple):
    """The description of a route beyond its row. It is read when somebody asks for the description."""

    work: Callable[..., Any]
    """The function whose docstring is the text."""
    tag: str
    """The heading of the route."""
    summary: str
    answers: tuple[DescribedAnswer, ...]
    problems: tuple[type[BridgeError], ...] = ()
    """The failures of its own, without failures that follow from the row (token, limits, body)."""
    body: Any = None
    """The shape of the JSON that it reads; None if it reads none."""
    body_example: Any = None
    body_is_optional: bool = False
    parameters: tuple[Parameter, ...] = ()
    polls: bool = False
    """Whether a client may ask it to wait (`Prefer: wait=25`, `?wait=25`)."""
    needs_database: bool = True
    extensions: Mapping[str, Any] = MappingProxyType({})
    """Members that begin with `x-`."""

    @property
    def text(self) -> str:
        """The docstring in one line, without the errors that it raises."""
        return " ".join((self.work.__doc__ or "").split()).partition(" Raises ")[0]


class Access(NamedTuple):
    """The clients that may call a route, and the web pages that may (CORS)."""

    guard: Callable[[web.Request], None] | None = None
    """Raises an error for a request from a forbidden place, before anything else is read."""
    on_refusal: Callable[[web.Request, BridgeError], None] | None = None
    """Called with each request that the guard or the bearer token keeps out, and the reason."""
    bearer: Callable[[str], bool] | None = None
    """Returns whether a bearer token may pass; None asks for no token."""
    identify: Identify | None = None
    """Finds the caller of a bearer token; None identifies no caller."""
    without_caller: Callable[[web.Request], str] | None = None
    """Says why the caller of a request was not found; None: in the usual words."""
    any_origin: bool = False
    """Whether web pages of any origin may call it."""
    origins: AllowedOrigins = NO_ORIGINS
    """The origins whose web pages may call it."""

    @property
    def takes_token(self) -> bool:
        """Whether a request needs a bearer token."""
        return self.bearer is not None or self.identify is not None


NO_PAGES = Access()
"""Every client, and no web page of another origin."""
ANY_PAGE = Access(any_origin=True)
"""Every client, and web pages of any origin."""


class Route(NamedTuple):
    """One endpoint. The application, the gateway and the tests all read these rows."""

    method: str
    path: str
    name: str
    handler: Handler
    access: Access = NO_PAGES
    body_limit_bytes: int = 0
    """The largest body it accepts; a route that reads none is sent none."""
    limits: tuple[Limit, ...] = ()
    """Token buckets per client address, all of which a request is charged to."""
    caller_limits: tuple[Limit, ...] = ()
    """Token buckets of the caller that was identified. What they are charged is on disk before the answer."""
    dry_run_limits: tuple[Limit, ...] = ()
    """Token buckets that a dry run is charged to instead of the caller's."""
    forgives_slashes: bool = False
    """Whether more slashes than one, and one at the end, count as if they were not there."""
    reads_id: bool = False
    """Whether its handler reads the request's id: for others it is not kept in the request."""
    waits: bool = False
    """Whether it may hold a request on purpose, as a long poll does."""
    who: str = "client"
    """The side that calls it: in the record of requests, and in the description the kind of its token."""
    about: About | None = None
    """What the description says of it; None for pages that people read."""

    @property
    def request(self) -> str:
        """The method and the path, with the names of its parameters and without their patterns."""
        path = _SLASHES.sub(lambda found: "" if found[1] == "last_slashes" else "/", self.path)
        plain = _PATTERN.sub(r"{\1}", path)
        return f"{self.method} {plain}"

    @property
    def only_observes(self) -> bool:
        """Whether it tests, watches or documents the server: no fault strikes it, nothing is recorded."""
        return self.who in _OBSERVERS


def forgiving(path: str) -> str:
    """The path with any number of slashes wherever it has one, and at its ends, as aiohttp spells that."""
    first, *rest = path.removeprefix("/").split("/")
    spelled = "".join(f"{{slashes_{number}:/+}}{part}" for number, part in enumerate(rest))
    return f"/{{first_slashes:/*}}{first}{spelled}{{last_slashes:/*}}"
