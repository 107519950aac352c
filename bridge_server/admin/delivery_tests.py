"""Tests of webhooks and of pushes: each sends once, at once; and a preview of a push."""

from collections.abc import Mapping
from time import perf_counter
from typing import Annotated

import orjson
from aiohttp import web
from pydantic import AfterValidator, Field

from bridge_server.admin.rows import AdminRows, body
from bridge_server.kernel.background import StoppedError, Stopping
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, UnavailableError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import IdMaker
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.topics import Topic
from bridge_server.push import models
from bridge_server.push.notices import RIGHT_TO_LEFT, match_language, request_text, shown_name
from bridge_server.push.service import PushServer
from bridge_server.web.bodies import WEB_URL, Shape
from bridge_server.web.routes import Parameter, Route
from bridge_server.web.shapes import Milliseconds, Status, TypedDict, one_of, text

WEBHOOK_TEST = Purpose("webhook-test")
"""The purpose of a message that an operator sends to see whether a receiver takes it. It is never stored."""

_LONGEST_TEXT = 1024


class WebhookTestShape(Shape):
    """The body of POST /admin/webhooks/test."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


class PushTestShape(Shape):
    """The body of POST /admin/pushes/test."""

    topic: Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]


class TestedPushAnswer(TypedDict):
    """The provider's answer to a push."""

    delivered: bool
    status: Status | None
    milliseconds: Milliseconds
    failure: Annotated[str, text("the provider answered 500")] | None


class PushPreviewAnswer(TypedDict):
    """A push as a phone shows it."""

    title: Annotated[str, text("Example Shop")]
    body: Annotated[str, text("New request from Example Shop")]
    language: Annotated[str, text("en")]
    direction: Annotated[str, one_of("ltr", "rtl")]


class TestedWebhookAnswer(TypedDict):
    """The receiver's answer to a message."""

    delivered: bool
    message_id: Annotated[str, text("msg_0192f7c8")]
    status: Status | None
    milliseconds: Milliseconds
    failure: Annotated[str, text("the receiver answered 500")] | None


class WebhookTests:
    """Sends signed test messages under the address guard. They are tried once and leave nothing behind."""

    def __init__(self, sender: Sender, clock: Clock, ids: IdMaker, stopping: Stopping) -> None:
        self._sender, self._clock = sender, clock
        self._ids, self._stopping = ids, stopping

    async def send(self, url: str) -> TestedWebhookAnswer:
        """Send a test message. Raises UnavailableError when the server stops before the answer."""
        now_ms, started = self._clock.now_ms(), perf_counter()
        content = orjson.dumps({"event": "test", "at": rfc3339(now_ms)})
        message = OutgoingMessage(self._ids.random_uuid(), url, content, WEBHOOK_TEST)
        try:
            outcome = await self._stopping.finish(self._sender.send(message, now_ms))
        except StoppedError as error:
            raise UnavailableError("The server stops, and the receiver has not answered yet.") from error
        return {"message_id": message.message_id, **_tested(outcome, started)}

    async def test_webhook(self, request: web.Request) -> TestedWebhookAnswer:
        """Sends a signed message to a webhook at once, under the address guard."""
        return await self.send((await body(request, WebhookTestShape)).url)


class PushTests:
    """Tests and previews pushes."""

    def __init__(self, server: PushServer) -> None:
        self._server = server

    async def send(self, topic: str) -> TestedPushAnswer:
        """Push to the topic's client now. Raises TopicNotFoundError, TooManyPushesError."""
        started = perf_counter()
        try:
            outcome = await self._server.push(Topic(topic), None)
        except models.ProviderFailedError as error:
            outcome = Outcome(Verdict.FAILED, error.reason)
        except models.TokenDeadError as error:
            outcome = Outcome(Verdict.GONE, error.detail)
        return _tested(outcome, started)

    async def test_push(self, request: web.Request) -> TestedPushAnswer:
        """Pushes to the client that has registered the topic, at once."""
        return await self.send((await body(request, PushTestShape)).topic)

    async def preview(self, query: Mapping[str, str]) -> PushPreviewAnswer:
        """The texts of a push about a new request, in the language that the server finds for the client's.
        Raises InvalidInputError.
        """
        peer_name, language = query.get("peer_name", ""), query.get("language", "")
        if max(len(peer_name), len(language)) > _LONGEST_TEXT:
            raise InvalidInputError(f"peer_name and language have at most {_LONGEST_TEXT} characters.")
        shown, found = request_text(language, peer_name), match_language(language)
        return {
            "title": shown_name(peer_name) or shown,
            "body": shown,
            "language": found,
            "direction": "rtl" if found in RIGHT_TO_LEFT else "ltr",
        }


def _tested(outcome: Outcome, started: float) -> TestedPushAnswer:
    return {
        "delivered": outcome.verdict is Verdict.DELIVERED,
        "status": outcome.status,
        "milliseconds": round((perf_counter() - started) * 1_000, 1),
        "failure": outcome.reason or None,
    }


_PREVIEWED = (
    Parameter("peer_name", "The name that the wallet has registered.", example="Example Shop"),
    Parameter("language", "A language (BCP 47).", example="de-AT"),
)


def delivery_test_routes(webhooks: WebhookTests, pushes: PushTests, rows: AdminRows) -> tuple[Route, ...]:
    """A test of a push, its preview, and a test of a webhook."""
    rows = rows.under("Outbox")
    return (
        rows.write("POST", "/admin/pushes/test", "test-push", pushes.test_push,
                   "Test a push", "What the provider said.",
                   body=PushTestShape, body_example={"topic": "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"},
                   problems=(models.TopicNotFoundError, models.TooManyPushesError)),
        rows.read("/admin/pushes/preview", "preview-push", lambda request: pushes.preview(request.query),
                  "Preview a push", "The texts.", of=pushes.preview, parameters=_PREVIEWED,
                  needs_database=False),
        rows.write("POST", "/admin/webhooks/test", "test-webhook", webhooks.test_webhook,
                   "Test a webhook", "What the receiver said.",
                   body=WebhookTestShape, body_example={"url": "https://app.example.org/hook"}),
    )  # fmt: skip
