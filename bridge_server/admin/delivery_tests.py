"""Tests of webhooks and of pushes: each sends once, at once; and a preview of a push."""

from collections.abc import Mapping
from time import perf_counter
from typing import Annotated, Any

import orjson
from aiohttp import web
from pydantic import AfterValidator, Field

from bridge_server.admin.rows import AdminRows, fields_answer
from bridge_server.kernel.background import StoppedError, Stopping
from bridge_server.kernel.clock import Clock
from bridge_server.kernel.errors import InvalidInputError, UnavailableError
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.kernel.secrets import IdMaker
from bridge_server.kernel.values import dataclass
from bridge_server.outbox.channels import Sender
from bridge_server.outbox.guarded_client import Outcome, Verdict
from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.outbox.topics import Topic
from bridge_server.push.models import ProviderFailedError, TokenDeadError
from bridge_server.push.notices import RIGHT_TO_LEFT, match_language, request_text, shown_name
from bridge_server.push.service import PushServer
from bridge_server.web.bodies import WEB_URL, JsonObject, Shape, check, json_object
from bridge_server.web.routes import Route

WEBHOOK_TEST = Purpose("webhook-test")
"""The purpose of a message that an operator sends to see whether a receiver takes it. It is never stored."""

_LONGEST_TEXT = 1024


@dataclass(frozen=True, slots=True)
class TestedDelivery:
    """The outcome of a test and how long it took. The test of a webhook has a message id."""

    outcome: Outcome
    milliseconds: float
    message_id: str | None = None


@dataclass(frozen=True, slots=True)
class PushPreview:
    """The texts of a push about a new request, and the language that was found for the client's."""

    title: str
    body: str
    language: str
    is_right_to_left: bool


class WebhookTests:
    """Sends signed test messages under the address guard. They are tried once and leave nothing behind."""

    def __init__(self, sender: Sender, clock: Clock, ids: IdMaker, stopping: Stopping) -> None:
        self._sender = sender
        self._clock = clock
        self._ids = ids
        self._stopping = stopping

    async def send(self, url: str) -> TestedDelivery:
        """Send a test message. Raises UnavailableError when the server stops before the answer."""
        now_ms, started = self._clock.now_ms(), perf_counter()
        body = orjson.dumps({"event": "test", "at": rfc3339(now_ms)})
        message = OutgoingMessage(self._ids.random_uuid(), url, body, WEBHOOK_TEST)
        try:
            outcome = await self._stopping.finish(self._sender.send(message, now_ms))
        except StoppedError as error:
            raise UnavailableError("The server stops, and the receiver has not answered yet.") from error
        return TestedDelivery(outcome, (perf_counter() - started) * 1_000, message.message_id)


class PushTests:
    """Tests and previews pushes."""

    def __init__(self, server: PushServer) -> None:
        self._server = server

    async def send(self, topic: str) -> TestedDelivery:
        """Push to the topic's client now. Raises TopicNotFoundError, TooManyPushesError."""
        started = perf_counter()
        try:
            outcome = await self._server.push(Topic(topic), None)
        except ProviderFailedError as error:
            outcome = Outcome(Verdict.FAILED, error.reason)
        except TokenDeadError as error:
            outcome = Outcome(Verdict.GONE, error.detail)
        return TestedDelivery(outcome, (perf_counter() - started) * 1_000)

    def preview(self, peer_name: str, language: str) -> PushPreview:
        """The text that the phone of a client with this language shows about a peer of this name."""
        text, found = request_text(language, peer_name), match_language(language)
        return PushPreview(shown_name(peer_name) or text, text, found, found in RIGHT_TO_LEFT)


class WebhookTestShape(Shape):
    """The body of POST /admin/webhooks/test."""

    url: Annotated[str, AfterValidator(http_url), WEB_URL]


class PushTestShape(Shape):
    """The body of POST /admin/pushes/test."""

    topic: Annotated[str, Field(min_length=1, max_length=_LONGEST_TEXT)]


def read_url(document: JsonObject) -> str:
    """Read the URL of the webhook to test."""
    return check(WebhookTestShape, document.values).url


def read_topic(document: JsonObject) -> str:
    """Read the topic whose client gets the push."""
    return check(PushTestShape, document.values).topic


def read_preview(query: Mapping[str, str]) -> tuple[str, str]:
    """Read the query parameters `peer_name` and `language`. Raises InvalidInputError."""
    texts = query.get("peer_name", ""), query.get("language", "")
    if max(map(len, texts)) > _LONGEST_TEXT:
        raise InvalidInputError(f"peer_name and language have at most {_LONGEST_TEXT} characters.")
    return texts


def tested_fields(tested: TestedDelivery) -> dict[str, Any]:
    """Whether the receiver took the message, its status, the time it took, and why it failed."""
    outcome, message_id = tested.outcome, tested.message_id
    return {
        "delivered": outcome.verdict is Verdict.DELIVERED,
        **({} if message_id is None else {"message_id": message_id}),
        "status": outcome.status,
        "milliseconds": round(tested.milliseconds, 1),
        "failure": outcome.reason or None,
    }


def preview_fields(preview: PushPreview) -> dict[str, Any]:
    """The texts as a phone shows them."""
    return {
        "title": preview.title,
        "body": preview.body,
        "language": preview.language,
        "direction": "rtl" if preview.is_right_to_left else "ltr",
    }


class DeliveryTestHandlers:
    """One method per endpoint."""

    def __init__(self, webhooks: WebhookTests, pushes: PushTests) -> None:
        self._webhooks = webhooks
        self._pushes = pushes

    async def test_webhook(self, request: web.Request) -> web.Response:
        tested = await self._webhooks.send(read_url(await json_object(request)))
        return fields_answer(tested_fields(tested))

    async def test_push(self, request: web.Request) -> web.Response:
        tested = await self._pushes.send(read_topic(await json_object(request)))
        return fields_answer(tested_fields(tested))

    async def preview_push(self, request: web.Request) -> web.Response:
        return fields_answer(preview_fields(self._pushes.preview(*read_preview(request.query))))


def delivery_test_routes(handlers: DeliveryTestHandlers, rows: AdminRows) -> tuple[Route, ...]:
    """A test of a push, its preview, and a test of a webhook."""
    return (
        rows.write("POST", "/admin/pushes/test", "test-push", handlers.test_push),
        rows.read("/admin/pushes/preview", "preview-push", handlers.preview_push),
        rows.write("POST", "/admin/webhooks/test", "test-webhook", handlers.test_webhook),
    )
