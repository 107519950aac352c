"""The header fields and the payload of a notification for APNs.

https://developer.apple.com/documentation/usernotifications/sending-notification-requests-to-apns
"""

import re
from hashlib import sha256
from uuid import UUID, uuid5

import orjson

from bridge_server.push.models import PushNotice

PAYLOAD_LIMIT_BYTES = 4_096

_COLLAPSE_ID = re.compile(r"[!-~]{1,64}")
_NAMES = UUID("6fcb514b-b878-4c9d-95b7-8dc3a7ce6fd8")  # the namespace of apns-ids, a random UUID


def headers(notice: PushNotice, topic: str, now_ms: int) -> list[tuple[str, str]]:
    """The header fields of the request that describe the notification."""
    return [
        ("apns-topic", topic),
        ("apns-push-type", "alert"),
        ("apns-priority", "10"),
        ("apns-expiration", expiration(notice.ttl_seconds, now_ms)),
        ("apns-collapse-id", collapse_id(notice.message_id)),
        ("apns-id", str(uuid5(_NAMES, notice.message_id))),
    ]


def payload(notice: PushNotice) -> bytes:
    """The JSON that the app receives. Members of `data` cannot replace the members of this server."""
    url = {} if notice.url is None else {"url": notice.url}
    return orjson.dumps(
        {
            **notice.data,
            "aps": {"alert": {"title": notice.title, "body": notice.body}, "sound": "default"},
            "id": notice.message_id,
            **url,
        }
    )


def expiration(ttl_seconds: int, now_ms: int) -> str:
    """The time after which APNs may drop it, in seconds since the Unix epoch; 0: never store it."""
    return "0" if ttl_seconds <= 0 else str(now_ms // 1_000 + ttl_seconds)


def collapse_id(message_id: str) -> str:
    """An id of at most 64 bytes, the same in every attempt, so that a repeat replaces the notification."""
    return message_id if _COLLAPSE_ID.fullmatch(message_id) else sha256(message_id.encode()).hexdigest()
