"""The described messages to webhooks are those that are sent."""

from typing import Any

import orjson
import pytest

from bridge_server.description.webhooks import NewCallMessage, SubscriptionMessage, TopicMessage
from bridge_server.projects.models import (
    ProjectId,
    Subscription,
    SubscriptionChange,
    SubscriptionEvent,
    TypeId,
)
from bridge_server.projects.webhook_events import write_event
from bridge_server.relay.models import CallId, PushDetails, SessionId
from bridge_server.relay.wire import write_push_notice, write_topic_notice
from bridge_server.web.description import AnswerShape
from tests.support.described import description

WEBHOOKS: dict[str, Any] = description().document["webhooks"]
SUBSCRIPTION = Subscription("test:chain:a", (TypeId("news"),), 0, follows_all=True)


@pytest.mark.parametrize(
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
def test_a_message_has_its_shape(shape: type[AnswerShape], sent: bytes) -> None:
    assert shape.model_validate_json(sent).model_dump() == orjson.loads(sent)


def test_each_webhook_has_an_example_and_the_header_fields_of_standard_webhooks() -> None:
    assert list(WEBHOOKS) == ["new-call", "new-call-of-topic", "subscription-changed"]
    for webhook in WEBHOOKS.values():
        (content,) = webhook["post"]["requestBody"]["content"].values()
        names = [parameter["name"] for parameter in webhook["post"]["parameters"]]
        assert content["example"]
        assert names == ["webhook-id", "webhook-timestamp", "webhook-signature"]
