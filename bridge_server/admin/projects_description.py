"""Projects described, beyond their rows: with their notifications and accounts."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated, Literal

from pydantic import Field

from bridge_server.admin import projects
from bridge_server.inbox.description import PAGE_QUERY, InboxPageAnswer, ReadNotificationsAnswer
from bridge_server.inbox.wire import ReadShape
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.notify.description import AUDIENCE_EXAMPLE, DRY_RUN, AudienceOutcomeAnswer
from bridge_server.notify.history import (
    DeliveryOutcome,
)
from bridge_server.notify.models import (
    NotificationNotFoundError,
)
from bridge_server.notify.wire import AudienceNotifyShape
from bridge_server.projects.devices import DeliveryState
from bridge_server.projects.models import (
    ProjectExistsError,
    ProjectNotFoundError,
    SecretNotFoundError,
    SubscriptionNotFoundError,
    TooManySecretsError,
    TooManyTypesError,
    TypeExistsError,
    TypeNotFoundError,
)
from bridge_server.projects.service import SubscriptionShape
from bridge_server.web.description import (
    ABSENT,
    Account,
    AnswerShape,
    Channel,
    Count,
    DescribedAnswer,
    Moment,
    NextPage,
    Operation,
    Parameter,
    ProjectId,
    Rate,
    TypeId,
    count,
    done,
    number,
    operation,
    page_parameters,
    text,
)

_operation = partial(operation, "Projects")

# Projects, their types and their subscribers.

Day = Annotated[str, text("2027-01-15", format="date")]
Name = Annotated[str, text("Example App")]
Number = Annotated[int, count(1)]


class AccountLimitAnswer(AnswerShape):
    """How many notifications one account may get. `own` tells a project's own limit from the server's."""

    per_hour: Annotated[float, number(2)]
    burst: Annotated[int, count(50)]
    own: bool


class NotificationTypeAnswer(AnswerShape):
    """A notification type."""

    type_id: TypeId
    name: Annotated[str, text("Price alerts")]
    created_at: Moment


class NotificationTypesAnswer(AnswerShape):
    """The notification types of a project."""

    types: list[NotificationTypeAnswer]


class ProjectAnswer(AnswerShape):
    """A project. `webhook` is the URL that changes of subscriptions are sent to."""

    project_id: ProjectId
    name: Name
    created_at: Moment
    account_limit: AccountLimitAnswer
    webhook: Annotated[str, text("https://app.example.org/subscriptions")] | None


class ListedProjectAnswer(ProjectAnswer):
    """A project with its figures. The read rate is that of the last 30 days, null if nothing counts."""

    types: list[NotificationTypeAnswer]
    subscribers: Count
    sent_today: Count
    read_rate: Rate | None


class ProjectsAnswer(AnswerShape):
    """Projects, oldest first. `next` is there if a page was asked for."""

    projects: list[ListedProjectAnswer]
    next: NextPage | None = ABSENT


class SecretInfoAnswer(AnswerShape):
    """A secret without its text."""

    number: Number
    created_at: Moment


class ProjectSecretAnswer(AnswerShape):
    """A new secret."""

    number: Number
    secret: Annotated[str, text("bsk_Zm9yIHRoZSBleGFtcGxlIG9ubHk")]


class ProjectDetailsAnswer(ProjectAnswer):
    """A project with its types, its secrets without their texts, and its number of subscribers."""

    types: list[NotificationTypeAnswer]
    secrets: list[SecretInfoAnswer]
    subscribers: Count


class NewProjectAnswer(ProjectDetailsAnswer):
    """A new project and its first secret."""

    secret: ProjectSecretAnswer


class ProjectWebhookAnswer(AnswerShape):
    """A webhook for subscriptions, and the secret that its messages are signed with."""

    url: Annotated[str, text("https://app.example.org/subscriptions")]
    signing_secret: Annotated[str, text("whsec_Zm9yIHRoZSBleGFtcGxlIG9ubHk=")]


class SubscriberAnswer(AnswerShape):
    """An account and the types that it has chosen."""

    account: Account
    notification_types: list[TypeId]
    subscribed_at: Moment


class SubscribersAnswer(AnswerShape):
    """A page of subscribers."""

    subscribers: list[SubscriberAnswer]
    next: Account | None


class AccountDeviceAnswer(AnswerShape):
    """A device of an account, without its address."""

    id: Annotated[str, text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")]
    channel: Channel
    created_at: Moment
    state: DeliveryState
    queued: Count
    delivered_at: Moment | None
    failed_at: Moment | None
    error: Annotated[str, text("the receiver answered 500")] | None


class AccountDevicesAnswer(AnswerShape):
    """The devices of an account."""

    devices: list[AccountDeviceAnswer]


class ReadFiguresAnswer(AnswerShape):
    """Notifications that were sent, and how many of them were read. The read rate leaves
    out bulk-marked ones.
    """

    sent: Count
    read: Count
    bulk_marked: Count
    read_rate: Rate | None


class DayFiguresAnswer(ReadFiguresAnswer):
    """The figures of a day."""

    day: Day


class TypeFiguresAnswer(ReadFiguresAnswer):
    """The figures of a type on one day."""

    type_id: TypeId


class TypeAnalyticsAnswer(AnswerShape):
    """The figures of a type, and of each day."""

    type_id: TypeId
    total: ReadFiguresAnswer
    days: list[DayFiguresAnswer]


class DayAnalyticsAnswer(DayFiguresAnswer):
    """The figures of a day, and of each type."""

    types: list[TypeFiguresAnswer]


class ProjectAnalyticsAnswer(AnswerShape):
    """Notifications that were sent in a period, and their reads."""

    project_id: ProjectId
    first_day: Annotated[Day, Field(alias="from")]
    to: Day
    total: ReadFiguresAnswer
    types: list[TypeAnalyticsAnswer]
    by_day: list[DayAnalyticsAnswer]


_DAY = {"type": "string", "format": "date"}

_PROJECTS = {
    "projects": _operation(
        "List projects",
        "Projects with their types, subscribers and figures, oldest first. Without `after` and `limit` it "
        "lists all of them, and the answer has no `next`.",
        DescribedAnswer(200, "The projects.", ProjectsAnswer),
        parameters=page_parameters(),
    ),
    "create-project": _operation(
        "Create a project",
        "Makes a project for an app, and its first secret, which is shown only in this answer.",
        DescribedAnswer(200, "The project and its secret.", NewProjectAnswer),
        body=projects.ProjectShape,
        body_example={"name": "Example App", "project_id": "example-app"},
        problems=(ProjectExistsError,),
    ),
    "project": _operation(
        "Show a project",
        "A project with its types, its secrets without their texts, and its number of subscribers.",
        DescribedAnswer(200, "The project.", ProjectDetailsAnswer),
        problems=(ProjectNotFoundError,),
    ),
    "delete-project": _operation(
        "Delete a project",
        "Deletes it with its subscribers, its notifications and its figures.",
        *done("It is deleted."),
        problems=(ProjectNotFoundError,),
    ),
    "rotate-secret": _operation(
        "Make another secret",
        "A project may have two secrets, so that its backend can change from one to the other.",
        DescribedAnswer(200, "The secret, which is shown only in this answer.", ProjectSecretAnswer),
        problems=(ProjectNotFoundError, TooManySecretsError),
    ),
    "revoke-secret": _operation(
        "Revoke a secret",
        "The secret is refused from now on.",
        *done("It is revoked."),
        parameters=(Parameter("number", "The number of a secret.", place="path", example="1"),),
        problems=(ProjectNotFoundError, SecretNotFoundError),
    ),
    "limit-accounts": _operation(
        "Set a project's own limit per account",
        "How many notifications the project may send to one account: an average per hour, and a burst.",
        DescribedAnswer(200, "The limit.", AccountLimitAnswer),
        body=projects.AccountLimitShape,
        body_example={"per_hour": 4, "burst": 20},
        problems=(ProjectNotFoundError,),
    ),
    "reset-account-limit": _operation(
        "Remove a project's own limit per account",
        "The server's limit holds again.",
        *done("It is removed."),
        problems=(ProjectNotFoundError,),
    ),
    "set-project-webhook": _operation(
        "Set the webhook for subscriptions",
        "Each change of a subscription is sent there, signed with the secret of the answer.",
        DescribedAnswer(
            200, "The webhook, and its secret, which is shown only in this answer.", ProjectWebhookAnswer
        ),
        body=projects.WebhookShape,
        body_example={"url": "https://app.example.org/subscriptions"},
        problems=(ProjectNotFoundError,),
    ),
    "remove-project-webhook": _operation(
        "Remove the webhook for subscriptions",
        "Changes are sent no more.",
        *done("It is removed."),
        problems=(ProjectNotFoundError,),
    ),
    "analytics": _operation(
        "Show analytics",
        "Notifications that were sent in a period, and how many of them were read, by type and by day.",
        DescribedAnswer(200, "The figures.", ProjectAnalyticsAnswer),
        parameters=(
            Parameter("from", "The first day; by default 29 days before the last one.", _DAY),
            Parameter("to", "The last day; by default today. At most 366 days are counted.", _DAY),
        ),
        problems=(ProjectNotFoundError,),
    ),
}
_TYPES = {
    "types": _operation(
        "List notification types",
        "The types of notifications that accounts may choose.",
        DescribedAnswer(200, "The types.", NotificationTypesAnswer),
        problems=(ProjectNotFoundError,),
    ),
    "add-type": _operation(
        "Add a notification type",
        "Without `type_id` the id is made from the name.",
        DescribedAnswer(200, "The type.", NotificationTypeAnswer),
        body=projects.TypeShape,
        body_example={"name": "Price alerts", "type_id": "price-alert"},
        problems=(ProjectNotFoundError, TypeExistsError, TooManyTypesError),
    ),
    "rename-type": _operation(
        "Rename a notification type",
        "The id stays.",
        DescribedAnswer(200, "The type.", NotificationTypeAnswer),
        body=projects.TypeNameShape,
        body_example={"name": "Prices"},
        problems=(ProjectNotFoundError, TypeNotFoundError),
    ),
    "remove-type": _operation(
        "Remove a notification type",
        "Accounts that have chosen it receive the others. Notifications that were sent stay.",
        *done("It is removed."),
        problems=(ProjectNotFoundError, TypeNotFoundError),
    ),
}
_SUBSCRIBERS = {
    "project-subscribers": _operation(
        "List subscribers",
        "Subscribers with the types that they have chosen, in the order of their accounts.",
        DescribedAnswer(200, "A page.", SubscribersAnswer),
        parameters=(
            *page_parameters(),
            Parameter("search", "Only this account, this address, or accounts that begin so."),
        ),
        problems=(ProjectNotFoundError,),
    ),
    "subscribe-account": _operation(
        "Subscribe an account",
        "Subscribes the account, or changes its types. Without types it is all of them, later types too.",
        DescribedAnswer(200, "The subscription.", SubscriberAnswer),
        body=SubscriptionShape,
        body_example={"notification_types": ["price-alert"]},
        body_is_optional=True,
        problems=(ProjectNotFoundError,),
    ),
    "unsubscribe-account": _operation(
        "Unsubscribe an account",
        "Ends a subscription.",
        *done("The account does not subscribe any more."),
        problems=(InvalidInputError, ProjectNotFoundError, SubscriptionNotFoundError),
    ),
    "account-devices": _operation(
        "Show the devices of an account",
        "The state of deliveries to each device of an account, without addresses.",
        DescribedAnswer(200, "The devices.", AccountDevicesAnswer),
        problems=(InvalidInputError,),
    ),
}

# Notifications.

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


_NOTIFICATIONS = {
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
        "page may be short, or empty, although `next` says that more may follow.",
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
        body=AudienceNotifyShape,
        body_example=AUDIENCE_EXAMPLE,
        parameters=(DRY_RUN,),
        problems=(ProjectNotFoundError,),
    ),
}


# Accounts.


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


_account_operation = partial(operation, "Accounts")


_ACCOUNTS = {
    "account": _account_operation(
        "Why an account did not get a notification",
        "For each project of the account, or for the named project: its subscription, its limit, and its "
        "last ten notifications with their outcomes; the state of its devices, and messages that wait for "
        "them.",
        DescribedAnswer(200, "The account.", AccountViewAnswer),
        parameters=(Parameter("project_id", "Only this project, subscribed or not."),),
        problems=(ProjectNotFoundError,),
    ),
    "account-inbox": _account_operation(
        "What an account sees",
        "Its notifications, as its inbox answers them.",
        DescribedAnswer(200, "A page.", InboxPageAnswer),
        parameters=PAGE_QUERY,
    ),
    "account-mark-read": _account_operation(
        "Mark notifications as read for an account",
        "They count as bulk-marked, and not as read by the user.",
        DescribedAnswer(200, "How many were unread before.", ReadNotificationsAnswer),
        body=ReadShape,
        body_example={"ids": ["42"]},
        problems=(InvalidInputError,),
    ),
}

PROJECT_OPERATIONS: Mapping[str, Operation] = {
    **_PROJECTS,
    **_TYPES,
    **_SUBSCRIBERS,
    **_NOTIFICATIONS,
    **_ACCOUNTS,
}
