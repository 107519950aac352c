"""The accounts' routes of the admin API described."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from bridge_server.admin.notifications.description import OutcomeMoments
from bridge_server.admin.projects.description_shapes import AccountDevice, AccountLimit, Subscriber
from bridge_server.inbox.description import PAGE_QUERY, InboxPage, ReadNotifications
from bridge_server.inbox.notification_wire import ReadShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.errors import ProjectNotFoundError
from bridge_server.web.description import (
    Account,
    Answer,
    AnswerShape,
    Channel,
    Count,
    Moment,
    Operation,
    Parameter,
    ProjectId,
    TypeId,
    count,
    number,
    text,
)


class AccountBucket(AnswerShape):
    """What is left of a project's limit for an account."""

    tokens: Annotated[float, number(50)]
    full_at: Moment | None
    next_token_at: Moment | None


class AccountNotification(OutcomeMoments):
    """A notification, and what became of it for the account."""

    number: Annotated[int, count(42)]
    type: TypeId
    title: Annotated[str, text("ETH is up")]


class AccountProject(AnswerShape):
    """An account in a project."""

    project_id: ProjectId
    name: Annotated[str, text("Example App")]
    subscribed: bool
    subscription: Subscriber | None
    account_limit: AccountLimit
    bucket: AccountBucket
    notifications: list[AccountNotification]


class DeviceDelivery(AnswerShape):
    """A message to a device that waits, or has failed."""

    device_id: Annotated[str, text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")] | None
    channel: Channel
    project_id: ProjectId | None
    state: Literal["failed", "waiting"]
    attempts: Count
    created_at: Moment
    next_attempt_at: Moment | None
    error: Annotated[str, text("the receiver answered 500")] | None


class AccountView(AnswerShape):
    """What is known of an account. Devices are without their addresses."""

    account: Account
    projects: list[AccountProject]
    devices: list[AccountDevice]
    deliveries: list[DeviceDelivery]


def _operation(summary: str, description: str, *answers: Answer, **more: Any) -> Operation:
    return Operation(tag="Accounts", summary=summary, text=description, answers=answers, **more)


ACCOUNT_OPERATIONS: Mapping[str, Operation] = {
    "account": _operation(
        "Why an account did not get a notification",
        "For each project of the account, or for the one that is named: its subscription, its limit, and its "
        "last ten notifications with their outcomes; the state of its devices, and messages that wait for "
        "them.",
        Answer(200, "What is known of the account.", AccountView),
        parameters=(Parameter("project_id", "Only this project, subscribed or not."),),
        problems=(ProjectNotFoundError,),
    ),
    "account-inbox": _operation(
        "What an account sees",
        "Its notifications, as its inbox answers them.",
        Answer(200, "A page.", InboxPage),
        parameters=PAGE_QUERY,
    ),
    "account-mark-read": _operation(
        "Mark notifications as read for an account",
        "They count as bulk-marked, and not as read by the user.",
        Answer(200, "How many were unread before.", ReadNotifications),
        body=ReadShape,
        body_example={"ids": ["42"]},
        problems=(InvalidInputError,),
    ),
}
