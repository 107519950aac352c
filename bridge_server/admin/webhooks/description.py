"""The route of a webhook's test described."""

from collections.abc import Mapping
from typing import Annotated

from bridge_server.admin.webhooks.wire import WebhookTestShape
from bridge_server.web.description import AnswerShape, DescribedAnswer, Milliseconds, Operation, Status, text


class TestedWebhookAnswer(AnswerShape):
    """The receiver's answer to a message."""

    __test__ = False

    delivered: bool
    message_id: Annotated[str, text("msg_0192f7c8")]
    status: Status | None
    milliseconds: Milliseconds
    failure: Annotated[str, text("the receiver answered 500")] | None


WEBHOOK_OPERATIONS: Mapping[str, Operation] = {
    "test-webhook": Operation(
        tag="Outbox",
        summary="Test a webhook",
        text="Sends a signed message to a webhook at once, under the address guard.",
        answers=(DescribedAnswer(200, "What the receiver said.", TestedWebhookAnswer),),
        body=WebhookTestShape,
        body_example={"url": "https://app.example.org/hook"},
    ),
}
