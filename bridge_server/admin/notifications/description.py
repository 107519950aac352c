"""The notifications' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from bridge_server.admin.notifications.wire import OperatorNotifyShape
from bridge_server.notify.description import DRY_RUN, NOTIFICATION_EXAMPLE, NotifyOutcomeAnswer
from bridge_server.notify.errors import NotificationNotFoundError
from bridge_server.notify.history_models import DeliveryOutcome
from bridge_server.projects.errors import ProjectNotFoundError
from bridge_server.web.description import (
    Account,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    NextPage,
    Operation,
    Parameter,
    Rate,
    TypeId,
    count,
    operation,
    page_parameters,
    text,
)

_OUTCOMES = [outcome.value for outcome in DeliveryOutcome]


class NotificationFiguresAnswer(AnswerShape):
    """How many accounts have got a notification, read it, or missed it."""

    sent: Count
    read: Count
    bulk_marked: Count
    read_rate: Rate | None
    rate_limited: Count
    type_not_subscribed: Count


class PastNotificationAnswer(AnswerShape):
    """A notification that was sent."""

    number: Annotated[int, count(42)]
    sent_at: Moment | None
    type: TypeId
    title: Annotated[str, text("ETH is up")]
    notification_id: Annotated[str, text("eth-4000")] | None
    figures: NotificationFiguresAnswer


class PastNotificationsAnswer(AnswerShape):
    """A page of notifications, newest first."""

    notifications: list[PastNotificationAnswer]
    next: NextPage | None


class OutcomeMomentsAnswer(AnswerShape):
    """The outcome of a notification for an account, and its time."""

    outcome: DeliveryOutcome
    at: Moment
    read_at: Moment | None
    limited_until: Moment | None


class AccountOutcomeAnswer(OutcomeMomentsAnswer):
    """The outcome of a notification for this account."""

    account: Account


class NotificationDetailsAnswer(PastNotificationAnswer):
    """A notification with its content, and a page of its accounts."""

    body: Annotated[str, text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, text("https://app.example.org/eth")] | None
    accounts: list[AccountOutcomeAnswer]
    next: NextPage | None


class AudienceOutcomeAnswer(NotifyOutcomeAnswer):
    """The outcome for each account of this call. `next` is the `after` of the next call, null at the end."""

    next: Annotated[str, text("eip155:1:0xab16a96d359ec26a11e2c2b3d8f8b8942d5bfcdb")] | None


_operation = partial(operation, "Projects")

NOTIFICATION_OPERATIONS: Mapping[str, Operation] = {
    "notifications": _operation(
        "List notifications",
        "The notifications of a project with their figures, newest first.",
        DescribedAnswer(200, "A page.", PastNotificationsAnswer),
        parameters=page_parameters(),
        problems=(ProjectNotFoundError,),
    ),
    "notification": _operation(
        "Show a notification",
        "Its content, and its accounts with the outcome of each. Accounts that missed it come first. A "
        "page may "
        "be short, or empty, although `next` says that more may follow.",
        DescribedAnswer(200, "The notification, with a page of accounts.", NotificationDetailsAnswer),
        parameters=(
            Parameter("number", "The number of a notification.", place="path", example="1"),
            Parameter("outcome", "Only accounts with this outcome.", {"enum": _OUTCOMES}),
            *page_parameters(),
        ),
        problems=(ProjectNotFoundError, NotificationNotFoundError),
    ),
    "operator-notify": _operation(
        "Send a notification to an audience",
        '`audience` is `"all"`, `{"type": ...}` or `{"accounts": [...]}`. A call sends to at most 500 '
        "accounts; it is repeated with `after` set to `next` until that is null. For an audience without "
        "accounts a `notification_id` is required, with which nobody is sent to twice.",
        DescribedAnswer(200, "The outcome for each account.", AudienceOutcomeAnswer),
        body=OperatorNotifyShape,
        body_example={
            "notification_id": "eth-4000",
            "notification": NOTIFICATION_EXAMPLE,
            "audience": "all",
        },
        parameters=(DRY_RUN,),
        problems=(ProjectNotFoundError,),
    ),
}
