"""Shapes of the inbox's answers."""

from typing import Annotated

from bridge_server.inbox.models import ReadBy
from bridge_server.web.description import (
    ABSENT,
    Account,
    AnswerShape,
    Count,
    Moment,
    ProjectId,
    TypeId,
    text,
)

NotificationId = Annotated[str, text("42")]
Cursor = Annotated[str, text("41..42")]


class SignInNonceAnswer(AnswerShape):
    """A nonce for one sign-in."""

    nonce: Annotated[str, text("f105bc23077db1ca46f4e6afc00558b9")]
    expires_at: Moment


class InboxTokenAnswer(AnswerShape):
    """The bearer token of an account, until it expires or signs out."""

    token: Annotated[str, text("Zm9yIHRoZSBleGFtcGxlIG9ubHk")]
    account: Account
    expires_at: Moment


class AvailableTypeAnswer(AnswerShape):
    """A notification type that a project has."""

    id: TypeId
    name: Annotated[str, text("Price alerts")]


class InboxSubscriptionAnswer(AnswerShape):
    """A project that the account subscribes to."""

    project_id: ProjectId
    project_name: Annotated[str, text("Example App")]
    notification_types: list[TypeId]
    available_types: list[AvailableTypeAnswer]
    unread: Count
    subscribed_at: Moment


class LeftProjectAnswer(AnswerShape):
    """A project that the account has left with unread notifications."""

    project_id: ProjectId
    project_name: Annotated[str, text("Example App")]
    unread: Count


class InboxOverviewAnswer(AnswerShape):
    """The subscriptions of an account."""

    subscriptions: list[InboxSubscriptionAnswer]
    unsubscribed: list[LeftProjectAnswer]


class ChangedSubscriptionAnswer(AnswerShape):
    """The subscription after the change."""

    project_id: ProjectId
    account: Account
    notification_types: list[TypeId]


class InboxNotificationAnswer(AnswerShape):
    """A notification as its account sees it."""

    id: NotificationId
    project_id: ProjectId
    project_name: Annotated[str, text("Example App")]
    type: TypeId
    title: Annotated[str, text("ETH is up")]
    body: Annotated[str, text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, text("https://app.example.org/eth")] | None
    sent_at: Moment
    read: bool
    read_by: ReadBy | None
    read_at: Moment = ABSENT


class InboxPageAnswer(AnswerShape):
    """Notifications, newest first, and the cursors of older and of newer ones."""

    notifications: list[InboxNotificationAnswer]
    next: Cursor | None
    latest: Cursor


class ReadNotificationsAnswer(AnswerShape):
    """The number of notifications that were unread before."""

    read: Count


class RegisteredDeviceAnswer(AnswerShape):
    """A device. Of its address only a webhook's is shown."""

    id: Annotated[str, text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")]
    channel: Annotated[str, text("webhook")]
    address: Annotated[str, text("https://app.example.org/hook")] | None
    created_at: Moment


class RegisteredDevicesAnswer(AnswerShape):
    """The devices of an account."""

    devices: list[RegisteredDeviceAnswer]
