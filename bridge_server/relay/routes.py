"""The protocol's table (docs/protocol.md, B) as rows."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal

from aiohttp import web

from bridge_server.kernel.token_bucket import Limit
from bridge_server.relay import wire
from bridge_server.relay.dialect import Dialect
from bridge_server.relay.handlers import RelayHandlers
from bridge_server.relay.sightings import Sightings
from bridge_server.web.routes import Handler, Route

# A path segment without the form of an id matches no route: 404 without a look-up.
_ID = "[A-Za-z0-9_-]{1,128}"
_SESSION = f"/session/{{session_id:{_ID}}}"
_CALL_STATUS = f"/call-status/{{call_id:{_ID}}}"

_OF_WALLETS = frozenset({"update-session", "end-session", "calls", "call", "answer-call"})
_OF_EVERYBODY = frozenset({"hello", "info", "subscribe"})


def with_lan_handlers(rows: tuple[Route, ...], on_lan: tuple[Route, ...]) -> tuple[Route, ...]:
    """The rows, each with the handler that answers it for clients of the LAN listener."""
    return tuple(replace(row, lan_handler=other.handler) for row, other in zip(rows, on_lan, strict=True))


def relay_routes(
    handlers: RelayHandlers,
    dialect: Dialect,
    *,
    body_limit_bytes: int,
    every_request: Limit,
    new_sessions: Limit,
    sightings: Sightings | None = None,
) -> tuple[Route, ...]:
    """Every endpoint of the bridge, where the dialect's clients look for it.

    Web pages of any origin may call them: dapps live in browsers. Clients put the paths behind a URL that
    they are given, so that slashes too many are forgiven.
    """

    def read(path: str, name: str, handler: Handler, waits: bool = False) -> Route:
        return Route(
            method="GET", path=dialect.path + path, name=dialect.route_prefix + name, handler=handler,
            limits=(every_request,), any_origin=True, waits=waits, forgives_slashes=True, who=_who(name),
            id_name=_id_in(path), on_answers=_watcher(sightings, dialect, path, name),
        )  # fmt: skip

    def write(
        method: str, path: str, name: str, handler: Handler, *limits: Limit,
        makes: Literal["", "session", "call"] = "",
    ) -> Route:  # fmt: skip
        return Route(
            method=method, path=dialect.path + path, name=dialect.route_prefix + name, handler=handler,
            body_limit_bytes=body_limit_bytes, limits=(every_request, *limits), any_origin=True,
            forgives_slashes=True, who=_who(name), gist=wire.gist,
            makes=makes, id_name=_id_in(path), on_answers=_watcher(sightings, dialect, path, name),
            on_made=_maker(sightings, dialect, makes),
        )  # fmt: skip

    return (
        read("/hello", "hello", handlers.hello),
        read("/info", "info", handlers.info),
        write("POST", "/session/new", "open-session", handlers.open_session, new_sessions, makes="session"),
        read(_SESSION, "session", handlers.session, waits=True),
        write("PUT", _SESSION, "update-session", handlers.update_session),
        write("DELETE", _SESSION, "end-session", handlers.end_session),
        read(f"{_SESSION}/calls", "calls", handlers.calls, waits=True),
        write("POST", f"{_SESSION}/call/new", "request-call", handlers.request_call, makes="call"),
        read(f"{_SESSION}/call/{{call_id:{_ID}}}", "call", handlers.call),
        write("POST", f"{_CALL_STATUS}/new", "answer-call", handlers.answer_call),
        read(_CALL_STATUS, "call-status", handlers.status, waits=True),
        write("POST", "/subscribe", "subscribe", handlers.subscribe),
    )


def _watcher(
    sightings: Sightings | None, dialect: Dialect, path: str, name: str
) -> Callable[[Sequence[str], int], None] | None:
    """Notes which side of sessions has called; None for routes that name no session."""
    side = _who(name)
    if sightings is None or side == "client" or not _id_in(path):
        return None
    return sightings.watcher(dialect, side)


def _id_in(path: str) -> str:
    """The name of the id of a session, or of a call if the path has none of a session."""
    return next((name for name in ("session_id", "call_id") if f"{{{name}:" in path), "")


def _maker(
    sightings: Sightings | None, dialect: Dialect, makes: str
) -> Callable[[web.Request, bytes], None] | None:
    """Notes the session or the call that an answer has made."""
    if sightings is None or not makes:
        return None
    return sightings.see_opened(dialect) if makes == "session" else sightings.see_asked


def _who(name: str) -> Literal["client", "dapp", "wallet"]:
    """The side that usually calls the route."""
    return "client" if name in _OF_EVERYBODY else "wallet" if name in _OF_WALLETS else "dapp"
