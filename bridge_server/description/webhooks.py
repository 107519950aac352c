"""The messages that this server sends to webhooks, described as the answers are."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from bridge_server.description.shapes import Schemas, example_of
from bridge_server.web.description import (
    JSON,
    Account,
    AnswerShape,
    Count,
    Moment,
    ProjectId,
    TypeId,
    text,
)

_SESSION = "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"


class NewCallMessage(AnswerShape):
    """A session has a new call."""

    sessionId: Annotated[str, text(_SESSION)]  # noqa: N815
    callId: Annotated[str, text("0192f7c8-8a10-7c11-9d7e-5b0a6f2c1e3d")]  # noqa: N815
    pushType: Annotated[str, text("fcm")]  # noqa: N815
    pushToken: Annotated[str, text("d7Zt3k")]  # noqa: N815
    dappName: Annotated[str, text("Example Shop")]  # noqa: N815


class TopicMessage(AnswerShape):
    """A topic has a new call."""

    topic: Annotated[str, text(_SESSION)]


class SubscriptionMessage(AnswerShape):
    """A subscription has changed. `number` increases with each change."""

    event: Literal["subscribed", "updated", "unsubscribed"]
    number: Count
    project_id: ProjectId
    account: Account
    notification_types: list[TypeId]
    at: Moment


@dataclass(frozen=True, slots=True)
class _Webhook:
    tag: str
    summary: str
    text: str
    shape: Any


_WEBHOOKS: Mapping[str, _Webhook] = {
    "new-call": _Webhook(
        "Bridge", "A new call, to the wallet's push webhook",
        "Sent to the `push.webhook` of the session.", NewCallMessage,
    ),
    "new-call-of-topic": _Webhook(
        "Bridge", "A new call, to the webhooks of its topic",
        "Sent to each webhook that was registered with `POST /subscribe`.", TopicMessage,
    ),
    "subscription-changed": _Webhook(
        "Notifications", "A changed subscription, to the project's webhook",
        "Sent to the webhook that the operator has set for the project, signed with its own secret. Messages "
        "may arrive out of order.", SubscriptionMessage,
    ),
}  # fmt: skip
SHAPES = tuple(webhook.shape for webhook in _WEBHOOKS.values())
"""The shapes of all messages."""

_HEADERS = {
    "webhook-id": "The same in each attempt of a message, so that a receiver can drop repeats.",
    "webhook-timestamp": "When this attempt was sent, in seconds since the Unix epoch.",
    "webhook-signature": "Signatures by Standard Webhooks, where a secret is set.",
}
_RESPONSES = {
    "2XX": {"description": "The message has arrived."},
    "default": {"description": "It is sent again later, up to the attempts that the outbox makes."},
}


def webhooks_of(schemas: Schemas) -> dict[str, Any]:
    """The member `webhooks` of the document."""
    return {name: {"post": _message(name, webhook, schemas)} for name, webhook in _WEBHOOKS.items()}


def _message(name: str, webhook: _Webhook, schemas: Schemas) -> dict[str, Any]:
    schema = schemas.of(webhook.shape)
    content = {"schema": schema, "example": example_of(schema, schemas.components)}
    return {
        "operationId": name,
        "tags": [webhook.tag],
        "summary": webhook.summary,
        "description": webhook.text,
        "parameters": [
            {"name": header, "in": "header", "description": meaning, "schema": {"type": "string"}}
            for header, meaning in _HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {JSON: content}},
        "responses": _RESPONSES,
        "security": [],
    }
