"""The described messages to webhooks are those that are sent."""

from typing import Any

import orjson
import pytest
from pydantic import TypeAdapter

from bridge_server.description.document import (
    NewCallMessage,
    NotificationNotice,
    RequestNotice,
    SubscriptionMessage,
    TopicMessage,
    WebhookTestMessage,
)
from bridge_server.projects.models import (
    ProjectId,
    Subscription,
    SubscriptionChange,
    SubscriptionEvent,
    TypeId,
)
from bridge_server.projects.subscriptions import write_event
from bridge_server.relay.models import CallId, PushDetails, SessionId
from bridge_server.relay.wire import write_push_notice, write_topic_notice
from tests.support.admin_client import ADMIN_TOKEN, AdminClient
from tests.support.described import description
from tests.support.inbox_client import sign_in
from tests.support.push_client import PushClient
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.webhook_receiver import WebhookReceiver

WEBHOOKS: dict[str, Any] = description().document["webhooks"]
HEADERS = ["webhook-id", "webhook-timestamp", "webhook-signature"]
SUBSCRIPTION = Subscription("test:chain:a", (TypeId("news"),), 0, follows_all=True)


@pytest.fixture(scope="module")
def server_settings() -> dict[str, Any]:
    return {"admin_token": ADMIN_TOKEN, "allow_private_webhooks": True}


@each_row(
    ("shape", "sent"),
    [
        (
            NewCallMessage,
            write_push_notice(
                SessionId("s"), CallId("c"), PushDetails("fcm", "t", "https://a.example"), "Shop"
            ),
        ),
        (TopicMessage, write_topic_notice("s")),
        *(
            (
                SubscriptionMessage,
                write_event(SubscriptionEvent(change, ProjectId("shop"), SUBSCRIPTION, 7, 0)),
            )
            for change in SubscriptionChange
        ),
    ],
)
def test_a_message_has_its_shape(shape: type, sent: bytes) -> None:
    assert TypeAdapter(shape).validate_json(sent) == orjson.loads(sent)


async def test_a_message_to_a_device_or_of_a_test_has_its_shape(
    server: RunningServer, receiver: WebhookReceiver
) -> None:
    admin, push, inbox = AdminClient(server), PushClient(server), await sign_in(server)
    await push.register(type="webhook", token=receiver.url("/request"))
    await push.push()
    secret = await admin.create("shop", "news")
    await inbox.subscribe("shop")
    await inbox.add_device("webhook", receiver.url("/notification"))
    await admin.notify("shop", secret, "news", inbox.account)
    await admin.post("/admin/webhooks/test", {"url": receiver.url("/test")})
    await receiver.got(3)

    for path, shape in (
        ("/request", RequestNotice), ("/notification", NotificationNotice), ("/test", WebhookTestMessage),
    ):  # fmt: skip
        [sent] = [each for each in receiver.requests if each.path == path]
        assert TypeAdapter(shape).validate_json(sent.body) == orjson.loads(sent.body)
        assert {*HEADERS[:2]} <= {name.lower() for name in sent.headers}


def test_each_webhook_has_an_example_and_the_header_fields_of_standard_webhooks() -> None:
    assert list(WEBHOOKS) == [
        "new-call", "new-call-of-topic", "subscription-changed", "request-push", "notification-push",
        "webhook-test",
    ]  # fmt: skip
    for webhook in WEBHOOKS.values():
        (content,) = webhook["post"]["requestBody"]["content"].values()
        parameters = webhook["post"]["parameters"]
        assert content["example"]
        assert [parameter["name"] for parameter in parameters] == HEADERS
        assert [parameter["required"] for parameter in parameters] == [True, True, False]


def test_every_operation_has_a_name_of_its_own() -> None:
    paths = [*description().document["paths"].values(), *WEBHOOKS.values()]
    names = [operation["operationId"] for path in paths for operation in path.values()]

    assert len(names) == len(set(names))
