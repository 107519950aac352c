"""A browser's push subscription, as its Push API gives it to the page (`JSON.stringify(subscription)`).

Source: W3C Push API, section 8 (PushSubscription and its serialization); RFC 8291, section 2 (the keys).
"""

from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

import orjson
from Crypto.PublicKey import ECC
from yarl import URL

from bridge_server.kernel import base64url
from bridge_server.kernel.fields import http_url

LONGEST_SUBSCRIPTION_BYTES = 4_096
_POINT_BYTES = 65
_UNCOMPRESSED = 4
_AUTH_BYTES = 16


@dataclass(frozen=True, slots=True)
class PushSubscription:
    """A checked subscription. The endpoint is a capability, so `repr` does not show it."""

    endpoint: URL = field(repr=False)
    receiver_key: ECC.EccKey = field(repr=False)
    auth_secret: bytes = field(repr=False)

    @property
    def origin(self) -> str:
        """The origin of the push service, which is the audience of a VAPID token (RFC 8292, section 2)."""
        return str(self.endpoint.origin())


def read_subscription(text: str, *, allow_http: bool = False) -> PushSubscription:
    """Read a subscription in JSON. Raises ValueError, whose text names the fault without quoting the JSON."""
    fields = _fields(text)
    keys = fields.get("keys")
    if not isinstance(keys, dict):
        raise ValueError("the subscription has no keys: it must be asked for with an applicationServerKey")
    _check_expiration(fields.get("expirationTime"))
    return PushSubscription(
        _endpoint(fields.get("endpoint"), allow_http),
        _receiver_key(_bytes(keys, "p256dh", _POINT_BYTES)),
        _bytes(keys, "auth", _AUTH_BYTES),
    )


def write_subscription(subscription: PushSubscription) -> str:
    """The normal form of a subscription, in which two can be compared."""
    keys = {
        "auth": base64url.encode(subscription.auth_secret),
        "p256dh": base64url.encode(subscription.receiver_key.export_key(format="raw")),
    }
    return orjson.dumps({"endpoint": str(subscription.endpoint), "keys": keys}).decode()


def _fields(text: str) -> dict[str, Any]:
    if len(text) > LONGEST_SUBSCRIPTION_BYTES:
        raise ValueError(f"the subscription must have at most {LONGEST_SUBSCRIPTION_BYTES} bytes")
    try:
        fields = orjson.loads(text)
    except orjson.JSONDecodeError:
        fields = None
    if not isinstance(fields, dict):
        raise ValueError("the token must be a push subscription as JSON: {endpoint, keys: {p256dh, auth}}")
    return fields


def _check_expiration(value: Any) -> None:
    """Check the type of expirationTime. It is not stored: the service answers 410 after it."""
    if value is not None and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise ValueError("the subscription's expirationTime must be a number or null")


def _endpoint(value: Any, allow_http: bool) -> URL:
    if not isinstance(value, str):
        raise ValueError("the subscription's endpoint must be a URL")
    try:
        parts = urlsplit(http_url(value))
        origin = URL(f"{parts.scheme}://{parts.netloc}").origin()
    except ValueError as error:
        raise ValueError(f"the subscription's endpoint {error}") from None
    if parts.scheme != "https" and not allow_http:
        raise ValueError("the subscription's endpoint must be an https URL")
    if "@" in parts.netloc or parts.fragment:
        raise ValueError("the subscription's endpoint must have no user name and no fragment")
    # The path and query are sent back to the service unchanged, byte for byte.
    query = f"?{parts.query}" if parts.query else ""
    return URL(f"{origin}{parts.path or '/'}{query}", encoded=True)


def _bytes(keys: dict[str, Any], name: str, size: int) -> bytes:
    value = keys.get(name)
    if not isinstance(value, str):
        raise ValueError(f"the subscription's key {name} is missing")
    try:
        data = base64url.decode(value)
    except ValueError as error:
        raise ValueError(f"the subscription's key {name} {error}") from None
    if len(data) != size:
        raise ValueError(f"the subscription's key {name} must hold {size} bytes, and holds {len(data)}")
    return data


def _receiver_key(raw: bytes) -> ECC.EccKey:
    try:
        if raw[0] == _UNCOMPRESSED:  # import_key also accepts other formats
            return ECC.import_key(raw, curve_name="P-256")
    except ValueError:
        pass
    raise ValueError("the subscription's key p256dh is not a point of the curve P-256")
