"""The page that composes a notification: a dry run with a preview, the sending, and its progress."""

from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from typing import Any
from urllib.parse import quote

from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, PagePath, View
from bridge_server.console.rendering import ProjectChoice, count_of
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import Fault, InvalidInputError, NotFoundError
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import new_secret
from bridge_server.kernel.values import dataclass
from bridge_server.notify import wire
from bridge_server.notify.history import HistoryStore, OutcomeCursor
from bridge_server.notify.models import AudienceRequest, SubscriberAudience
from bridge_server.notify.service import Audiences
from bridge_server.notify.wire import NOTIFY_MAX_ACCOUNTS, TEXT_MAX_CHARACTERS, TITLE_MAX_CHARACTERS
from bridge_server.projects.models import ProjectId
from bridge_server.web.bodies import JsonObject

# The form of a notification: its fields as a request of the admin API, and every fault at its field.

MOST_CHARACTERS = {"title": TITLE_MAX_CHARACTERS, "body": TEXT_MAX_CHARACTERS, "url": TEXT_MAX_CHARACTERS}

_FIELDS = ("type", "title", "body", "url", "audience", "audience_type", "accounts", "notification_id")
_EXPECTED_ACCOUNTS = f"must have 1 to {NOTIFY_MAX_ACCOUNTS} accounts, one in a line"


def read_draft(form: Mapping[str, str]) -> AudienceRequest:
    """Read the notification and its audience. The places of InvalidInputError are fields of the form."""
    numbered = enumerate(form.get("accounts", "").splitlines(), 1)
    lines = [(number, line.strip()) for number, line in numbered if line.strip()]
    url = form.get("url", "").strip()
    audience: Any = {"accounts": [account for _, account in lines]}
    if form.get("audience") == "all":
        audience = "all"
    elif form.get("audience") == "type":
        audience = {"type": form.get("audience_type", "")}
    document = {
        "notification": {
            **{name: form.get(name, "") for name in ("type", "title", "body")},
            **({"url": url} if url else {}),
        },
        "notification_id": form.get("notification_id", "").strip(),
        "audience": audience,
    }
    try:
        return wire.read_audience_request(JsonObject(document, None), is_dry_run=False)
    except InvalidInputError as error:
        raise at_fields(error, lines) from error


def at_fields(error: InvalidInputError, lines: Sequence[tuple[int, str]] = ()) -> InvalidInputError:
    """The error with the places of the form instead of the API's. `lines` are the lines of the accounts."""
    faults = [_at_field(fault, lines) for fault in error.faults]
    return InvalidInputError("Nothing was sent: some fields have faults.", faults)


def _at_field(fault: Fault, lines: Sequence[tuple[int, str]]) -> Fault:
    match fault.pointer.split("/")[1:]:
        case ["audience", "accounts", number]:
            return Fault("#/accounts", f"line {lines[int(number)][0]} {fault.detail}")
        case ["audience", "type"]:
            return Fault("#/audience_type", fault.detail)
        case ["audience", *_]:
            return Fault("#/accounts", _EXPECTED_ACCOUNTS)
        case [*_, name]:
            return Fault(f"#/{name}", fault.detail)
    return fault


_MOST_NAMED = 50


@dataclass(slots=True)
class Reach:
    """The numbers of accounts with and without the notification, by reason; some of the latter by name."""

    sent: int = 0
    missed: Counter[str] = field(default_factory=Counter)
    named: list[Mapping[str, Any]] = field(default_factory=list)

    @property
    def covered(self) -> int:
        """The number of accounts that the calls have covered so far."""
        return self.sent + self.missed.total()

    def add(self, outcome: Mapping[str, Any]) -> None:
        """Add the answer to one call, as the admin API spells it."""
        self.sent += len(outcome["sent"])
        unknown = [{"account": account, "reason": "not_subscribed"} for account in outcome["not_found"]]
        failures = [*outcome["failed"], *unknown]
        self.missed.update(failure["reason"] for failure in failures)
        self.named += failures[: _MOST_NAMED - len(self.named)]


# Sendings of the console: a walk through an audience, call by call, which can be left and taken up again.
#
# They are kept in memory. After a restart a walk begins anew with its notification_id, by which nobody is
# sent to twice.

MOST_SENDINGS = 20
CALLS_AT_ONCE = 4  # calls of 500 accounts for one request of the browser, so that its page shows progress
CALLS_REHEARSED = 10


@dataclass(slots=True)
class AudienceWalk:
    """A notification on its way. The next call goes to the accounts after `after`; None at the end."""

    name: str
    project_id: ProjectId
    request: AudienceRequest
    begun_at_ms: int
    after: str | None
    tally: Reach = field(default_factory=Reach)


class Sendings:
    """Recent sendings; the oldest go when there are too many."""

    def __init__(self, audiences: Audiences, clock: Clock, random_bytes: Callable[[int], bytes]) -> None:
        self._audiences, self._clock, self.random_bytes = audiences, clock, random_bytes
        self._kept: OrderedDict[str, AudienceWalk] = OrderedDict()

    async def rehearse(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        """A forecast of the first calls. Nothing is sent or kept."""
        rehearsed = self._new(project_id, request)
        await self._walk(rehearsed, CALLS_REHEARSED, is_dry_run=True)
        return rehearsed

    async def begin(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        """Send to the first of the audience. A sending whose first call is refused is not kept."""
        sending = self._new(project_id, request)
        await self._walk(sending, 1)
        self._kept[sending.name] = sending
        while len(self._kept) > MOST_SENDINGS:
            self._kept.popitem(last=False)
        await self._walk(sending, CALLS_AT_ONCE - 1)
        return sending

    async def go_on(self, name: str) -> AudienceWalk:
        """Send to the next of the audience. Raises NotFoundError."""
        sending = self.of(name)
        await self._walk(sending, CALLS_AT_ONCE)
        return sending

    def of(self, name: str) -> AudienceWalk:
        """The sending of this name. Raises NotFoundError."""
        sending = self._kept.get(name)
        if sending is None:
            raise NotFoundError(
                "The console has forgotten this sending, for instance because the server was restarted. Send "
                "the notification again from its page under Notifications: nobody gets it twice."
            )
        return sending

    def last_ones(self, project_id: str) -> list[AudienceWalk]:
        """The sendings of the project, the latest first."""
        return [each for each in reversed(self._kept.values()) if each.project_id == project_id]

    def _new(self, project_id: ProjectId, request: AudienceRequest) -> AudienceWalk:
        name = new_secret(self.random_bytes)
        return AudienceWalk(name, project_id, request, self._clock.now_ms(), request.after)

    async def _walk(self, sending: AudienceWalk, most_calls: int, *, is_dry_run: bool = False) -> None:
        for _ in range(most_calls):
            after = sending.after
            if after is None:
                return
            request = replace(sending.request, after=after)
            outcome = await self._audiences.notify(sending.project_id, request, is_dry_run)
            if sending.after == after:  # another window may have made the same call: it counts once
                sending.after = outcome.next
                sending.tally.add(wire.audience_outcome_fields(outcome))


_COMPOSE = "/compose"
_SENDING = f"{_COMPOSE}/sendings/{{name:[\\w-]{{1,64}}}}"
_ID_BYTES = 6
_LONGEST_NUMBER = 18
_EVERYBODY = "all subscribers"


class ComposePage:
    """Views and changes of a notification that the operator writes."""

    def __init__(self, choice: ProjectChoice, sendings: Sendings, history: HistoryStore) -> None:
        self._choice, self._sendings, self._history = choice, sendings, history
        paths = (
            PagePath(_COMPOSE, self.show, {"check": self.check, "send": self.send}),
            PagePath(_SENDING, self.show_sending, {"continue": self.go_on}),
        )
        self.page = ConsolePage("compose", "Compose", "Notifications", paths)

    async def show(self, asked: Asked) -> View:
        """The form, empty, or with a notification that is sent to more accounts."""
        return await self._form(asked, None)

    async def check(self, asked: Asked) -> View:
        return await self._form(asked, await _walked(self._sendings.rehearse, asked))

    async def send(self, asked: Asked) -> Done:
        return _done(await _walked(self._sendings.begin, asked))

    async def show_sending(self, asked: Asked) -> View:
        """A sending and its progress."""
        sending = self._sendings.of(asked.names["name"])
        choice = await self._choice.fields(Asked({"project_id": sending.project_id}, {}))
        return View("compose/sending.html", {**choice, "sending": _sending_fields(sending)})

    async def go_on(self, asked: Asked) -> Done:
        return _done(await self._sendings.go_on(asked.names["name"]))

    async def _form(self, asked: Asked, rehearsed: AudienceWalk | None) -> View:
        choice = await self._choice.fields(asked)
        project_id = choice["project"]["project_id"] if choice["project"] else ""
        values = asked.form or await self._first_values(project_id, asked.query.get("repeat", ""))
        draft = {name: values.get(name, "") for name in _FIELDS}
        fields = {
            **choice,
            "draft": {**draft, "audience": draft["audience"] or "accounts"},
            "lengths": {name: len(wire.one_line(draft[name])) for name in MOST_CHARACTERS},
            "most_characters": MOST_CHARACTERS,
            "most_accounts": NOTIFY_MAX_ACCOUNTS,
            "checked": None if rehearsed is None else _sending_fields(rehearsed),
            "last_sendings": [_sending_fields(each) for each in self._sendings.last_ones(project_id)],
        }
        return View("compose/compose.html", fields)

    async def _first_values(self, project_id: str, number: str) -> Mapping[str, str]:
        """The content of an earlier notification, or the id alone of a new one."""
        if not (number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER):
            return {"notification_id": f"console-{self._sendings.random_bytes(_ID_BYTES).hex()}"}
        past, _ = await self._history.outcomes(ProjectId(project_id), int(number), None, OutcomeCursor(), 1)
        content = past.notification
        return {
            "type": content.type_id,
            "title": content.title,
            "body": content.body,
            "url": content.url or "",
            "notification_id": past.notification_id or "",
        }


async def _walked(
    walk: Callable[[ProjectId, AudienceRequest], Awaitable[AudienceWalk]], asked: Asked
) -> AudienceWalk:
    request = read_draft(asked.form)
    try:
        return await walk(ProjectId(asked.query.get("project_id", "")), request)
    except InvalidInputError as error:
        raise at_fields(error) from error


def _path(sending: AudienceWalk) -> str:
    return f"{ROOT}{_COMPOSE}/sendings/{quote(sending.name)}"


def _done(sending: AudienceWalk) -> Done:
    """The page of the sending. It says something at the end: until then the page itself goes on."""
    is_over = sending.after is None
    return Done(_path(sending), f"Sent to {_accounts(sending.tally.sent)}." if is_over else "")


def _sending_fields(sending: AudienceWalk) -> dict[str, Any]:
    content, tally, wanted = sending.request.notification, sending.tally, sending.request.audience
    if not isinstance(wanted, SubscriberAudience):
        audience = _accounts(len(wanted))
    else:
        audience = _EVERYBODY if wanted.type_id is None else f"subscribers of {wanted.type_id}"
    return {
        "path": _path(sending),
        "begun_at": rfc3339(sending.begun_at_ms),
        "type": content.type_id,
        "title": content.title,
        "body": content.body,
        "url": content.url,
        "notification_id": sending.request.notification_id,
        "audience": audience,
        # Whether the project's number of subscribers is the size of the audience.
        "is_everybody": audience == _EVERYBODY,
        "sent": tally.sent,
        "missed": dict(tally.missed),
        "named": tally.named,
        "covered": tally.covered,
        "is_over": sending.after is None,
    }


def _accounts(number: int) -> str:
    return f"{count_of(number)} account{'' if number == 1 else 's'}"
