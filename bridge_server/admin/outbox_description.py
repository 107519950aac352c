"""The outbox described, beyond its rows: messages, attempts to deliver them, and tests."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Any, Literal

from bridge_server.admin.delivery_tests import PushTestShape, WebhookTestShape
from bridge_server.admin.observation_description import PROCESS, ProcessAnswer
from bridge_server.admin.outbox import DestinationShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.outbox.models import (
    AttemptNotFoundError,
    MessageBeingSentError,
    MessageKind,
    MessageNotFoundError,
    MessageState,
)
from bridge_server.push.models import (
    TooManyPushesError,
    TopicNotFoundError,
)
from bridge_server.web.description import (
    ABSENT,
    AnswerShape,
    Channel,
    Count,
    DescribedAnswer,
    Milliseconds,
    Moment,
    NextPage,
    Operation,
    Parameter,
    Status,
    count,
    done,
    operation,
    page_parameters,
    text,
)

_operation = partial(operation, "Outbox")

# Messages and attempts to deliver them.

_ID = Parameter(
    "id", "The id of a message, from the list of messages.", place="path", example="7-msg_0192f7c8"
)


_KIND = Parameter("kind", "Only messages of this kind.", {"enum": [*MessageKind]})


_DESTINATION = Parameter("destination", "Only messages to this destination, as the list spells it.")


Destination = Annotated[str, text("https://app.example.org:443")]


Failure = Annotated[str, text("the receiver answered 500")]


class OutboxMessageAnswer(AnswerShape):
    """A message that is owed to a webhook or a device. Ids of sessions and topics are shortened."""

    id: Annotated[str, text("7-msg_0192f7c8")]
    state: MessageState
    purpose: Annotated[str, text("call-webhook")]
    destination: Destination
    subject: Annotated[str, text("0192f7c8…")] | None
    attempts: Count
    created_at: Moment
    next_attempt_at: Moment | None
    died_at: Moment | None
    error: Failure | None
    status: Status | None


class OutboxMessagesAnswer(AnswerShape):
    """A page of messages, newest first."""

    messages: list[OutboxMessageAnswer]
    next: NextPage | None


class DeliveryAttemptAnswer(AnswerShape):
    """An attempt to deliver a message, or a test."""

    number: Annotated[int, count(7)]
    at: Moment
    message_id: Annotated[str, text("msg_0192f7c8")] | None
    purpose: Annotated[str, text("call-webhook")]
    channel: Channel
    destination: Destination
    subject: Annotated[str, text("0192f7c8…")] | None
    outcome: Literal["delivered", "failed", "gone", "refused", "blocked"]
    status: Status | None
    milliseconds: Milliseconds
    failure: Failure | None
    process: Count = ABSENT


class OutboxMessageDetailsAnswer(OutboxMessageAnswer):
    """A message with its headers and its last attempts. Its body is there only for an event of a project."""

    message_id: Annotated[str, text("msg_0192f7c8")]
    headers: dict[str, str]
    body_bytes: Count
    body: Any
    last_attempts: list[DeliveryAttemptAnswer]
    processes: list[ProcessAnswer] = ABSENT


class DeliveryAttemptsAnswer(AnswerShape):
    """A page of attempts, newest first, and how many had each outcome since the start, by channel."""

    attempts: list[DeliveryAttemptAnswer]
    outcomes: dict[str, dict[str, Count]]
    next: NextPage | None
    processes: list[ProcessAnswer] = ABSENT


class DeliveryAttemptDetailsAnswer(DeliveryAttemptAnswer):
    """An attempt with its request, which only test mode keeps."""

    body: Any


class ChangedMessagesAnswer(AnswerShape):
    """How many messages were changed."""

    messages: Count


_MESSAGES = {
    "outbox": _operation(
        "List messages",
        "Messages that are due, that wait for their next attempt, or that were given up, newest first. "
        "One that was delivered is not there any more.",
        DescribedAnswer(200, "A page.", OutboxMessagesAnswer),
        parameters=(
            Parameter("state", "Only messages in this state.", {"enum": [*MessageState]}),
            _KIND,
            Parameter("purpose", "Only messages of this purpose."),
            _DESTINATION,
            *page_parameters(),
        ),
    ),
    "retry-dead-messages": _operation(
        "Send all dead messages of a destination",
        "They begin their attempts anew.",
        DescribedAnswer(200, "How many there were.", ChangedMessagesAnswer),
        body=DestinationShape,
        body_example={"destination": "https://app.example.org:443"},
    ),
    "drop-dead-messages": _operation(
        "Drop all dead messages of a destination",
        "They are deleted for good.",
        DescribedAnswer(200, "How many there were.", ChangedMessagesAnswer),
        body=DestinationShape,
        body_example={"destination": "https://app.example.org:443"},
    ),
    "outbox-attempts": _operation(
        "List attempts",
        "The last 500 attempts to deliver since the start, newest first, and the outcomes of all.",
        DescribedAnswer(200, "A page.", DeliveryAttemptsAnswer),
        parameters=(_KIND, _DESTINATION, PROCESS, *page_parameters()),
        needs_database=False,
    ),
    "outbox-attempt": _operation(
        "Show an attempt",
        "In test mode with the body that was sent, up to 16 KiB.",
        DescribedAnswer(200, "The attempt.", DeliveryAttemptDetailsAnswer),
        parameters=(
            Parameter("number", "The number of an attempt.", place="path", example="1"),
            PROCESS,
        ),
        problems=(AttemptNotFoundError, InvalidInputError),
        needs_database=False,
    ),
    "outbox-message": _operation(
        "Show a message",
        "A message with its headers and its last attempts.",
        DescribedAnswer(200, "The message.", OutboxMessageDetailsAnswer),
        parameters=(_ID, PROCESS),
        problems=(MessageNotFoundError, InvalidInputError),
    ),
    "drop-message": _operation(
        "Drop a message",
        "It is deleted for good.",
        *done("It is dropped."),
        parameters=(_ID,),
        problems=(MessageNotFoundError, MessageBeingSentError),
    ),
    "retry-message": _operation(
        "Send a message now",
        "A dead one begins its attempts anew.",
        DescribedAnswer(200, "The message, which is due.", OutboxMessageAnswer),
        parameters=(_ID,),
        problems=(MessageNotFoundError, MessageBeingSentError),
    ),
}


# Tests of webhooks and pushes.


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


class TestedWebhookAnswer(AnswerShape):
    """The receiver's answer to a message."""

    __test__ = False

    delivered: bool
    message_id: Annotated[str, text("msg_0192f7c8")]
    status: Status | None
    milliseconds: Milliseconds
    failure: Annotated[str, text("the receiver answered 500")] | None


_PUSHES = {
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


_WEBHOOKS = {
    "test-webhook": _operation(
        "Test a webhook",
        "Sends a signed message to a webhook at once, under the address guard.",
        DescribedAnswer(200, "What the receiver said.", TestedWebhookAnswer),
        body=WebhookTestShape,
        body_example={"url": "https://app.example.org/hook"},
    ),
}

OUTBOX_OPERATIONS: Mapping[str, Operation] = {**_MESSAGES, **_PUSHES, **_WEBHOOKS}
