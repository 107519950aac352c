"""The contract's spelling (decisions, section 1) of sign-ins, subscriptions and devices."""

import re
from collections.abc import Sequence
from typing import Annotated, Any, Literal

import orjson
from pydantic import Field

from bridge_server.ethereum.sign_in_message import SignInMessage, SignInMessageError, parse_sign_in_message
from bridge_server.inbox.models import (
    Channel,
    Device,
    InboxSubscription,
    NewDevice,
    NewToken,
    Nonce,
    Overview,
    SignInAttempt,
)
from bridge_server.kernel.errors import Fault
from bridge_server.kernel.fields import http_url
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.models import Subscription, TypeId
from bridge_server.projects.projects import MOST_TYPES
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

SUCCESS = b'{"success":true}'

MESSAGE_MAX_BYTES = 8 * 1024

LOG_ADDRESS = "log:inbox"
"""Where messages for a device go that is only a line in the server's log: a URL that nobody can call."""

_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)


class SignInShape(Shape):
    """The body of POST /inbox/login."""

    message: str
    signature: str


class SubscriptionShape(Shape):
    """The body of PUT /inbox/subscriptions/{project_id}."""

    notification_types: Annotated[list[str], Field(max_length=MOST_TYPES)] | None = None


class DeviceShape(Shape):
    """The body of POST /inbox/devices."""

    channel: Literal["webhook", "log"]
    address: str | None = None


def read_sign_in(document: JsonObject) -> SignInAttempt:
    """A message that breaks no rule of EIP-4361, and 65 bytes that may be its signature."""
    faults: list[Fault] = []
    text, signature = document.values.get("message"), document.values.get("signature")
    message = _parse_message(text, faults) if isinstance(text, str) else None
    if isinstance(signature, str) and not _SIGNATURE.fullmatch(signature):
        faults.append(Fault("#/signature", "must be 0x and 130 hexadecimal digits: r, s and v"))
    shape = check(SignInShape, document.values, faults)
    assert message is not None  # else there is a fault
    return SignInAttempt(shape.message, message, bytes.fromhex(shape.signature[2:]))


def read_wanted_types(values: dict[str, Any]) -> tuple[TypeId, ...] | None:
    """The types that are to be received; None, when they are left out: every one that there is."""
    types = check(SubscriptionShape, values).notification_types
    return None if types is None else tuple(map(TypeId, types))


def read_device(document: JsonObject) -> NewDevice:
    """A device. One in the log has no address of its own."""
    channel, address = document.values.get("channel"), document.values.get("address")
    fault = _address_fault(channel, address)
    shape = check(DeviceShape, document.values, [] if fault is None else [Fault("#/address", fault)])
    return NewDevice(Channel(shape.channel), LOG_ADDRESS if shape.address is None else shape.address)


def write_nonce(nonce: Nonce) -> bytes:
    """The answer to POST /inbox/nonce."""
    return orjson.dumps({"nonce": nonce.text, "expires_at": rfc3339(nonce.expires_at_ms)})


def write_token(token: NewToken) -> bytes:
    """The answer to POST /inbox/login."""
    return orjson.dumps(
        {"token": token.token, "account": token.account, "expires_at": rfc3339(token.expires_at_ms)}
    )


def write_overview(overview: Overview) -> bytes:
    """The answer to GET /inbox/subscriptions.

    `subscriptions` are those that there are, each with its number of unread notifications; `unsubscribed`
    are the projects that the account has left without reading everything.
    """
    leftovers = [
        {"project_id": left.project_id, "project_name": left.project_name, "unread": left.unread}
        for left in overview.leftovers
    ]
    subscriptions = [_subscription(subscription) for subscription in overview.subscriptions]
    return orjson.dumps({"subscriptions": subscriptions, "unsubscribed": leftovers})


def write_subscription(project_id: str, subscription: Subscription) -> bytes:
    """The answer to PUT /inbox/subscriptions/{project_id}."""
    return orjson.dumps(
        {
            "project_id": project_id,
            "account": subscription.account,
            "notification_types": subscription.types,
        }
    )


def write_devices(devices: Sequence[Device]) -> bytes:
    """The answer to GET /inbox/devices."""
    return orjson.dumps({"devices": [_device(device) for device in devices]})


def write_device(device: Device) -> bytes:
    """The answer to POST /inbox/devices."""
    return orjson.dumps(_device(device))


def _parse_message(text: str, faults: list[Fault]) -> SignInMessage | None:
    try:
        if len(text.encode()) > MESSAGE_MAX_BYTES:
            raise SignInMessageError(f"it has more than {MESSAGE_MAX_BYTES} bytes")
        return parse_sign_in_message(text)
    except SignInMessageError as error:
        faults.append(Fault("#/message", f"is no sign-in message (EIP-4361): {error}"))
        return None


def _address_fault(channel: Any, address: Any) -> str | None:
    if channel == Channel.LOG.value and address is not None:
        return "must be left out: the log has no address"
    if channel != Channel.WEBHOOK.value or not isinstance(address, str | None):
        return None
    try:
        http_url(address or "")
    except ValueError as error:
        return str(error)
    return None


def _subscription(subscription: InboxSubscription) -> dict[str, Any]:
    return {
        "project_id": subscription.project_id,
        "project_name": subscription.project_name,
        "notification_types": subscription.types,
        "available_types": [{"id": kind.type_id, "name": kind.name} for kind in subscription.available_types],
        "unread": subscription.unread,
        "subscribed_at": rfc3339(subscription.subscribed_at_ms),
    }


def _device(device: Device) -> dict[str, Any]:
    return {
        "id": device.device_id,
        "channel": device.channel.value,
        "address": device.address if device.channel is Channel.WEBHOOK else None,
        "created_at": rfc3339(device.created_at_ms),
    }
