"""The pushes' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from bridge_server.admin.pushes.wire import PushTestShape
from bridge_server.push.errors import TooManyPushesError, TopicNotFoundError
from bridge_server.web.description import (
    AnswerShape,
    DescribedAnswer,
    Milliseconds,
    Operation,
    Parameter,
    Status,
    operation,
    text,
)


class TestedPushAnswer(AnswerShape):
    """The provider's answer to a push."""

    __test__ = False

    delivered: bool
    status: Status | None
    milliseconds: Milliseconds
    failure: Annotated[str, text("the provider answered 500")] | None


class PushPreviewAnswer(AnswerShape):
    """A push as a phone shows it."""

    title: Annotated[str, text("Example Shop")]
    body: Annotated[str, text("New request from Example Shop")]
    language: Annotated[str, text("en")]
    direction: Literal["ltr", "rtl"]


_operation = partial(operation, "Outbox")

PUSH_DESK_OPERATIONS: Mapping[str, Operation] = {
    "test-push": _operation(
        "Test a push",
        "Pushes to the client that has registered the topic, at once.",
        DescribedAnswer(200, "What the provider said.", TestedPushAnswer),
        body=PushTestShape,
        body_example={"topic": "0192f7c8-7e6a-7d2b-b0a5-0f7f3c1d2e4f"},
        problems=(TopicNotFoundError, TooManyPushesError),
    ),
    "preview-push": _operation(
        "Preview a push",
        "The texts of a push about a new request, in the language that the server finds for the client's.",
        DescribedAnswer(200, "The texts.", PushPreviewAnswer),
        parameters=(
            Parameter("peer_name", "The name that the wallet has registered.", example="Example Shop"),
            Parameter("language", "A language (BCP 47).", example="de-AT"),
        ),
        needs_database=False,
    ),
}
