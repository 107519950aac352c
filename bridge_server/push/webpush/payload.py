"""The payload for a page's service worker, `{title, body, url, id, data}`, cut to the largest size."""

from bisect import bisect_right

import orjson

from bridge_server.push.models import PushNotice

LARGEST_PLAINTEXT_BYTES = 3_993
"""The plaintext that fits into the 4,096 bytes that every push service accepts (RFC 8291, section 4)."""

_ELLIPSIS = "…"
_STEP_BYTES = 256


def write_payload(notice: PushNotice) -> bytes | None:
    """The notice as JSON of at most 3,993 bytes, or None if that is impossible or it is not valid Unicode.

    A payload that is too long has its body shortened, with an ellipsis at the end. Title, url, id and data
    are never cut.
    """
    try:
        whole = _json(notice, notice.body)
        if len(whole) <= LARGEST_PLAINTEXT_BYTES:
            return whole
        return _with_short_body(notice)
    except orjson.JSONEncodeError:  # half of a surrogate pair
        return None


def padding_for(payload: bytes) -> int:
    """The bytes that pad the payload to a multiple of 256, to hide its size (RFC 8291, section 4)."""
    room = LARGEST_PLAINTEXT_BYTES - len(payload)
    return min(-len(payload) % _STEP_BYTES, room)


def _with_short_body(notice: PushNotice) -> bytes | None:
    def size(kept: int) -> int:
        return len(_json(notice, notice.body[:kept] + _ELLIPSIS))

    kept = bisect_right(range(len(notice.body)), LARGEST_PLAINTEXT_BYTES, key=size) - 1
    return None if kept < 0 else _json(notice, notice.body[:kept] + _ELLIPSIS)


def _json(notice: PushNotice, body: str) -> bytes:
    return orjson.dumps(
        {
            "title": notice.title,
            "body": body,
            "url": notice.url,
            "id": notice.message_id,
            "data": dict(notice.data),
        }
    )
