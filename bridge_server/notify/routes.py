"""The routes of the notification service with their rate limits (docs/protocol.md, A)."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import TypeVar

import orjson
from aiohttp import web

from bridge_server.kernel.errors import BridgeError
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.notify import wire
from bridge_server.notify.audiences import Audiences
from bridge_server.notify.service import Notifications
from bridge_server.projects.models import PROJECT_ID_PATTERN, Publisher
from bridge_server.projects.service import Projects
from bridge_server.web.answers import StreamedAnswer, json_answer
from bridge_server.web.bodies import JsonObject, json_object
from bridge_server.web.prefer import wanted_dry_run
from bridge_server.web.routes import Handler, Route
from bridge_server.web.traffic import NOTIFYING

_PUBLISHER = web.RequestKey("publisher", Publisher)

_LOOK_FOR_THE_SECRET = frozenset({"notify", "subscriber-lookup"})
"""Rows whose statements look for the secret themselves, so that it need not be read before."""

_PLAIN_ID = re.compile(PROJECT_ID_PATTERN, re.ASCII)
_FIELD = "'Authorization: Bearer SECRET'"
_PLAIN_ID = re.compile(PROJECT_ID_PATTERN, re.ASCII)
_PROJECT = "{project_id:[^/]{1,128}}"

NOTIFY = Limit("notify-calls", burst=20, interval_us=MICROSECONDS // 2)
DRY_RUN = Limit("notify-dry-runs", burst=20, interval_us=MICROSECONDS // 2)
LOOKUP = Limit("subscriber-lookups", burst=100, interval_us=MICROSECONDS // 100)
LISTING = Limit("subscriber-listings", burst=2, interval_us=300 * MICROSECONDS)
TEST_LISTING = Limit("subscriber-listings", burst=1_000, interval_us=MICROSECONDS // 100)
MARK_ALL = Limit("mark-all-as-read-calls", burst=5, interval_us=3_600 * MICROSECONDS)


_Read = TypeVar("_Read")


class NotifyHandlers:
    """One method per endpoint (docs/protocol.md, A)."""

    def __init__(self, notifications: Notifications, audiences: Audiences, projects: Projects) -> None:
        self._notifications = notifications
        self._audiences = audiences
        self._projects = projects

    async def identify(self, request: web.Request, secret: str) -> str | None:
        """Authenticate a project by its secret; returns the key of its token buckets, None if it is wrong."""
        project_id = request.match_info["project_id"]
        return _caller(request, await self._projects.authenticate(project_id, secret))

    async def recognize(self, request: web.Request, secret: str) -> str | None:
        """Like `identify`, for a handler whose statements look for the secret again."""
        project_id = request.match_info["project_id"]
        return _caller(request, await self._projects.recognize(project_id, secret))

    async def notify(self, request: web.Request) -> web.StreamResponse:
        wanted = await self._read(request, wire.read_notify_request)
        is_dry_run = wanted_dry_run(request)
        failures = await self._notifications.notify(request[_PUBLISHER], wanted, is_dry_run)
        return json_answer(wire.write_outcome(wanted.keys, failures))

    async def notify_audience(self, request: web.Request) -> web.StreamResponse:
        is_dry_run = wanted_dry_run(request)
        wanted = wire.read_audience_request(await json_object(request, is_labelled=False), is_dry_run)
        outcome = await self._audiences.notify(request[_PUBLISHER], wanted, is_dry_run)
        return json_answer(orjson.dumps(wire.audience_outcome_fields(outcome)))

    async def lookup(self, request: web.Request) -> web.StreamResponse:
        asked = await self._read(request, wire.read_lookup)
        found = await self._notifications.lookup(request[_PUBLISHER], asked.keys)
        wire.check_spellings(asked.document, found.spelled_otherwise)
        return json_answer(b"{%b}" % found.members)

    async def listing(self, request: web.Request) -> web.StreamResponse:
        return StreamedAnswer(_array(self._notifications.listing(request[_PUBLISHER].project)))

    async def mark_all_as_read(self, request: web.Request) -> web.StreamResponse:
        return json_answer(wire.write_marked(await self._notifications.mark_all_as_read(request[_PUBLISHER])))

    async def _read(self, request: web.Request, read: Callable[[JsonObject], _Read]) -> _Read:
        """The request of a recognized caller. A caller whose secret is revoked learns of no fault in it."""
        try:
            return read(await json_object(request, is_labelled=False))
        except BridgeError:
            await self._projects.require_live(request[_PUBLISHER])
            raise


def _caller(request: web.Request, publisher: Publisher | None) -> str | None:
    if publisher is None:
        return None
    request[_PUBLISHER] = publisher
    return f"project:{publisher.project.number}"


def _no_caller(request: web.Request) -> str:
    """One text for all causes: a secret that is missing or wrong, and a project that is not there."""
    project_id = request.match_info["project_id"]
    project = f"no project '{project_id}'" if _PLAIN_ID.fullmatch(project_id) else "no such project"
    return f"The secret is missing, wrong or revoked, or there is {project}: send {_FIELD}."


async def _array(pages: AsyncGenerator[bytes]) -> AsyncGenerator[bytes]:
    """Join pages into one JSON array. A page holds JSON strings without the outer quotation marks."""
    opening = b'["'
    async with aclosing(pages):
        async for page in pages:
            yield opening + page
            opening = b'","'
    yield b"[]" if opening == b'["' else b'"]'


def notify_routes(
    handlers: NotifyHandlers, body_limit_bytes: int, *, lists_freely: bool
) -> tuple[Route, ...]:
    """Every endpoint of the notification service. No web page may call them: the secret is a backend's.

    `lists_freely` replaces the limit of listings, for which a test would wait five minutes.
    """

    def route(
        method: str, path: str, name: str, handler: Handler, limit: Limit, body_limit_bytes: int = 0,
        dry_run_limits: tuple[Limit, ...] = (),
    ) -> Route:  # fmt: skip
        return Route(
            method=method, path=path, name=name, handler=handler,
            identify=handlers.recognize if name in _LOOK_FOR_THE_SECRET else handlers.identify,
            caller_limits=(limit,), body_limit_bytes=body_limit_bytes,
            dry_run_limits=dry_run_limits, who="backend", without_caller=_no_caller,
            summary=wire.summary if name in NOTIFYING else None,
        )  # fmt: skip

    notify, subscribers = f"/{_PROJECT}/notify", f"/v1/{_PROJECT}/subscribers"
    audience, mark_all = f"{notify}/audience", f"/v1/{_PROJECT}/mark-all-as-read"
    sending = (NOTIFY, body_limit_bytes, (DRY_RUN,))
    listing = TEST_LISTING if lists_freely else LISTING
    return (
        route("POST", notify, "notify", handlers.notify, *sending),
        route("POST", audience, "notify-audience", handlers.notify_audience, *sending),
        route("POST", subscribers, "subscriber-lookup", handlers.lookup, LOOKUP, body_limit_bytes),
        route("GET", f"/{_PROJECT}/subscribers", "subscriber-listing", handlers.listing, listing),
        route("POST", mark_all, "mark-all-as-read", handlers.mark_all_as_read, MARK_ALL),
    )
