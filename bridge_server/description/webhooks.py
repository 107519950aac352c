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


class RequestNotice(AnswerShape):
    """A registered wallet has a new request."""

    event: Literal["request"]
    title: Annotated[str, text("Example Shop")]
    body: Annotated[str, text("New request from Example Shop")]
    topic: Annotated[str, text(_SESSION)]
    bridge: Annotated[str, text("https://bridge.example.org")]


class NotificationNotice(AnswerShape):
    """An account has a new notification."""

    event: Literal["notification"]
    id: Annotated[str, text("1")]
    project_id: ProjectId
    project_name: Annotated[str, text("Example App")]
    account: Account
    type: TypeId
    title: Annotated[str, text("ETH is up")]
    body: Annotated[str, text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, text("https://app.example.org/eth")] | None
    sent_at: Moment


class WebhookTestMessage(AnswerShape):
    """A test, which a receiver has nothing to do for."""

    event: Literal["test"]
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
    "request-push": _Webhook(
        "Push", "A new request, to a wallet's device",
        "Sent to the `token` of a registration with the type `webhook` (`POST /new`), in the client's "
        "language.", RequestNotice,
    ),
    "notification-push": _Webhook(
        "Inbox", "A notification, to an account's device",
        "Sent to the `address` of a device with the channel `webhook` (`POST /inbox/devices`).",
        NotificationNotice,
    ),
    "webhook-test": _Webhook(
        "Outbox", "A test, to the URL that an operator names",
        "Sent once by `POST /admin/webhooks/test` and `bridge-server webhook test`.", WebhookTestMessage,
    ),
}  # fmt: skip
SHAPES = tuple(webhook.shape for webhook in _WEBHOOKS.values())
"""The shapes of all messages."""

_HEADERS = {
    "webhook-id": "The id of the message, the same in each attempt, so that a receiver can drop repeats.",
    "webhook-timestamp": "When this attempt was sent, in seconds since the Unix epoch.",
    "webhook-signature": "Signatures by Standard Webhooks, separated by spaces; only where a secret is set.",
}
_OPTIONAL_HEADER = "webhook-signature"
_RESPONSES = {
    "2XX": {"description": "The message has arrived."},
    "410": {
        "description": "The receiver wants no more messages. Its registration is removed, unless it is the "
        "webhook of a project."
    },
    "default": {
        "description": "It has not arrived, and is sent again, ten times over about 24 hours. A test is not."
    },
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
            {
                "name": header,
                "in": "header",
                "required": header != _OPTIONAL_HEADER,
                "description": meaning,
                "schema": {"type": "string"},
            }
            for header, meaning in _HEADERS.items()
        ],
        "requestBody": {"required": True, "content": {JSON: content}},
        "responses": _RESPONSES,
        "security": [],
    }
