"""JSON of the inbox (docs/protocol.md, A.7): sign-ins, subscriptions, devices, notifications."""

import re
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NotRequired

import orjson
from pydantic import Field, PlainValidator, WithJsonSchema

from bridge_server.ethereum.sign_in_message import SignInMessage, SignInMessageError, parse_sign_in_message
from bridge_server.inbox import models
from bridge_server.inbox.devices import DeviceChannels
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.models import PROJECT_ID_PATTERN, ProjectId, Subscription
from bridge_server.web.bodies import JsonObject, Shape, check
from bridge_server.web.routes import Parameter
from bridge_server.web.shapes import Account, Count, Moment, TypedDict, TypeId, text
from bridge_server.web.shapes import ProjectId as SpelledProjectId

MESSAGE_MAX_BYTES = 8 * 1024

MOST_MARKED = 500
MOST_ON_A_PAGE = 100
USUAL_ON_A_PAGE = 50

_LOG = "log"
_WEBHOOK = "webhook"
_WEBPUSH = "webpush"

_ADDRESS_SCHEMA = {"type": ["string", "object", "null"]}
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)

_NUMBER = re.compile(r"0|[1-9][0-9]{0,17}", re.ASCII)
_CURSOR = re.compile(r"([0-9]{1,18})\.([0-9]{0,18})\.([0-9]{1,18})", re.ASCII)
_TRUTH = {"true": True, "false": False}

_QUERY = {
    "project_id": (
        re.compile(PROJECT_ID_PATTERN, re.ASCII),
        "must be the id of a project: a-z, 0-9 and hyphens",
    ),
    "unread": (re.compile("true|false"), "must be true or false"),
    "after": (_CURSOR, "must be `next` or `latest` of an earlier answer"),
    "limit": (re.compile("[1-9][0-9]?|100", re.ASCII), f"must be 1 to {MOST_ON_A_PAGE}"),
}

PAGE_QUERY = (
    Parameter(
        "project_id", "Only notifications of this project.",
        {"type": "string", "pattern": f"^{PROJECT_ID_PATTERN}$"},
    ),
    Parameter("unread", "Only unread ones, or only read ones.", {"enum": ["true", "false"]}),
    Parameter(
        "after", "`next` of an earlier answer continues with older ones, `latest` asks for newer ones."
    ),
    Parameter(
        "limit", "How many at most.",
        {"type": "integer", "minimum": 1, "maximum": MOST_ON_A_PAGE, "default": USUAL_ON_A_PAGE},
        example="20",
    ),
)  # fmt: skip
"""The parameters that `read_query` reads."""


class SignInShape(Shape):
    """The body of POST /inbox/login."""

    message: str
    signature: Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{_SIGNATURE.pattern}$"})]


def _checked_address(value: Any) -> Any:
    if not isinstance(value, str | dict | None):
        raise ValueError("must be a string, or the object that a browser's Push API gives")
    return value


class DeviceShape(Shape):
    """The body of POST /inbox/devices."""

    channel: str
    address: Annotated[Any, PlainValidator(_checked_address), WithJsonSchema(_ADDRESS_SCHEMA)] = None


class ReadShape(Shape):
    """The body of POST /inbox/notifications/read."""

    ids: Annotated[list[str], Field(min_length=1, max_length=MOST_MARKED)]


def read_sign_in(document: JsonObject) -> tuple[str, SignInMessage, bytes]:
    """A valid EIP-4361 message, as text and parsed, and its signature of 65 bytes, which is not verified."""
    faults: list[Fault] = []
    text, signature = document.values.get("message"), document.values.get("signature")
    message = _parse_message(text, faults) if isinstance(text, str) else None
    if isinstance(signature, str) and not _SIGNATURE.fullmatch(signature):
        faults.append(Fault("#/signature", "must be 0x and 130 hexadecimal digits: r, s and v"))
    shape = check(SignInShape, document.values, faults)
    assert message is not None  # check() has raised otherwise
    return shape.message, message, bytes.fromhex(shape.signature[2:])


def _parse_message(text: str, faults: list[Fault]) -> SignInMessage | None:
    try:
        if len(text.encode()) > MESSAGE_MAX_BYTES:
            raise SignInMessageError(f"it has more than {MESSAGE_MAX_BYTES} bytes")
        return parse_sign_in_message(text)
    except SignInMessageError as error:
        faults.append(Fault("#/message", f"is no sign-in message (EIP-4361): {error}"))
        return None


def read_device(document: JsonObject, channels: DeviceChannels) -> models.NewDevice:
    """Read a device: a configured channel and an address in its form. The channel `log` has no address."""
    shape = check(DeviceShape, document.values)
    channel = channels.named(shape.channel)
    if channel is None:
        raise _invalid("channel", f"is not a configured channel: choose from {', '.join(channels.names)}")
    if (channel == _LOG) != (shape.address is None):
        raise _invalid("address", "must be left out: the log has none" if channel == _LOG else "is missing")
    if isinstance(shape.address, dict) and channel != _WEBPUSH:
        raise _invalid("address", "must be a string")
    token = orjson.dumps(shape.address).decode() if isinstance(shape.address, dict) else shape.address or ""
    if len(token) > PUSH_TOKEN_MAX_CHARACTERS:
        raise _invalid("address", f"must have at most {PUSH_TOKEN_MAX_CHARACTERS} characters")
    try:
        address = channels.address(channel, token)
    except ValueError as error:
        raise _invalid("address", str(error)) from error
    return models.NewDevice(channel, address.url, address.lane)


def _invalid(field: str, detail: str) -> InvalidInputError:
    return InvalidInputError(f"The body has a fault at #/{field}.", [Fault(f"#/{field}", detail)])


def read_ids(document: JsonObject) -> list[int]:
    """Read the ids of notifications. A malformed id is ignored, because no notification has it."""
    return [int(text) for text in check(ReadShape, document.values).ids if _NUMBER.fullmatch(text)]


def read_query(query: Mapping[str, str]) -> models.NotificationQuery:
    """Read the query string `?project_id=&unread=&after=&limit=`; each parameter is optional. `unread=true`
    selects unread notifications, `unread=false` read ones.
    """
    names = [name for name, _ in query.items()]
    faults = [
        Fault(f"#/{name}", expectation if names.count(name) == 1 else "must be given once")
        for name, (pattern, expectation) in _QUERY.items()
        if name in names and (names.count(name) > 1 or not pattern.fullmatch(query[name]))
    ]
    if faults:
        raise InvalidInputError("The query has parameters that cannot be read.", faults)
    project_id, cursor = query.get("project_id"), models.Cursor()
    found = _CURSOR.fullmatch(query.get("after", ""))
    if found is not None:
        since, before, top = found.groups()
        cursor = models.Cursor(int(since), int(before) if before else None, int(top))
    chosen = None if project_id is None else ProjectId(project_id)
    unread = _TRUTH.get(query.get("unread", ""))
    return models.NotificationQuery(chosen, unread, cursor, int(query.get("limit", USUAL_ON_A_PAGE)))


def read_last_event(header: str | None, parameter: str | None) -> int | None:
    """Read the id of the last received event, from the browser's header or the page's query parameter."""
    text = header or parameter
    if text and not _NUMBER.fullmatch(text):
        raise InvalidInputError("Last-Event-ID must be the id of an event of this stream, or left out.")
    return int(text) if text else None


class SignInNonceAnswer(TypedDict):
    """A nonce for one sign-in."""

    nonce: Annotated[str, text("f105bc23077db1ca46f4e6afc00558b9")]
    expires_at: Moment


class InboxTokenAnswer(TypedDict):
    """The bearer token of an account, until it expires or signs out."""

    token: Annotated[str, text("Zm9yIHRoZSBleGFtcGxlIG9ubHk")]
    account: Account
    expires_at: Moment


class AvailableTypeAnswer(TypedDict):
    """A notification type that a project has."""

    id: TypeId
    name: Annotated[str, text("Price alerts")]


class InboxSubscriptionAnswer(TypedDict):
    """A project that the account subscribes to."""

    project_id: SpelledProjectId
    project_name: Annotated[str, text("Example App")]
    notification_types: Sequence[TypeId]
    available_types: list[AvailableTypeAnswer]
    unread: Count
    subscribed_at: Moment


class LeftProjectAnswer(TypedDict):
    """A project that the account has left with unread notifications."""

    project_id: SpelledProjectId
    project_name: Annotated[str, text("Example App")]
    unread: Count


class InboxOverviewAnswer(TypedDict):
    """The subscriptions of an account."""

    subscriptions: list[InboxSubscriptionAnswer]
    unsubscribed: list[LeftProjectAnswer]


class ChangedSubscriptionAnswer(TypedDict):
    """The subscription after the change."""

    project_id: SpelledProjectId
    account: Account
    notification_types: Sequence[TypeId]


class InboxNotificationAnswer(TypedDict):
    """A notification as its account sees it."""

    id: Annotated[str, text("42")]
    project_id: SpelledProjectId
    project_name: Annotated[str, text("Example App")]
    type: TypeId
    title: Annotated[str, text("ETH is up")]
    body: Annotated[str, text("1 ETH costs 4,000 USD.")]
    url: Annotated[str, text("https://app.example.org/eth")] | None
    sent_at: Moment
    read: bool
    read_by: models.ReadBy | None
    read_at: NotRequired[Moment]


class InboxPageAnswer(TypedDict):
    """Notifications, newest first, and the cursors of older and of newer ones."""

    notifications: list[InboxNotificationAnswer]
    next: Annotated[str, text("41..42")] | None
    latest: Annotated[str, text("41..42")]


class ReadNotificationsAnswer(TypedDict):
    """The number of notifications that were unread before."""

    read: Count


class RegisteredDeviceAnswer(TypedDict):
    """A device. Of its address only a webhook's is shown."""

    id: Annotated[str, text("0192f7c8-9b3e-7a51-8c2d-6e4f1a2b3c4d")]
    channel: Annotated[str, text("webhook")]
    address: Annotated[str, text("https://app.example.org/hook")] | None
    created_at: Moment


class RegisteredDevicesAnswer(TypedDict):
    """The devices of an account."""

    devices: list[RegisteredDeviceAnswer]


def overview_fields(overview: models.Overview) -> InboxOverviewAnswer:
    return {
        "subscriptions": [
            {
                "project_id": each.project_id,
                "project_name": each.project_name,
                "notification_types": each.types,
                "available_types": [{"id": kind.type_id, "name": kind.name} for kind in each.available_types],
                "unread": each.unread,
                "subscribed_at": rfc3339(each.subscribed_at_ms),
            }
            for each in overview.subscriptions
        ],
        "unsubscribed": [
            {"project_id": left.project_id, "project_name": left.project_name, "unread": left.unread}
            for left in overview.unsubscribed
        ],
    }


def subscription_fields(project_id: str, subscription: Subscription) -> ChangedSubscriptionAnswer:
    """The subscription of an account to a project."""
    return {
        "project_id": project_id,
        "account": subscription.account,
        "notification_types": subscription.types,
    }


def device_fields(device: models.Device) -> RegisteredDeviceAnswer:
    return {
        "id": device.device_id,
        "channel": device.channel,
        "address": device.url if device.channel == _WEBHOOK else None,  # tokens of other channels are secret
        "created_at": rfc3339(device.created_at_ms),
    }


def page_fields(page: models.Page) -> InboxPageAnswer:
    """A page with the cursors of the earlier and of the later notifications."""
    return {
        "notifications": [_notification(notification) for notification in page.notifications],
        "next": None if page.next is None else _spell_cursor(page.next),
        "latest": _spell_cursor(page.latest),
    }


def _spell_cursor(cursor: models.Cursor) -> str:
    return f"{cursor.since}.{'' if cursor.before is None else cursor.before}.{cursor.top}"


def _notification(notification: models.StoredNotification) -> InboxNotificationAnswer:
    """A notification in JSON. `read_at` is missing after mark-all-as-read, whose time is not stored."""
    fields: InboxNotificationAnswer = {
        "id": str(notification.sending),
        "project_id": notification.project_id,
        "project_name": notification.project_name,
        "type": notification.type_id,
        "title": notification.title,
        "body": notification.body,
        "url": notification.url,
        "sent_at": rfc3339(notification.sent_at_ms),
        "read": notification.read_by is not None,
        "read_by": notification.read_by,
    }
    if notification.read_by is models.ReadBy.USER and notification.read_at_ms is not None:
        fields["read_at"] = rfc3339(notification.read_at_ms)
    return fields


def write_event(notification: models.StoredNotification) -> bytes:
    """A notification as an event of GET /inbox/stream."""
    data = orjson.dumps(_notification(notification))
    return b"id: %d\nevent: notification\ndata: %b\n\n" % (notification.sending, data)
