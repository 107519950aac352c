"""Notices: the content of a push as the JSON body of an outgoing message in the outbox."""

from typing import Any

import orjson

from bridge_server.outbox.models import OutgoingMessage, Purpose
from bridge_server.push.languages import request_text, shown_name
from bridge_server.push.models import PushNotice, Registration

REQUEST = "request"
"""The `event` of a notice about a new request on the client's topic."""

PUSH = Purpose("push")
"""The purpose of a push to a registered client: its subject is the client's topic."""

_TEXTS = ("title", "body", "url")
_DATA_NAMES = {"id": "notification_id"}
"""Names that change in the data of a push, where `id` is the id of the push itself."""


def write_request(registration: Registration, message_id: str, client: str | None = None) -> OutgoingMessage:
    """The notice of a new request, in the client's language. `client` is the address that caused it."""
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
    """The push of a notice that has a title and a body; its other members become data."""
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
