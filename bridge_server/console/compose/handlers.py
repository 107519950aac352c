"""The page that composes a notification: a dry run with a preview, the sending, and its progress."""

from collections.abc import Callable, Mapping
from typing import Any
from urllib.parse import quote

from bridge_server.console.compose.drafts import at_fields, draft_fields, read_draft
from bridge_server.console.compose.sendings import AudienceWalk, Sendings
from bridge_server.console.models import ROOT, Asked, ConsolePage, Done, NavigationGroup, PagePath, View
from bridge_server.console.project_choice import ProjectChoice
from bridge_server.console.words import count_of
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.kernel.instants import rfc3339
from bridge_server.notify.history_models import OutcomeCursor
from bridge_server.notify.history_store import HistoryStore
from bridge_server.notify.models import AudienceRequest, SubscriberAudience
from bridge_server.projects.models import ProjectId

_COMPOSE = "/compose"
_SENDING = f"{_COMPOSE}/sendings/{{name:[\\w-]{{1,64}}}}"
_ID_BYTES = 6
_LONGEST_NUMBER = 18


class ComposePage:
    """Views and changes of a notification that the operator writes."""

    def __init__(
        self,
        choice: ProjectChoice,
        sendings: Sendings,
        history: HistoryStore,
        random_bytes: Callable[[int], bytes],
    ) -> None:
        self._choice = choice
        self._sendings = sendings
        self._history = history
        self._random_bytes = random_bytes

    def page(self) -> ConsolePage:
        """The entry of the navigation."""
        return ConsolePage(
            "compose",
            "Compose",
            NavigationGroup.NOTIFICATIONS,
            (
                PagePath(_COMPOSE, self.show, {"check": self.check, "send": self.send}),
                PagePath(_SENDING, self.show_sending, {"continue": self.go_on}),
            ),
        )

    async def show(self, asked: Asked) -> View:
        """The form, empty, or with a notification that is sent to more accounts."""
        return await self._form(asked, None)

    async def check(self, asked: Asked) -> View:
        request = read_draft(asked.form)
        try:
            rehearsed = await self._sendings.rehearse(_project_id(asked), request)
        except InvalidInputError as error:
            raise at_fields(error) from error
        return await self._form(asked, rehearsed)

    async def send(self, asked: Asked) -> Done:
        request = read_draft(asked.form)
        try:
            sending = await self._sendings.begin(_project_id(asked), request)
        except InvalidInputError as error:
            raise at_fields(error) from error
        return _done(sending)

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
        fields = {
            **choice,
            **draft_fields(values),
            "checked": None if rehearsed is None else _sending_fields(rehearsed),
            "last_sendings": [_sending_fields(each) for each in self._sendings.last_ones(project_id)],
        }
        return View("compose/compose.html", fields)

    async def _first_values(self, project_id: str, number: str) -> Mapping[str, str]:
        """The content of an earlier notification, or the id alone of a new one."""
        if not (number.isascii() and number.isdigit() and len(number) <= _LONGEST_NUMBER):
            return {"notification_id": f"console-{self._random_bytes(_ID_BYTES).hex()}"}
        past, _ = await self._history.outcomes(ProjectId(project_id), int(number), None, OutcomeCursor(), 1)
        content = past.notification
        return {
            "type": content.type_id,
            "title": content.title,
            "body": content.body,
            "url": content.url or "",
            "notification_id": past.notification_id or "",
        }


def _project_id(asked: Asked) -> ProjectId:
    return ProjectId(asked.query.get("project_id", ""))


def _path(sending: AudienceWalk) -> str:
    return f"{ROOT}{_COMPOSE}/sendings/{quote(sending.name)}"


def _done(sending: AudienceWalk) -> Done:
    """The page of the sending. It says something at the end: until then the page itself goes on."""
    is_over = sending.after is None
    return Done(_path(sending), f"Sent to {_accounts(sending.tally.sent)}." if is_over else "")


def _sending_fields(sending: AudienceWalk) -> dict[str, Any]:
    content, tally = sending.request.notification, sending.tally
    return {
        "path": _path(sending),
        "begun_at": rfc3339(sending.begun_at_ms),
        "type": content.type_id,
        "title": content.title,
        "body": content.body,
        "url": content.url,
        "notification_id": sending.request.notification_id,
        **_audience_fields(sending.request),
        "sent": tally.sent,
        "missed": dict(tally.missed),
        "named": tally.named,
        "looked_at": tally.looked_at,
        "is_over": sending.after is None,
    }


def _audience_fields(request: AudienceRequest) -> dict[str, Any]:
    """The audience in words, and whether the project's number of subscribers is its size."""
    audience = request.audience
    if not isinstance(audience, SubscriberAudience):
        return {"audience": _accounts(len(audience)), "is_everybody": False}
    if audience.type_id is None:
        return {"audience": "all subscribers", "is_everybody": True}
    return {"audience": f"subscribers of {audience.type_id}", "is_everybody": False}


def _accounts(number: int) -> str:
    return f"{count_of(number)} account{'' if number == 1 else 's'}"
