"""Notices in the outbox: what a device is to show, as the JSON body of an outgoing message."""

from typing import Any

import orjson

from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.push.languages import request_text, shown_name
from bridge_server.push.models import PushNotice, Registration

REQUEST = "request"
"""The event of a notice that tells a client of a new request on its topic."""

PUSH = Purpose("push")
"""The purpose of a push to a registered client: its subject is the client's topic."""

_TEXTS = ("title", "body", "url")
_DATA_NAMES = {"id": "notification_id"}
"""Where a name has a meaning of its own: there the id is that of the push."""


def write_request(registration: Registration, message_id: str, client: str | None = None) -> OutgoingMessage:
    """A new request, told in the client's language. `client` is the address that caused it."""
    text = request_text(registration.language, registration.peer_name)
    notice = {
        "event": REQUEST,
        "title": shown_name(registration.peer_name) or text,
        "body": text,
        "topic": registration.topic,
        "bridge": registration.bridge,
    }
    address = registration.address
    return OutgoingMessage(
        message_id,
        address.url,
        orjson.dumps(notice),
        PUSH,
        lane=address.lane,
        client=client,
        subject=registration.topic,
    )


def read_notice(message: OutgoingMessage) -> PushNotice:
    """What a device is to show, from any notice that has a title and a body: the rest of it is data."""
    notice: dict[str, Any] = orjson.loads(message.body)
    return PushNotice(
        message_id=message.message_id,
        title=notice["title"],
        body=notice["body"],
        url=notice.get("url"),
        data={
            _DATA_NAMES.get(name, name): str(value)
            for name, value in notice.items()
            if name not in _TEXTS and value is not None
        },
    )
