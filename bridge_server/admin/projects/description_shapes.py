"""Shapes of projects in answers of the admin API."""

from typing import Annotated

from pydantic import Field

from bridge_server.projects.device_states import DeliveryState
from bridge_server.web.description import (
    ABSENT,
    Account,
    AnswerShape,
    Channel,
    Count,
    Moment,
    NextPage,
    ProjectId,
    Rate,
    TypeId,
    count,
    number,
    text,
)

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
    """Notifications that were sent, and how many of them were read. The read rate leaves out "
    "bulk-marked ones."""

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
