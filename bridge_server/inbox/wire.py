"""JSON of sign-ins, subscriptions and devices (docs/protocol.md, A.7)."""

import re
from collections.abc import Sequence
from typing import Annotated, Any

import orjson
from pydantic import PlainValidator, WithJsonSchema

from bridge_server.ethereum.sign_in_message import SignInMessage, SignInMessageError, parse_sign_in_message
from bridge_server.inbox.devices import DeviceChannels
from bridge_server.inbox.models import (
    Device,
    InboxSubscription,
    NewDevice,
    NewToken,
    Nonce,
    Overview,
    SignInAttempt,
)
from bridge_server.kernel.errors import Fault, InvalidInputError
from bridge_server.kernel.fields import PUSH_TOKEN_MAX_CHARACTERS
from bridge_server.kernel.instants import rfc3339
from bridge_server.projects.models import Subscription
from bridge_server.web.json_body import JsonObject
from bridge_server.web.shapes import Shape, check

SUCCESS = b'{"success":true}'

MESSAGE_MAX_BYTES = 8 * 1024

_LOG = "log"
_WEBHOOK = "webhook"
_WEBPUSH = "webpush"
_SIGNATURE = re.compile(r"0x[0-9a-fA-F]{130}", re.ASCII)


class SignInShape(Shape):
    """The body of POST /inbox/login."""

    message: str
    signature: Annotated[str, WithJsonSchema({"type": "string", "pattern": f"^{_SIGNATURE.pattern}$"})]


def _address(value: Any) -> Any:
    if not isinstance(value, str | dict | None):
        raise ValueError("must be a string, or the object that a browser's Push API gives")
    return value


_ADDRESSES = {"type": ["string", "object", "null"]}


class DeviceShape(Shape):
    """The body of POST /inbox/devices."""

    channel: str
    address: Annotated[Any, PlainValidator(_address), WithJsonSchema(_ADDRESSES)] = None


def read_sign_in(document: JsonObject) -> SignInAttempt:
    """Read a sign-in: a valid EIP-4361 message, and a signature of 65 bytes that is not verified yet."""
    faults: list[Fault] = []
    text, signature = document.values.get("message"), document.values.get("signature")
    message = _parse_message(text, faults) if isinstance(text, str) else None
    if isinstance(signature, str) and not _SIGNATURE.fullmatch(signature):
        faults.append(Fault("#/signature", "must be 0x and 130 hexadecimal digits: r, s and v"))
    shape = check(SignInShape, document.values, faults)
    assert message is not None  # check() has raised otherwise
    return SignInAttempt(shape.message, message, bytes.fromhex(shape.signature[2:]))


def read_device(document: JsonObject, channels: DeviceChannels) -> NewDevice:
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
    return NewDevice(channel, address.url, address.lane)


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

    `subscriptions` have their numbers of unread notifications; `unsubscribed` are projects that the account
    has left with unread notifications.
    """
    unsubscribed = [
        {"project_id": left.project_id, "project_name": left.project_name, "unread": left.unread}
        for left in overview.unsubscribed
    ]
    subscriptions = [_subscription(subscription) for subscription in overview.subscriptions]
    return orjson.dumps({"subscriptions": subscriptions, "unsubscribed": unsubscribed})


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


def _invalid(field: str, detail: str) -> InvalidInputError:
    return InvalidInputError(f"The body has a fault at #/{field}.", [Fault(f"#/{field}", detail)])


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
        "channel": device.channel,
        "address": device.url if device.channel == _WEBHOOK else None,  # tokens of other channels are secret
        "created_at": rfc3339(device.created_at_ms),
    }
