"""The routes of the notification service with their rate limits (docs/protocol.md, A)."""

import re
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, TypeVar

import orjson
from aiohttp import web

from bridge_server.kernel.errors import BridgeError, NotAuthenticatedError
from bridge_server.kernel.token_bucket import MICROSECONDS, Limit
from bridge_server.notify import wire
from bridge_server.notify.service import Audiences, Notifications
from bridge_server.projects.models import PROJECT_ID_PATTERN, Publisher
from bridge_server.projects.service import Projects
from bridge_server.web.answers import StreamedAnswer, json_answer
from bridge_server.web.bodies import JsonObject, json_object
from bridge_server.web.prefer import wanted_dry_run
from bridge_server.web.routes import About, Access, DescribedAnswer, Handler, Parameter, Route
from bridge_server.web.shapes import Account

_PUBLISHER = web.RequestKey("publisher", Publisher)

_CHECK_THE_SECRET = frozenset({"notify", "subscriber-lookup"})
"""Rows whose statements look for the secret themselves, so that it need not be read before."""

_FIELD = "'Authorization: Bearer SECRET'"
_PLAIN_ID = re.compile(PROJECT_ID_PATTERN, re.ASCII)
_PROJECT = "{project_id:[^/]{1,128}}"

NOTIFY = Limit("notify-calls", burst=20, interval_us=MICROSECONDS // 2)
DRY_RUN = Limit("notify-dry-runs", burst=20, interval_us=MICROSECONDS // 2)
LOOKUP = Limit("subscriber-lookups", burst=100, interval_us=MICROSECONDS // 100)
LISTING = Limit("subscriber-listings", burst=2, interval_us=300 * MICROSECONDS)
TEST_LISTING = Limit("subscriber-listings", burst=1_000, interval_us=MICROSECONDS // 100)
MARK_ALL = Limit("mark-all-as-read-calls", burst=5, interval_us=3_600 * MICROSECONDS)

_TAG = "Notifications"
_ACCOUNT = "eip155:1:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb"
_NOTIFICATION = {
    "type": "price-alert",
    "title": "ETH is up",
    "body": "1 ETH costs 4,000 USD.",
    "url": "https://app.example.org/eth",
}
_NOTIFY = {"notification_id": "eth-4000", "notification": _NOTIFICATION, "accounts": [_ACCOUNT]}
AUDIENCE_EXAMPLE = {"notification_id": "eth-4000", "notification": _NOTIFICATION, "audience": "all"}
DRY_RUN_QUERY = Parameter(
    "dry_run",
    "With `1` the answer is what it would be, and nothing is sent. Dry runs have a limit of their own.",
    {"enum": ["0", "1", "true", "false"]},
)

_Read = TypeVar("_Read")


class NotifyHandlers:
    """One method per endpoint (docs/protocol.md, A)."""

    def __init__(self, notifications: Notifications, audiences: Audiences, projects: Projects) -> None:
        self._notifications, self._audiences, self._projects = notifications, audiences, projects

    async def identify(self, request: web.Request, secret: str) -> str | None:
        """Authenticate a project by its secret; returns the key of its token buckets, None if it is wrong."""
        project_id = request.match_info["project_id"]
        return _caller(request, await self._projects.authenticate(project_id, secret))

    async def recognize(self, request: web.Request, secret: str) -> str | None:
        """Like `identify`, for a handler whose statements look for the secret again."""
        project_id = request.match_info["project_id"]
        return _caller(request, await self._projects.recognize(project_id, secret))

    async def notify(self, request: web.Request) -> web.StreamResponse:
        """Sends a notification to at most 500 accounts. `notification_id` is an idempotency key without an
        expiry: a repeat sends the content of the first call to the accounts that it has not reached yet. To
        one account a project may send 2 an hour, 50 at once; an account over this limit is in `failed`, and
        the status stays 200. A member that is another spelling of a known one is a 400.
        """
        try:
            wanted = await self._read(request, wire.read_notify_request)
            is_dry_run = wanted_dry_run(request)
            failures = await self._notifications.notify(request[_PUBLISHER], wanted, is_dry_run)
        except NotAuthenticatedError as error:
            raise self._stranger(request) from error
        return json_answer(orjson.dumps(wire.outcome_fields(wanted.keys, failures)))

    async def notify_audience(self, request: web.Request) -> web.StreamResponse:
        """`audience` is `"all"`, `{"type": ...}` (the subscribers that have chosen the type) or
        `{"accounts": [...]}`. A call sends to at most 500 accounts; it is repeated with `after` set to `next`
        until that is null, and nothing has to be listed. For an audience without accounts a
        `notification_id` is required: an interrupted walk begins again, and nobody is sent to twice. The
        limits are those of `POST /{project_id}/notify`, whose calls count as well.
        """
        is_dry_run = wanted_dry_run(request)
        wanted = wire.read_audience_request(await json_object(request, is_labelled=False), is_dry_run)
        outcome = await self._audiences.notify(request[_PUBLISHER], wanted, is_dry_run)
        return json_answer(orjson.dumps(wire.audience_outcome_fields(outcome)))

    async def lookup(self, request: web.Request) -> web.StreamResponse:
        """The types of at most 100 accounts, as far as they subscribe to the project, by account as the
        request spelled it. Other accounts are left out.
        """
        try:
            keys, document = await self._read(request, wire.read_lookup)
            found = await self._notifications.store.lookup(request[_PUBLISHER], keys)
        except NotAuthenticatedError as error:
            raise self._stranger(request) from error
        wire.check_spellings(document, found.spelled_otherwise)
        return json_answer(found.subscribers)

    async def listing(self, request: web.Request) -> web.StreamResponse:
        """Every account that subscribes to the project, sorted. The array is streamed, however long it is."""
        return StreamedAnswer(_array(self._notifications.listing(request[_PUBLISHER].project)))

    async def mark_all_as_read(self, request: web.Request) -> web.StreamResponse:
        """Marks all notifications of the project that exist now as read. They do not count in the read
        rate.
        """
        marked = await self._notifications.mark_all_as_read(request[_PUBLISHER])
        return json_answer(b'{"marked":%d}' % marked)

    async def _read(self, request: web.Request, read: Callable[[JsonObject], _Read]) -> _Read:
        """The request of a recognized caller. A caller whose secret is revoked learns of no fault in it."""
        try:
            return read(await json_object(request, is_labelled=False))
        except BridgeError:
            await self._projects.store.require_live(request[_PUBLISHER])
            raise

    def _stranger(self, request: web.Request) -> NotAuthenticatedError:
        """The refusal of a caller whose secret a command has revoked: from now on it is one of a stranger."""
        self._projects.forget(request[_PUBLISHER].project.project_id)
        return NotAuthenticatedError(_no_caller(request))


def _caller(request: web.Request, publisher: Publisher | None) -> str | None:
    if publisher is None:
        return None
    request[_PUBLISHER] = publisher
    return f"project:{publisher.project.number}"


def _no_caller(request: web.Request) -> str:
    """One text for all causes: a secret that is missing or wrong, and a project that is not there."""
    project_id = request.match_info["project_id"]
    project = f"no project '{project_id}'" if _PLAIN_ID.fullmatch(project_id) else "no such project"
    return f"The secret is wrong or revoked, or there is {project}: send {_FIELD}."


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

    identified = Access(identify=handlers.identify, without_caller=_no_caller)
    recognized = Access(identify=handlers.recognize, without_caller=_no_caller)

    def row(
        method: str, path: str, name: str, handler: Handler, limit: Limit, summary: str,
        answer: DescribedAnswer, **about: Any,
    ) -> Route:  # fmt: skip
        is_sending = limit is NOTIFY
        return Route(
            method=method, path=path, name=name, handler=handler,
            access=recognized if name in _CHECK_THE_SECRET else identified,
            caller_limits=(limit,), body_limit_bytes=body_limit_bytes if "body" in about else 0,
            dry_run_limits=(DRY_RUN,) if is_sending else (), who="backend",
            about=About(
                work=handler, tag=_TAG, summary=summary, answers=(answer,),
                parameters=(DRY_RUN_QUERY,) if is_sending else (), **about,
            ),
        )  # fmt: skip

    notify, subscribers = f"/{_PROJECT}/notify", f"/v1/{_PROJECT}/subscribers"
    audience, mark_all = f"{notify}/audience", f"/v1/{_PROJECT}/mark-all-as-read"
    outcome = "What became of each account."
    return (
        row("POST", notify, "notify", handlers.notify, NOTIFY, "Send a notification",
            DescribedAnswer(200, outcome, wire.NotifyOutcomeAnswer),
            body=wire.NotifyShape, body_example=_NOTIFY),
        row("POST", audience, "notify-audience", handlers.notify_audience, NOTIFY,
            "Send a notification to an audience", DescribedAnswer(200, outcome, wire.AudienceOutcomeAnswer),
            body=wire.AudienceNotifyShape, body_example=AUDIENCE_EXAMPLE),
        row("POST", subscribers, "subscriber-lookup", handlers.lookup, LOOKUP, "Look up subscribers",
            DescribedAnswer(200, "The subscribers among them.", dict[str, wire.SubscribedTypesAnswer]),
            body=wire.LookupShape, body_example={"accounts": [_ACCOUNT]}),
        row("GET", f"/{_PROJECT}/subscribers", "subscriber-listing", handlers.listing,
            TEST_LISTING if lists_freely else LISTING, "List all subscribers",
            DescribedAnswer(200, "The accounts.", list[Account])),
        row("POST", mark_all, "mark-all-as-read", handlers.mark_all_as_read, MARK_ALL,
            "Mark every notification as read",
            DescribedAnswer(200, "How many were unread.", wire.MarkedNotificationsAnswer)),
    )  # fmt: skip
