"""The checks of Firebase Cloud Messaging on messages, and its answers to invalid ones."""

import json
import re
from typing import Any

from aiohttp import web

FCM_ERROR = "type.googleapis.com/google.firebase.fcm.v1.FcmError"

_PAYLOAD_LIMIT_BYTES = 4_096
_DURATION = re.compile(r"[0-9]{1,12}(\.[0-9]{1,9})?s")
_FIELDS = frozenset({"name", "token", "data", "notification", "android", "webpush", "apns", "fcm_options"})
_BAD_REQUEST = "type.googleapis.com/google.rpc.BadRequest"


def error_document(status: int, general: str, text: str, *details: object) -> dict[str, Any]:
    """An error in the form of Google's APIs."""
    return {"error": {"code": status, "message": text, "status": general, "details": list(details)}}


def message_of(body: bytes) -> dict[str, Any]:
    """The message in the body of a request; empty if there is none."""
    document = json.loads(body)
    message = document.get("message") if isinstance(document, dict) else None
    return message if isinstance(message, dict) else {}


def fault_of(message: dict[str, Any]) -> web.Response | None:
    """The answer to an invalid message; None for a valid one."""
    for name in sorted(message.keys() - _FIELDS):
        return _bad_request(f"message.{name}", f"Unknown name \"{name}\" at 'message': Cannot find field.")
    if not isinstance(message.get("token"), str):
        return _bad_request("message", "Recipient of the message is not set.")
    for name, value in message.get("data", {}).items():
        if not isinstance(value, str):
            return _bad_request("message.data[0].value", f"Invalid value at 'message.data', {value}")
        if name in {"from", "message_type"} or name.startswith(("google", "gcm")):
            return _bad_request(f"message.data.{name}", f"Invalid data payload key: {name}")
    ttl = message.get("android", {}).get("ttl", "0s")
    if not _DURATION.fullmatch(ttl):
        return _bad_request("message.android.ttl", "Invalid value at 'message.android.ttl'")
    size = len(json.dumps([message.get("data"), message.get("notification")]).encode())
    return _too_big() if size > _PAYLOAD_LIMIT_BYTES else None


def _bad_request(field: str, text: str) -> web.Response:
    detail = {"@type": _BAD_REQUEST, "fieldViolations": [{"field": field, "description": text}]}
    return web.json_response(error_document(400, "INVALID_ARGUMENT", text, detail), status=400)


def _too_big() -> web.Response:
    details = {"@type": _BAD_REQUEST}, {"@type": FCM_ERROR, "errorCode": "INVALID_ARGUMENT"}
    document = error_document(400, "INVALID_ARGUMENT", "Android message is too big", *details)
    return web.json_response(document, status=400)
