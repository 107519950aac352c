"""The pages of the outbox: messages that wait or were given up, and the last attempts to deliver."""

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

import orjson

from bridge_server.admin.delivery_tests import PushTests, PushTestShape, WebhookTests, WebhookTestShape
from bridge_server.admin.outbox import DestinationShape, OutboxAdmin
from bridge_server.console.models import ROOT, Asked, Change, ConsolePage, Done, PagePath, View
from bridge_server.console.rendering import chosen_process
from bridge_server.outbox.channels import WEBHOOK_CHANNEL
from bridge_server.outbox.models import MessageKind, MessageState
from bridge_server.web.bodies import check

_LIVE = ("outbox",)
_PAGE = 25
_MESSAGE = "{id:[0-9]{1,18}-[^/]{1,600}}"


class OutboxViews:
    """The views and changes that webhooks and pushes share. `place` is the path of the page."""

    def __init__(self, outbox: OutboxAdmin, kind: MessageKind, place: str) -> None:
        self._outbox, self._kind, self._place = outbox, kind, place

    def paths(self, test: Change) -> tuple[PagePath, ...]:
        """The paths of the page; `test` sends a test."""
        changes = {"test": test, "retry-dead": self.retry_dead, "drop-dead": self.drop_dead}
        of_message = {"retry": self.retry, "drop": self.drop}
        return (
            PagePath(self._place, self.show, changes),
            PagePath(f"{self._place}/attempts", self.show_attempts),
            PagePath(f"{self._place}/attempts/{{number:[^/]{{1,128}}}}", self.show_attempt),
            PagePath(f"{self._place}/{_MESSAGE}", self.show_message, of_message),
        )

    async def show(self, asked: Asked) -> View:
        """A page of the messages that wait or were given up."""
        return View("outbox/messages.html", await self._list(asked), _LIVE)

    async def show_message(self, asked: Asked) -> View:
        """One message: its request, and the last attempts to deliver it."""
        message = await self._outbox.message(asked.names["id"])
        opened = {"outgoing": message, "body": _written(message["body"])}
        return View("outbox/message.html", {**await self._list(asked), **opened}, _LIVE)

    async def show_attempts(self, asked: Asked) -> View:
        """The last attempts, and how many had each outcome."""
        return View("outbox/attempts.html", await self._attempts(asked), _LIVE)

    async def show_attempt(self, asked: Asked) -> View:
        """One attempt; in test mode with what was sent."""
        process = chosen_process(asked)
        fields = await self._outbox.attempt(asked.names["number"], process)
        attempt, body = {**fields, **({} if process is None else {"process": process})}, fields["body"]
        opened = {"attempt": attempt, "body": _written(body), "notice_shown": _notice(self._kind, body)}
        return View("outbox/attempt.html", {**await self._attempts(asked), **opened}, _LIVE)

    async def retry(self, asked: Asked) -> Done:
        await self._outbox.retry(asked.names["id"])
        return self.done("The message is sent now.")

    async def drop(self, asked: Asked) -> Done:
        await self._outbox.drop(asked.names["id"])
        return self.done("The message is dropped.")

    async def retry_dead(self, asked: Asked) -> Done:
        changed = await self._outbox.retry_dead(_destination(asked))
        return self.done(f"{_dead(changed['messages'])} sent now.")

    async def drop_dead(self, asked: Asked) -> Done:
        changed = await self._outbox.drop_dead(_destination(asked))
        return self.done(f"{_dead(changed['messages'])} dropped.")

    def done(self, message: str, *, is_good: bool = True) -> Done:
        """Go back to the list with this message."""
        return Done(f"{ROOT}{self._place}", message, is_good=is_good)

    async def _list(self, asked: Asked) -> dict[str, Any]:
        query = {name: value for name in ("state", "destination") if (value := asked.query.get(name, ""))}
        after = asked.query.get("after", "")
        page = await self._outbox.messages({**query, "kind": self._kind}, after, _PAGE)
        return {**page, **self._frame(query, after), "states": list(MessageState)}

    async def _attempts(self, asked: Asked) -> dict[str, Any]:
        query = {name: value for name in ("destination",) if (value := asked.query.get(name, ""))}
        after = asked.query.get("after", "")
        page = await self._outbox.attempts({**query, "kind": self._kind}, after, _PAGE)
        is_push = self._kind is MessageKind.PUSH
        outcomes = page["outcomes"].items()
        own = {channel: counts for channel, counts in outcomes if (channel != WEBHOOK_CHANNEL) is is_push}
        return {**page, **self._frame(query, after), "outcomes": own, "processes": page.get("processes", ())}

    def _frame(self, query: Mapping[str, str], after: str) -> dict[str, Any]:
        """The fields of every page: its path, and the list that was asked for."""
        return {
            "place": f"{ROOT}{self._place}",
            "is_push": self._kind is MessageKind.PUSH,
            "asked": {"state": "", "destination": "", **query},
            "after": after,
            "query": "".join(f"{name}={quote(value, safe='')}&" for name, value in query.items()),
        }


def _destination(asked: Asked) -> DestinationShape:
    return check(DestinationShape, {"destination": asked.form.get("destination", "")})


def _written(body: Any) -> Sequence[str]:
    """The lines of the body as JSON; none if it is not shown."""
    return () if body is None else orjson.dumps(body, option=orjson.OPT_INDENT_2).decode().split("\n")


def _dead(count: int) -> str:
    return "1 dead message is" if count == 1 else f"{count} dead messages are"


def _notice(kind: MessageKind, body: Any) -> Mapping[str, Any] | None:
    """The text that a phone shows of a push; None if it is not known."""
    if kind is not MessageKind.PUSH or not isinstance(body, dict):
        return None
    texts = {name: str(body.get(name) or "") for name in ("title", "body", "url", "project_name")}
    return {**texts, "direction": "auto", "language": ""}


class WebhooksPage:
    """The messages for webhooks, and a test."""

    def __init__(self, outbox: OutboxAdmin, tests: WebhookTests) -> None:
        self._views = OutboxViews(outbox, MessageKind.WEBHOOK, "/webhooks")
        self._tests = tests
        self.page = ConsolePage("webhooks", "Webhooks", "Out", self._views.paths(self.test))

    async def test(self, asked: Asked) -> Done:
        wanted = check(WebhookTestShape, asked.texts("url"))
        tested = await self._tests.send(wanted.url)
        if tested["delivered"]:
            answer = f"answered {tested['status']} after {tested['milliseconds']} ms"
            return self._views.done(f"The receiver took the test: it {answer}.")
        return self._views.done(f"The receiver did not take the test: {tested['failure']}.", is_good=False)


class PushesPage:
    """The messages for devices, a preview, and a test."""

    def __init__(self, outbox: OutboxAdmin, tests: PushTests) -> None:
        self._views = OutboxViews(outbox, MessageKind.PUSH, "/pushes")
        self._tests = tests
        paths = (*self._views.paths(self.test), PagePath("/pushes/preview", self.show_preview))
        self.page = ConsolePage("pushes", "Pushes", "Out", paths)

    async def show_preview(self, asked: Asked) -> View:
        """A push about a new request, in a client's language."""
        preview = await self._tests.preview(asked.query)
        wanted = {name: asked.query.get(name, "") for name in ("peer_name", "language")}
        return View("pushes/preview.html", {"preview": preview, **wanted})

    async def test(self, asked: Asked) -> Done:
        wanted = check(PushTestShape, asked.texts("topic"))
        tested = await self._tests.send(wanted.topic)
        if tested["delivered"]:
            return self._views.done(f"The push was taken after {tested['milliseconds']} ms.")
        return self._views.done(f"The push was not taken: {tested['failure']}.", is_good=False)
