"""The outbox: messages listed, sent again at once, dropped by the operator; and attempts to deliver them."""

import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Annotated, Any, NotRequired, TypeAlias
from urllib.parse import quote

import orjson
from aiohttp import web
from pydantic import Field

from bridge_server.admin import other_processes
from bridge_server.admin.other_processes import PROCESS, Fields, Pages, ProcessAnswer, WantedProcess
from bridge_server.admin.rows import AdminRows, body, read_choice, read_place, shortened, wanted_page
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.notify.service import DEVICE
from bridge_server.outbox import models
from bridge_server.outbox.channels import WEBHOOK_CHANNEL, AttemptLog, DeliveryAttempt
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.guarded_client import answered_status
from bridge_server.outbox.message_store import DeadSlice, MessageStore
from bridge_server.outbox.sender import SIGNATURE
from bridge_server.projects.subscriptions import PROJECT_EVENT
from bridge_server.web import shapes
from bridge_server.web.bodies import Shape
from bridge_server.web.routes import Parameter, Route

_PLACE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_NAMED = re.compile(r"([0-9]{1,18})-(.+)", re.ASCII | re.DOTALL)
_ATTEMPT = re.compile(r"[0-9]{1,18}", re.ASCII)
_SET = "(set)"
_OUTBOX = "/admin/outbox"
_ATTEMPTS = f"{_OUTBOX}/attempts"
_MESSAGE = f"{_OUTBOX}/{{id:[0-9]{{1,18}}-[^/]{{1,600}}}}"
_BEFORE_ALL = 1  # no attempt has a lower number: it asks for the outcomes alone

HeadersOf: TypeAlias = Callable[[models.OutgoingMessage, int], Mapping[str, str]]
"""Makes the headers with which a webhook would be sent at a time."""


class DestinationShape(Shape):
    """The body of POST /admin/outbox/retry-dead and of drop-dead."""

    destination: Annotated[str, Field(min_length=1, max_length=4096)]


Destination = Annotated[str, shapes.text("https://app.example.org:443")]
Failure = Annotated[str, shapes.text("the receiver answered 500")]


class OutboxMessageAnswer(shapes.TypedDict):
    """A message that was not delivered yet. Ids of sessions and topics are shortened."""

    id: Annotated[str, shapes.text("7-msg_0192f7c8")]
    state: models.MessageState
    purpose: Annotated[str, shapes.text("call-webhook")]
    destination: Destination
    subject: Annotated[str, shapes.text("0192f7c8…")] | None
    attempts: shapes.Count
    created_at: shapes.Moment
    next_attempt_at: shapes.Moment | None
    died_at: shapes.Moment | None
    error: Failure | None
    status: shapes.Status | None


class OutboxMessagesAnswer(shapes.TypedDict):
    """A page of messages, newest first."""

    messages: list[OutboxMessageAnswer]
    next: shapes.NextPage | None


class DeliveryAttemptAnswer(shapes.TypedDict):
    """An attempt to deliver a message, or a test."""

    number: Annotated[int, shapes.count(7)]
    at: shapes.Moment
    message_id: Annotated[str, shapes.text("msg_0192f7c8")] | None
    purpose: Annotated[str, shapes.text("call-webhook")]
    channel: shapes.Channel
    destination: Destination
    subject: Annotated[str, shapes.text("0192f7c8…")] | None
    outcome: Annotated[str, shapes.one_of("delivered", "failed", "gone", "refused", "blocked")]
    status: shapes.Status | None
    milliseconds: shapes.Milliseconds
    failure: Failure | None
    process: NotRequired[shapes.Count]


class WholeMessageAnswer(OutboxMessageAnswer):
    """A message with its headers. Its body is there only for an event of a project."""

    message_id: Annotated[str, shapes.text("msg_0192f7c8")]
    headers: dict[str, str]
    body_bytes: shapes.Count
    body: Any


class OutboxMessageDetailsAnswer(WholeMessageAnswer):
    """A message with its headers and its last attempts. Its body is there only for an event of a project."""

    last_attempts: list[DeliveryAttemptAnswer]
    processes: NotRequired[list[ProcessAnswer]]


class DeliveryAttemptsAnswer(shapes.TypedDict):
    """A page of attempts, newest first, and how many had each outcome since the start, by channel."""

    attempts: list[DeliveryAttemptAnswer]
    outcomes: dict[str, dict[str, shapes.Count]]
    next: shapes.NextPage | None
    processes: NotRequired[list[ProcessAnswer]]


class DeliveryAttemptDetailsAnswer(DeliveryAttemptAnswer):
    """An attempt with its request, which only test mode keeps."""

    body: Any


class ChangedMessagesAnswer(shapes.TypedDict):
    """How many messages were changed."""

    messages: shapes.Count


class OutboxAdmin:
    """Lists, retries and drops messages. A message that is being sent at this moment is left alone."""

    def __init__(
        self,
        store: MessageStore,
        dispatcher: Dispatcher,
        clock: Clock,
        attempts: AttemptLog,
        headers_of: HeadersOf,
        processes: other_processes.Cluster,
    ) -> None:
        self._store, self._dispatcher, self._clock = store, dispatcher, clock
        self._attempts, self._headers_of, self.processes = attempts, headers_of, processes

    async def messages(self, query: Mapping[str, str], after: str, limit: int) -> OutboxMessagesAnswer:
        """Messages that are due, that wait for their next attempt, or that were given up, newest first. One
        that was delivered is not there any more. Raises InvalidInputError.
        """
        shown, now_ms = read_place(after, _PLACE), self._clock.now_ms()
        place = None if shown is None else models.MessagePlace(int(shown[1]), int(shown[2] or 0))
        wanted = models.MessageFilter(
            read_choice("state", query.get("state"), models.MessageState),
            query.get("purpose"),
            query.get("destination"),
            read_choice("kind", query.get("kind"), models.MessageKind),
        )
        page = await self._store.page(wanted, place, limit, now_ms)
        following = None
        if page.rest is not None:
            following = f"{page.rest.row_id}" + (f"-{page.rest.died_at_ms}" if page.rest.died_at_ms else "")
        return {"messages": [message_fields(stored, now_ms) for stored in page.messages], "next": following}

    async def message(self, name: str, process: WantedProcess = None) -> OutboxMessageDetailsAnswer:
        """A message with its headers and its last attempts. Raises MessageNotFoundError."""
        row_id, message_id = read_id(name)

        async def own() -> Fields:
            whole, now_ms = await self._store.whole(row_id, message_id), self._clock.now_ms()
            attempts = [each for each in self._attempts.before(None) if each.message_id == message_id]
            is_webhook = whole.message.channel in ("http", "https")
            headers = self._headers_of(whole.message, now_ms) if is_webhook else {}
            return {
                **whole_fields(whole, headers, now_ms),
                "last_attempts": [attempt_fields(each) for each in attempts],
            }

        path = f"{_OUTBOX}/{row_id}-{quote(message_id, safe='')}"
        return await self.processes.of_all(process, (path, {}), own, merged_message)

    async def attempts(
        self, query: Mapping[str, str], after: str, limit: int, process: WantedProcess = None
    ) -> DeliveryAttemptsAnswer:
        """The last 500 attempts to deliver since the start, newest first, and the outcomes of all. Raises
        InvalidInputError.
        """
        chosen = {name: query[name] for name in ("kind", "destination") if name in query}
        kind = read_choice("kind", chosen.get("kind"), models.MessageKind)
        destination = chosen.get("destination")

        def is_chosen(attempt: DeliveryAttempt) -> bool:
            is_webhook = attempt.channel == WEBHOOK_CHANNEL
            its = models.MessageKind.WEBHOOK if is_webhook else models.MessageKind.PUSH
            return kind in (None, its) and destination in (None, attempt.destination)

        def own(before: int | None) -> DeliveryAttemptsAnswer:
            found = list(islice(filter(is_chosen, self._attempts.before(before)), limit + 1))
            return {
                "attempts": [attempt_fields(each) for each in found[:limit]],
                "outcomes": {channel: dict(counts) for channel, counts in self._attempts.outcomes.items()},
                "next": str(found[limit - 1].number) if len(found) > limit else None,
            }

        def outcomes(pages: Pages) -> Fields:
            return {"outcomes": other_processes.added([page["outcomes"] for page in pages.values()])}

        question = (_ATTEMPTS, chosen)
        pages = other_processes.PagesOfAll("attempts", question, limit, own, outcomes, ended=_BEFORE_ALL)
        return await self.processes.page_of_all(process, after, pages)

    async def attempt(self, name: str, process: WantedProcess = None) -> DeliveryAttemptDetailsAnswer:
        """An attempt to deliver; in test mode with the body that was sent, up to 16 KiB. Raises
        AttemptNotFoundError, NotFoundError, InvalidInputError, UnavailableError.
        """
        if not _ATTEMPT.fullmatch(name):
            raise models.AttemptNotFoundError
        number = int(name)

        async def own() -> DeliveryAttemptDetailsAnswer:
            found = self._attempts.find(number)
            if found is None:
                raise models.AttemptNotFoundError
            return {**attempt_fields(found), "body": None if found.body is None else orjson.loads(found.body)}

        return await self.processes.of_one(process, (f"{_ATTEMPTS}/{number}", {}), own)

    async def retry(self, name: str) -> OutboxMessageAnswer:
        """A dead one begins its attempts anew. Raises MessageNotFoundError, MessageBeingSentError."""
        row_id, message_id = read_id(name)
        async with await self._withheld(row_id, message_id):
            stored = await self._store.retry(row_id, message_id, self._clock.now_ms())
        return message_fields(stored, self._clock.now_ms())

    async def drop(self, name: str) -> None:
        """The message is deleted for good. Raises MessageNotFoundError, MessageBeingSentError."""
        row_id, message_id = read_id(name)
        async with await self._withheld(row_id, message_id):
            await self._store.drop(row_id, message_id)

    async def retry_dead(self, wanted: DestinationShape) -> ChangedMessagesAnswer:
        """Have all dead letters of a destination sent now."""
        return count_fields(await retry_all_dead(self._store, wanted.destination, self._clock.now_ms()))

    async def drop_dead(self, wanted: DestinationShape) -> ChangedMessagesAnswer:
        """Delete all dead letters of a destination."""
        return count_fields(await drop_all_dead(self._store, wanted.destination, self._clock.now_ms()))

    async def _withheld(self, row_id: int, message_id: str) -> AbstractAsyncContextManager[None]:
        stored = await self._store.get(row_id, message_id)
        claimant = models.Claimant(stored.queue, stored.client, stored.attempts > 0)
        is_due = stored.state(self._clock.now_ms()) is models.MessageState.DUE
        return self._dispatcher.withheld(row_id, claimant, is_due=is_due)

    async def handle_retry_dead(self, request: web.Request) -> ChangedMessagesAnswer:
        """Messages that were given up begin their attempts anew."""
        return await self.retry_dead(await body(request, DestinationShape))

    async def handle_drop_dead(self, request: web.Request) -> ChangedMessagesAnswer:
        """Messages that were given up are deleted for good."""
        return await self.drop_dead(await body(request, DestinationShape))


async def retry_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Have dead letters sent now, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.retry_dead(destination, after, now_ms, now_ms))


async def drop_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Delete dead letters, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.drop_dead(destination, after, now_ms))


async def _in_slices(change: Callable[[models.MessagePlace | None], Awaitable[DeadSlice]]) -> int:
    """Go through all dead letters in short transactions: a long one would keep other writers waiting."""
    done = await change(None)
    changed = done.changed
    while done.rest is not None:
        done = await change(done.rest)
        changed += done.changed
    return changed


def read_id(text: str) -> tuple[int, str]:
    """The row and the message id that an id names. Raises MessageNotFoundError."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise models.MessageNotFoundError
    return int(found[1]), found[2]


def message_fields(stored: models.StoredMessage, now_ms: int) -> OutboxMessageAnswer:
    """A message as the list has it."""
    return {
        "id": f"{stored.row_id}-{stored.message_id}",
        "state": stored.state(now_ms),
        "purpose": stored.purpose,
        "destination": stored.queue.destination,
        "subject": _subject(stored.purpose, stored.subject),
        "attempts": stored.attempts,
        "created_at": rfc3339(stored.created_at_ms),
        "next_attempt_at": rfc3339_or_none(stored.next_attempt_at_ms),
        "died_at": rfc3339_or_none(stored.died_at_ms),
        "error": stored.last_error,
        "status": answered_status(stored.last_error or ""),
    }


def merged_message(pages: Pages) -> Fields:
    """A message with the attempts of all processes, newest first."""
    attempts = other_processes.newest_first(pages, "last_attempts")
    return {**next(iter(pages.values())), "last_attempts": attempts}


def whole_fields(whole: models.WholeMessage, headers: Mapping[str, str], now_ms: int) -> WholeMessageAnswer:
    """A message with its headers, its size and, if it may be shown, its body."""
    return {
        **message_fields(whole.stored, now_ms),
        "message_id": whole.message.message_id,
        "headers": {str(name): _SET if name == SIGNATURE else value for name, value in headers.items()},
        "body_bytes": len(whole.message.body),
        # The bodies of all others have ids of sessions, tokens of devices or private texts.
        "body": orjson.loads(whole.message.body) if whole.stored.purpose == PROJECT_EVENT else None,
    }


def attempt_fields(attempt: DeliveryAttempt) -> DeliveryAttemptAnswer:
    """An attempt as the list has it."""
    outcome = attempt.outcome
    return {
        "number": attempt.number,
        "at": rfc3339(attempt.at_ms),
        "message_id": attempt.message_id,
        "purpose": attempt.purpose,
        "channel": attempt.channel,
        "destination": attempt.destination,
        "subject": _subject(attempt.purpose, attempt.subject),
        "outcome": outcome.verdict.name.lower(),
        "status": outcome.status,
        "milliseconds": round(attempt.milliseconds, 1),
        "failure": outcome.reason or None,
    }


def count_fields(count: int) -> ChangedMessagesAnswer:
    return {"messages": count}


def _subject(purpose: models.Purpose, subject: str | None) -> str | None:
    """A project is named whole; sessions and topics are capabilities."""
    if subject is None or purpose in (PROJECT_EVENT, DEVICE):
        return subject
    return shortened(subject)


_ID = Parameter(
    "id", "The id of a message, from the list of messages.", place="path", example="7-msg_0192f7c8"
)
_NUMBER = Parameter("number", "The number of an attempt.", place="path", example="1")
_STATE = Parameter("state", "Only messages in this state.", {"enum": [*models.MessageState]})
_KIND = Parameter("kind", "Only messages of this kind.", {"enum": [*models.MessageKind]})
_PURPOSE = Parameter("purpose", "Only messages of this purpose.")
_DESTINATION = Parameter("destination", "Only messages to this destination, as the list spells it.")
_EXAMPLE = {"destination": "https://app.example.org:443"}


def outbox_routes(outbox: OutboxAdmin, rows: AdminRows) -> tuple[Route, ...]:
    """Messages one by one, the dead letters of a destination, and attempts to deliver."""
    rows = rows.under("Outbox")
    read, write, process = rows.read, rows.write, outbox.processes.wanted
    unchanged = (models.MessageNotFoundError, models.MessageBeingSentError)
    return (
        read(_OUTBOX, "outbox", lambda request: outbox.messages(request.query, *wanted_page(request)),
             "List messages", "A page.", of=outbox.messages,
             parameters=(_STATE, _KIND, _PURPOSE, _DESTINATION, *shapes.page_parameters())),
        write("POST", f"{_OUTBOX}/retry-dead", "retry-dead-messages", outbox.handle_retry_dead,
              "Send all dead messages of a destination", "How many there were.",
              body=DestinationShape, body_example=_EXAMPLE),
        write("POST", f"{_OUTBOX}/drop-dead", "drop-dead-messages", outbox.handle_drop_dead,
              "Drop all dead messages of a destination", "How many there were.",
              body=DestinationShape, body_example=_EXAMPLE),
        read(_ATTEMPTS, "outbox-attempts",
             lambda request: outbox.attempts(request.query, *wanted_page(request), process(request)),
             "List attempts", "A page.", of=outbox.attempts, needs_database=False,
             parameters=(_KIND, _DESTINATION, PROCESS, *shapes.page_parameters())),
        read(f"{_ATTEMPTS}/{{number:[^/]{{1,128}}}}", "outbox-attempt",
             lambda request: outbox.attempt(request.match_info["number"], process(request)),
             "Show an attempt", "The attempt.", of=outbox.attempt, parameters=(_NUMBER, PROCESS),
             problems=(models.AttemptNotFoundError, InvalidInputError), needs_database=False),
        read(_MESSAGE, "outbox-message",
             lambda request: outbox.message(request.match_info["id"], process(request)),
             "Show a message", "The message.", of=outbox.message, parameters=(_ID, PROCESS),
             problems=(models.MessageNotFoundError, InvalidInputError)),
        write("DELETE", _MESSAGE, "drop-message", lambda request: outbox.drop(request.match_info["id"]),
              "Drop a message", "It is dropped.", of=outbox.drop, parameters=(_ID,), problems=unchanged),
        write("POST", f"{_MESSAGE}/retry", "retry-message",
              lambda request: outbox.retry(request.match_info["id"]),
              "Send a message now", "The message, which is due.", of=outbox.retry, parameters=(_ID,),
              problems=unchanged),
    )  # fmt: skip
