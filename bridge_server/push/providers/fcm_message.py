"""The message in a request to FCM.

https://firebase.google.com/docs/reference/fcm/rest/v1/projects.messages
"""

from typing import Any

from yarl import URL

from bridge_server.push.models import PushNotice
from bridge_server.push.providers.apns_notice import collapse_id, expiration

_LONGEST_TTL_SECONDS = 2_419_200  # 4 weeks


def message(token: str, notice: PushNotice, now_ms: int) -> dict[str, Any]:
    """The body of `messages:send` for every platform, with ids that make a repeat replace the first message.

    On Android that id is the `tag`. A collapse key is not suitable: FCM stores only four collapse keys per
    device, and every message has a new one.
    """
    ttl_seconds = min(max(notice.ttl_seconds, 0), _LONGEST_TTL_SECONDS)
    return {
        "message": {
            "token": token,
            "notification": {"title": notice.title, "body": notice.body},
            "data": _data(notice),
            "android": {
                "priority": "HIGH",
                "ttl": f"{ttl_seconds}s",
                "notification": {"tag": notice.message_id, "default_sound": True},
            },
            "apns": {
                "headers": {
                    "apns-priority": "10",
                    "apns-expiration": expiration(ttl_seconds, now_ms),
                    "apns-collapse-id": collapse_id(notice.message_id),
                },
                "payload": {"aps": {"sound": "default"}},
            },
            "webpush": _web_push(notice, ttl_seconds),
        }
    }


def _data(notice: PushNotice) -> dict[str, str]:
    url = {} if notice.url is None else {"url": notice.url}
    return {**notice.data, "id": notice.message_id, **url}


def _web_push(notice: PushNotice, ttl_seconds: int) -> dict[str, Any]:
    part: dict[str, Any] = {
        "headers": {"TTL": str(ttl_seconds), "Urgency": "high"},
        "notification": {"tag": notice.message_id},
    }
    link = _link(notice.url or "")
    if link is not None:
        part["fcm_options"] = {"link": link}
    return part


def _link(url: str) -> str | None:
    """The URL in the form that FCM accepts, https and ASCII; None if it has no such form."""
    if not url.startswith("https://"):
        return None
    try:
        return url if url.isascii() else str(URL(url))
    except ValueError:  # the host has no ASCII form
        return None
