"""The inbox described, beyond its rows (docs/protocol.md, A.7)."""

from collections.abc import Mapping
from functools import partial
from typing import Annotated

from bridge_server.inbox import wire
from bridge_server.inbox.models import (
    DeviceNotFoundError,
    ReadBy,
    SignInRefusedError,
    TooManyDevicesError,
    TooManyStreamsError,
)
from bridge_server.kernel.errors import InvalidInputError
from bridge_server.projects.models import (
    PROJECT_ID_PATTERN,
    ProjectNotFoundError,
    SubscriptionNotFoundError,
)
from bridge_server.projects.service import SubscriptionShape
from bridge_server.web.shapes import (
    ABSENT,
    EVENTS,
    HTML,
    Account,
    AnswerShape,
    Count,
    DescribedAnswer,
    Moment,
    Operation,
    Parameter,
    ProjectId,
    TypeId,
    done,
    operation,
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


_TAG = "Inbox"
_MESSAGE = """\
bridge.example.org wants you to sign in with your Ethereum account:
0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb

Read my notifications.

URI: https://bridge.example.org
Version: 1
Chain ID: 1
Nonce: f105bc23077db1ca46f4e6afc00558b9
Issued At: 2027-01-15T08:00:00Z"""

_PROJECT_ID = {"type": "string", "pattern": f"^{PROJECT_ID_PATTERN}$"}

PAGE_QUERY = (
    Parameter("project_id", "Only notifications of this project.", _PROJECT_ID),
    Parameter("unread", "Only unread ones, or only read ones.", {"enum": ["true", "false"]}),
    Parameter(
        "after", "`next` of an earlier answer continues with older ones, `latest` asks for newer ones."
    ),
    Parameter(
        "limit",
        "How many at most.",
        {"type": "integer", "minimum": 1, "maximum": 100, "default": 50},
        example="20",
    ),
)
_EVENT = 'id: 42\nevent: notification\ndata: {"id": "42", "title": "ETH is up"}\n\n'


_operation = partial(operation, _TAG)

INBOX_OPERATIONS: Mapping[str, Operation] = {
    "inbox-nonce": _operation(
        "Get a nonce",
        "The first step of a sign-in. A nonce is good for one sign-in, and for a few minutes.",
        DescribedAnswer(200, "The nonce.", SignInNonceAnswer),
    ),
    "inbox-login": _operation(
        "Sign in",
        "Takes a sign-in message (EIP-4361) that the account has signed with `personal_sign`. Its domain and "
        "URI must be this server's own or one of `inbox_origins`, and its nonce unused. Clients without a "
        "body of JSON get a 400.",
        DescribedAnswer(200, "The token of the account.", InboxTokenAnswer),
        body=wire.SignInShape,
        body_example={"message": _MESSAGE, "signature": "0x" + "1b" * 65},
        problems=(SignInRefusedError,),
    ),
    "inbox-logout": _operation(
        "Sign out",
        "The token ends at once.",
        *done("The token has ended."),
    ),
    "inbox-subscriptions": _operation(
        "List subscriptions",
        "The projects that the account subscribes to, with the number of unread notifications; and those "
        "that it has left with unread notifications.",
        DescribedAnswer(200, "The subscriptions.", InboxOverviewAnswer),
    ),
    "inbox-subscribe": _operation(
        "Subscribe, or change types",
        "Subscribes the account to a project, or changes the types that it has chosen. Without types it is "
        "all of them, those made later too.",
        DescribedAnswer(200, "The subscription.", ChangedSubscriptionAnswer),
        body=SubscriptionShape,
        body_example={"notification_types": ["price-alert"]},
        body_is_optional=True,
        problems=(ProjectNotFoundError,),
    ),
    "inbox-unsubscribe": _operation(
        "Unsubscribe",
        "Ends the subscription. Notifications that the account has received stay.",
        *done("The account does not subscribe any more."),
        problems=(ProjectNotFoundError, SubscriptionNotFoundError),
    ),
    "inbox-notifications": _operation(
        "List notifications",
        "Notifications, newest first. With `latest` as `after` and `Prefer: wait` the answer comes with the "
        "next notification.",
        DescribedAnswer(200, "A page.", InboxPageAnswer),
        parameters=PAGE_QUERY,
        polls=True,
    ),
    "inbox-mark-read": _operation(
        "Mark notifications as read",
        "Marks at most 500 notifications as read by the user, which counts in the app's read rate. Ids that "
        "the account does not have are ignored.",
        DescribedAnswer(200, "How many were unread before.", ReadNotificationsAnswer),
        body=wire.ReadShape,
        body_example={"ids": ["42"]},
    ),
    "inbox-stream": _operation(
        "Receive notifications as they come",
        "Server-sent events `notification`, each with a notification as its data. The stream continues after "
        "`Last-Event-ID`.",
        DescribedAnswer(
            200, "The stream, which does not end by itself.", Annotated[str, text(_EVENT)], EVENTS
        ),
        parameters=(
            Parameter("Last-Event-ID", "The id of the last event that was received.", place="header"),
            Parameter("last_event_id", "As `Last-Event-ID`, for a page that opens its first stream."),
        ),
        problems=(TooManyStreamsError,),
        extensions={"x-event-stream": True},
    ),
    "inbox-devices": _operation(
        "List devices",
        "The devices to which notifications are delivered.",
        DescribedAnswer(200, "The devices.", RegisteredDevicesAnswer),
    ),
    "inbox-add-device": _operation(
        "Register a device",
        "`channel` is `fcm`, `apns`, `webpush`, `webhook` or `log`, as far as the operator has configured "
        "them. `address` is a token, a URL, or the object that a browser's Push API gives; `log` has none.",
        DescribedAnswer(200, "The device.", RegisteredDeviceAnswer),
        body=wire.DeviceShape,
        body_example={"channel": "log"},
        problems=(TooManyDevicesError,),
    ),
    "inbox-remove-device": _operation(
        "Remove a device",
        "Nothing is delivered to it any more.",
        *done("It is removed."),
        problems=(DeviceNotFoundError,),
    ),
    "inbox-page": _operation(
        "The inbox as a page",
        "A page that shows an account its notifications, of one project or of all.",
        DescribedAnswer(200, "The page.", str, HTML),
        parameters=(
            Parameter(
                "project",
                "The project; without it, all of them.",
                _PROJECT_ID,
                example="example-app",
            ),
        ),
        problems=(InvalidInputError,),
        needs_database=False,
    ),
    "inbox-widget": _operation(
        "The web component `<bridge-inbox>`",
        "An ES module without dependencies, which web pages of configured origins may load.",
        DescribedAnswer(200, "The script.", str, "text/javascript"),
        DescribedAnswer(304, "It has not changed since the ETag of If-None-Match."),
        needs_database=False,
    ),
}
