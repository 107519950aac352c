"""The accounts' routes of the admin API described."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from bridge_server.admin.notifications.description import OutcomeMomentsAnswer
from bridge_server.admin.projects.description_shapes import (
    AccountDeviceAnswer,
    AccountLimitAnswer,
    SubscriberAnswer,
)
from bridge_server.inbox.description import PAGE_QUERY
from bridge_server.inbox.description_shapes import InboxPageAnswer, ReadNotificationsAnswer
from bridge_server.inbox.notification_wire import ReadShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.errors import ProjectNotFoundError
from bridge_server.web.description import (
    Account,
    AnswerShape,
    Channel,
    Count,
    DescribedAnswer,
    Moment,
    Operation,
    Parameter,
    ProjectId,
    TypeId,
    count,
    number,
    operation,
    text,
)


class AccountBucketAnswer(AnswerShape):
    """The rest of a project's limit for an account."""

    tokens: Annotated[float, number(50)]
    full_at: Moment | None
    next_token_at: Moment | None


class AccountNotificationAnswer(OutcomeMomentsAnswer):
    """A notification, and its outcome for the account."""

    number: Annotated[int, count(42)]
    type: TypeId
    title: Annotated[str, text("ETH is up")]


class AccountProjectAnswer(AnswerShape):
    """An account in a project."""

    project_id: ProjectId
    name: Annotated[str, text("Example App")]
    subscribed: bool
    subscription: SubscriberAnswer | None
    account_limit: AccountLimitAnswer
    bucket: AccountBucketAnswer
    notifications: list[AccountNotificationAnswer]


class DeviceDeliveryAnswer(AnswerShape):
    """A message to a device that waits, or has failed."""

    device_id: Annotated[str, text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")] | None
    channel: Channel
    project_id: ProjectId | None
    state: Literal["failed", "waiting"]
    attempts: Count
    created_at: Moment
    next_attempt_at: Moment | None
    error: Annotated[str, text("the receiver answered 500")] | None


class AccountViewAnswer(AnswerShape):
    """An account: its subscriptions, notifications and devices, the latter without their addresses."""

    account: Account
    projects: list[AccountProjectAnswer]
    devices: list[AccountDeviceAnswer]
    deliveries: list[DeviceDeliveryAnswer]


_operation = partial(operation, "Accounts")

ACCOUNT_OPERATIONS: Mapping[str, Operation] = {
    "account": _operation(
        "Why an account did not get a notification",
        "For each project of the account, or for the named project: its subscription, its limit, and its "
        "last ten notifications with their outcomes; the state of its devices, and messages that wait for "
        "them.",
        DescribedAnswer(200, "The account.", AccountViewAnswer),
        parameters=(Parameter("project_id", "Only this project, subscribed or not."),),
        problems=(ProjectNotFoundError,),
    ),
    "account-inbox": _operation(
        "What an account sees",
        "Its notifications, as its inbox answers them.",
        DescribedAnswer(200, "A page.", InboxPageAnswer),
        parameters=PAGE_QUERY,
    ),
    "account-mark-read": _operation(
        "Mark notifications as read for an account",
        "They count as bulk-marked, and not as read by the user.",
        DescribedAnswer(200, "How many were unread before.", ReadNotificationsAnswer),
        body=ReadShape,
        body_example={"ids": ["42"]},
        problems=(InvalidInputError,),
    ),
}
