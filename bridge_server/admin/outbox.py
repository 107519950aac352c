"""The outbox: messages listed, sent again at once, dropped by the operator; and attempts to deliver them."""

import re
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from itertools import islice
from typing import Annotated, Any, TypeAlias
from urllib.parse import quote

import orjson
from aiohttp import web
from pydantic import Field

from bridge_server.admin.other_processes import (
    Fields,
    Neighbours,
    Question,
    Reply,
    listed_processes,
    merged_page,
    of_all,
    page_query,
    read_cursor,
    wanted_process,
)
from bridge_server.admin.rows import (
    AdminRows,
    fields_answer,
    read_number,
    shortened,
    success_answer,
    wanted_page,
)
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339, rfc3339_or_none
from bridge_server.kernel.values import dataclass
from bridge_server.notify.service import DEVICE
from bridge_server.outbox.channels import WEBHOOK_CHANNEL, AttemptLog, DeliveryAttempt
from bridge_server.outbox.dispatcher import Dispatcher
from bridge_server.outbox.guarded_client import answered_status
from bridge_server.outbox.message_store import DeadSlice, MessageStore
from bridge_server.outbox.models import (
    AttemptNotFoundError,
    Claimant,
    MessageFilter,
    MessageKind,
    MessageNotFoundError,
    MessagePage,
    MessagePlace,
    MessageState,
    OutgoingMessage,
    Purpose,
    StoredMessage,
    WholeMessage,
)
from bridge_server.outbox.sender import SIGNATURE
from bridge_server.projects.subscriptions import PROJECT_EVENT
from bridge_server.web.bodies import JsonObject, Shape, check, json_object
from bridge_server.web.routes import Route

_PLACE = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?", re.ASCII)
_NAMED = re.compile(r"([0-9]{1,18})-(.+)", re.ASCII | re.DOTALL)
_ATTEMPT = re.compile(r"[0-9]{1,18}", re.ASCII)
_SET = "(set)"
_OUTBOX = "/admin/outbox"
_ATTEMPTS = f"{_OUTBOX}/attempts"
_MESSAGE = f"{_OUTBOX}/{{id:[0-9]{{1,18}}-[^/]{{1,600}}}}"
_BEFORE_ALL = 1
"""No attempt has a lower number: of a process whose attempts were all shown, the outcomes are asked for."""


HeadersOf: TypeAlias = Callable[[OutgoingMessage, int], Mapping[str, str]]
"""Makes the headers with which a webhook would be sent at a time."""


@dataclass(frozen=True, slots=True)
class AttemptFilter:
    """The attempts to list; None leaves a condition out."""

    kind: MessageKind | None = None
    destination: str | None = None


@dataclass(frozen=True, slots=True)
class AttemptPage:
    """Attempts, newest first. `rest` is the number after which more follow, None at the end."""

    attempts: Sequence[DeliveryAttempt]
    rest: int | None


class OutboxDesk:
    """Lists, retries and drops messages. A message that is being sent at this moment is left alone."""

    def __init__(
        self,
        store: MessageStore,
        dispatcher: Dispatcher,
        clock: Clock,
        attempts: AttemptLog,
        headers_of: HeadersOf,
    ) -> None:
        self._attempts = attempts
        self._headers_of = headers_of
        self._store = store
        self._dispatcher = dispatcher
        self._clock = clock

    def now_ms(self) -> int:
        """The time by which messages are due."""
        return self._clock.now_ms()

    async def page(self, wanted: MessageFilter, after: MessagePlace | None, limit: int) -> MessagePage:
        """Messages after this place, newest first."""
        return await self._store.page(wanted, after, limit, self._clock.now_ms())

    async def message(self, row_id: int, message_id: str) -> WholeMessage:
        """One message. Raises MessageNotFoundError."""
        return await self._store.whole(row_id, message_id)

    def headers(self, whole: WholeMessage) -> Mapping[str, str]:
        """The headers with which a webhook would be sent now; a channel has none."""
        message = whole.message
        return self._headers_of(message, self.now_ms()) if message.channel in ("http", "https") else {}

    def attempts(self, wanted: AttemptFilter, before: int | None, limit: int) -> AttemptPage:
        """The last attempts to deliver, newest first."""
        fitting = (each for each in self._attempts.before(before) if _fits(each, wanted))
        found = list(islice(fitting, limit + 1))
        return AttemptPage(found[:limit], found[limit - 1].number if len(found) > limit else None)

    def attempts_of(self, message_id: str) -> Sequence[DeliveryAttempt]:
        """The attempts to deliver a message that are still kept, newest first."""
        return [each for each in self._attempts.before(None) if each.message_id == message_id]

    def attempt(self, number: int) -> DeliveryAttempt:
        """One attempt. Raises AttemptNotFoundError."""
        found = self._attempts.find(number)
        if found is None:
            raise AttemptNotFoundError
        return found

    def outcomes(self) -> Mapping[str, Mapping[str, int]]:
        """The number of attempts since the start, by channel and outcome."""
        return self._attempts.outcomes

    async def retry(self, row_id: int, message_id: str) -> StoredMessage:
        """Have a message sent now. Raises MessageNotFoundError, MessageBeingSentError."""
        async with await self._withheld(row_id, message_id):
            return await self._store.retry(row_id, message_id, self._clock.now_ms())

    async def drop(self, row_id: int, message_id: str) -> None:
        """Delete a message for good. Raises MessageNotFoundError, MessageBeingSentError."""
        async with await self._withheld(row_id, message_id):
            await self._store.drop(row_id, message_id)

    async def retry_dead(self, destination: str) -> int:
        """Have all dead letters of a destination sent now; returns how many."""
        return await retry_all_dead(self._store, destination, self._clock.now_ms())

    async def drop_dead(self, destination: str) -> int:
        """Delete all dead letters of a destination; returns how many."""
        return await drop_all_dead(self._store, destination, self._clock.now_ms())

    async def _withheld(self, row_id: int, message_id: str) -> AbstractAsyncContextManager[None]:
        stored = await self._store.get(row_id, message_id)
        claimant = Claimant(stored.queue, stored.client, stored.attempts > 0)
        is_due = stored.state(self._clock.now_ms()) is MessageState.DUE
        return self._dispatcher.withheld(row_id, claimant, is_due=is_due)


def _fits(attempt: DeliveryAttempt, wanted: AttemptFilter) -> bool:
    kind = MessageKind.WEBHOOK if attempt.channel == WEBHOOK_CHANNEL else MessageKind.PUSH
    return wanted.kind in (None, kind) and wanted.destination in (None, attempt.destination)


async def retry_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Have dead letters sent now, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.retry_dead(destination, after, now_ms, now_ms))


async def drop_all_dead(store: MessageStore, destination: str | None, now_ms: int) -> int:
    """Delete dead letters, of one destination or all (None); returns how many."""
    return await _in_slices(lambda after: store.drop_dead(destination, after, now_ms))


async def _in_slices(change: Callable[[MessagePlace | None], Awaitable[DeadSlice]]) -> int:
    """Go through all dead letters in short transactions: a long one would keep other writers waiting."""
    done = await change(None)
    changed = done.changed
    while done.rest is not None:
        done = await change(done.rest)
        changed += done.changed
    return changed


class DestinationShape(Shape):
    """The body of POST /admin/outbox/retry-dead and of drop-dead."""

    destination: Annotated[str, Field(min_length=1, max_length=4096)]


def read_destination(document: JsonObject) -> str:
    """Read the destination whose dead letters are meant."""
    return check(DestinationShape, document.values).destination


def read_filter(query: Mapping[str, str]) -> MessageFilter:
    """Read the query parameters `state`, `kind`, `purpose` and `destination`. Raises InvalidInputError."""
    state = query.get("state")
    if state is not None and state not in list(MessageState):
        raise InvalidInputError(f"The query parameter state takes {', '.join(MessageState)}.")
    return MessageFilter(
        None if state is None else MessageState(state),
        query.get("purpose"),
        query.get("destination"),
        _kind(query),
    )


def read_attempt_filter(query: Mapping[str, str]) -> AttemptFilter:
    """Read the query parameters `kind` and `destination`. Raises InvalidInputError."""
    return AttemptFilter(_kind(query), query.get("destination"))


def read_attempt(text: str) -> int:
    """The number that names an attempt. Raises AttemptNotFoundError."""
    if not _ATTEMPT.fullmatch(text):
        raise AttemptNotFoundError
    return int(text)


def read_place(after: str) -> MessagePlace | None:
    """Read the query parameter `after`. Raises InvalidInputError."""
    if not after:
        return None
    found = _PLACE.fullmatch(after)
    if found is None:
        raise InvalidInputError("The query parameter after takes the next of the page before.")
    return MessagePlace(int(found[1]), int(found[2] or 0))


def read_id(text: str) -> tuple[int, str]:
    """The row and the message id that an id names. Raises MessageNotFoundError."""
    found = _NAMED.fullmatch(text)
    if found is None:
        raise MessageNotFoundError
    return int(found[1]), found[2]


def page_fields(page: MessagePage, now_ms: int) -> dict[str, Any]:
    """A page of messages; `next` is null at the end."""
    rest = page.rest
    following = (
        None if rest is None else f"{rest.row_id}" + (f"-{rest.died_at_ms}" if rest.died_at_ms else "")
    )
    return {"messages": [message_fields(stored, now_ms) for stored in page.messages], "next": following}


def message_fields(stored: StoredMessage, now_ms: int) -> dict[str, Any]:
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


def attempted_fields(
    whole: WholeMessage, headers: Mapping[str, str], attempts: Sequence[DeliveryAttempt], now_ms: int
) -> dict[str, Any]:
    """A message with its last attempts, which only a running server has."""
    return {
        **whole_fields(whole, headers, now_ms),
        "last_attempts": [attempt_fields(each) for each in attempts],
    }


def merged_message(own_number: int, own: dict[str, Any], replies: Sequence[Reply]) -> dict[str, Any]:
    """A message with the attempts of all processes, newest first."""
    found = [(own_number, own), *((each.number, each.fields) for each in replies if each.fields is not None)]
    attempts = [{**each, "process": number} for number, fields in found for each in fields["last_attempts"]]
    return {
        **own,
        "last_attempts": sorted(attempts, key=lambda each: (each["at"], each["number"]), reverse=True),
        "processes": listed_processes(own_number, replies),
    }


def whole_fields(whole: WholeMessage, headers: Mapping[str, str], now_ms: int) -> dict[str, Any]:
    """A message with its headers, its size and, where it is no payload, its body."""
    return {
        **message_fields(whole.stored, now_ms),
        "message_id": whole.message.message_id,
        "headers": {str(name): _SET if name == SIGNATURE else value for name, value in headers.items()},
        "body_bytes": len(whole.message.body),
        "body": _body(whole),
    }


def attempt_page_fields(page: AttemptPage, outcomes: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    """A page of attempts, and how many had each outcome; `next` is null at the end."""
    return {
        "attempts": [attempt_fields(each) for each in page.attempts],
        "outcomes": {channel: dict(counts) for channel, counts in outcomes.items()},
        "next": None if page.rest is None else str(page.rest),
    }


def attempt_fields(attempt: DeliveryAttempt) -> dict[str, Any]:
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


def whole_attempt_fields(attempt: DeliveryAttempt) -> dict[str, Any]:
    """An attempt with its request, in test mode; outside of it `body` is null."""
    return {
        **attempt_fields(attempt),
        "body": None if attempt.body is None else orjson.loads(attempt.body),
    }


def count_fields(count: int) -> dict[str, Any]:
    """How many messages were changed."""
    return {"messages": count}


def _kind(query: Mapping[str, str]) -> MessageKind | None:
    kind = query.get("kind")
    if kind is not None and kind not in list(MessageKind):
        raise InvalidInputError(f"The query parameter kind takes {', '.join(MessageKind)}.")
    return None if kind is None else MessageKind(kind)


def _subject(purpose: Purpose, subject: str | None) -> str | None:
    """A project is named whole; sessions and topics are capabilities."""
    if subject is None or purpose in (PROJECT_EVENT, DEVICE):
        return subject
    return shortened(subject)


def _body(whole: WholeMessage) -> Any:
    """The body of a project event. All others have ids of sessions, tokens of devices or private texts."""
    return orjson.loads(whole.message.body) if whole.stored.purpose == PROJECT_EVENT else None


# Attempts to deliver of all processes on a database: each keeps those that it has made.


class AttemptsEverywhere:
    """The last attempts, of all processes together or of one. Without `neighbours` there is but one."""

    def __init__(self, desk: OutboxDesk, neighbours: Neighbours | None) -> None:
        self._desk = desk
        self.neighbours = neighbours

    async def page(
        self, query: Mapping[str, str], after: str, limit: int, process: str | int | None = None
    ) -> Fields:
        """A page of the attempts that the query chooses, newest first. Raises InvalidInputError."""
        neighbours = self.neighbours
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            asked = {**query, "after": after, "limit": str(limit)}
            return await neighbours.ask_one(process, _ATTEMPTS, asked)
        if neighbours is None or process is not None:
            return self._page(query, read_number(after), limit)
        return await self._page_of_all(neighbours, query, after, limit)

    async def one(self, number: str, process: str | int | None = None) -> Fields:
        """One attempt. Raises AttemptNotFoundError, NotFoundError, InvalidInputError, UnavailableError."""
        neighbours, found = self.neighbours, read_attempt(number)
        if isinstance(process, int) and neighbours is not None and process != neighbours.own_number:
            return await neighbours.ask_one(process, f"{_ATTEMPTS}/{found}", {})
        return whole_attempt_fields(self._desk.attempt(found))

    async def message(self, row_id: int, message_id: str, process: str | int | None = None) -> Fields:
        """A message with the attempts to deliver it. Raises MessageNotFoundError."""

        async def own() -> Fields:
            found = await self._desk.message(row_id, message_id)
            headers, attempts = self._desk.headers(found), self._desk.attempts_of(message_id)
            return attempted_fields(found, headers, attempts, self._desk.now_ms())

        question = Question(f"{_OUTBOX}/{row_id}-{quote(message_id, safe='')}")
        return await of_all(self.neighbours, process, question, own, merged_message)

    def _page(self, query: Mapping[str, str], before: int | None, limit: int) -> Fields:
        found = self._desk.attempts(read_attempt_filter(query), before, limit)
        return attempt_page_fields(found, self._desk.outcomes())

    async def _page_of_all(
        self, neighbours: Neighbours, query: Mapping[str, str], after: str, limit: int
    ) -> Fields:
        cursor, own = read_cursor(after), neighbours.own_number

        def asked(process: int) -> Mapping[str, str]:
            ended = {"after": str(_BEFORE_ALL), "limit": "1"}
            return page_query(cursor, query, limit, process) or ended

        mine = self._page(query, _BEFORE_ALL if cursor.has_ended(own) else cursor.of(own), limit)
        replies = await neighbours.ask_all(_ATTEMPTS, asked)
        merged = merged_page("attempts", cursor, own, mine, replies, limit)
        return {**merged, "outcomes": _added([mine["outcomes"], *_outcomes(replies)])}


def _outcomes(replies: Iterable[Reply]) -> list[Mapping[str, Mapping[str, int]]]:
    return [each.fields["outcomes"] for each in replies if each.fields is not None]


def _added(found: Iterable[Mapping[str, Mapping[str, int]]]) -> Fields:
    """By channel, how many attempts of all processes had each outcome."""
    total: dict[str, Counter[str]] = {}
    for outcomes in found:
        for channel, counts in outcomes.items():
            total.setdefault(channel, Counter()).update(counts)
    return {channel: dict(counts) for channel, counts in total.items()}


class OutboxHandlers:
    """One method per endpoint."""

    def __init__(self, desk: OutboxDesk, attempts: AttemptsEverywhere) -> None:
        self._desk = desk
        self._attempts = attempts

    async def messages(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        found = await self._desk.page(read_filter(request.query), read_place(after), limit)
        return fields_answer(page_fields(found, self._desk.now_ms()))

    async def message(self, request: web.Request) -> web.Response:
        found = await self._attempts.message(*_id(request), self._wanted_process(request))
        return fields_answer(found)

    async def attempts(self, request: web.Request) -> web.Response:
        after, limit = wanted_page(request)
        query = {name: request.query[name] for name in ("kind", "destination") if name in request.query}
        found = await self._attempts.page(query, after, limit, self._wanted_process(request))
        return fields_answer(found)

    async def attempt(self, request: web.Request) -> web.Response:
        number, process = request.match_info["number"], self._wanted_process(request)
        return fields_answer(await self._attempts.one(number, process))

    async def retry(self, request: web.Request) -> web.Response:
        stored = await self._desk.retry(*_id(request))
        return fields_answer(message_fields(stored, self._desk.now_ms()))

    async def drop(self, request: web.Request) -> web.Response:
        await self._desk.drop(*_id(request))
        return success_answer()

    async def retry_dead(self, request: web.Request) -> web.Response:
        destination = read_destination(await json_object(request))
        return fields_answer(count_fields(await self._desk.retry_dead(destination)))

    async def drop_dead(self, request: web.Request) -> web.Response:
        destination = read_destination(await json_object(request))
        return fields_answer(count_fields(await self._desk.drop_dead(destination)))

    def _wanted_process(self, request: web.Request) -> str | int | None:
        """The process that the request names, where there are several. Raises InvalidInputError."""
        neighbours = self._attempts.neighbours
        return None if neighbours is None else wanted_process(request, neighbours)


def _id(request: web.Request) -> tuple[int, str]:
    return read_id(request.match_info["id"])


def outbox_routes(handlers: OutboxHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """Messages one by one, and the dead letters of a destination."""
    read, write = rows.read, rows.write
    return (
        read(_OUTBOX, "outbox", handlers.messages),
        write("POST", f"{_OUTBOX}/retry-dead", "retry-dead-messages", handlers.retry_dead),
        write("POST", f"{_OUTBOX}/drop-dead", "drop-dead-messages", handlers.drop_dead),
        read(f"{_OUTBOX}/attempts", "outbox-attempts", handlers.attempts),
        read(f"{_OUTBOX}/attempts/{{number:[^/]{{1,128}}}}", "outbox-attempt", handlers.attempt),
        read(_MESSAGE, "outbox-message", handlers.message),
        write("DELETE", _MESSAGE, "drop-message", handlers.drop),
        write("POST", f"{_MESSAGE}/retry", "retry-message", handlers.retry),
    )
