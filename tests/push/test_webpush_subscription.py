"""The browser's subscription as a token: what is taken, and what is wrong with the rest."""

from typing import Any

import orjson
import pytest

from bridge_server.push.providers.webpush import read_subscription, write_subscription
from tests.support.browser import Browser, base64url
from tests.support.rows import each_row

BROWSER = Browser()
ENDPOINT = "https://push.example.net/send/abc%3AD_e-f"
OFF_THE_CURVE = bytearray(BROWSER.point)
OFF_THE_CURVE[-1] ^= 1


def token(**changes: Any) -> str:
    fields: dict[str, Any] = {
        "endpoint": ENDPOINT,
        "expirationTime": None,
        "keys": {"p256dh": BROWSER.p256dh, "auth": BROWSER.auth},
    }
    return orjson.dumps(fields | changes).decode()


def keys(**changes: Any) -> dict[str, Any]:
    return {"p256dh": BROWSER.p256dh, "auth": BROWSER.auth} | changes


def test_a_browsers_subscription_is_read() -> None:
    subscription = read_subscription(token())

    assert str(subscription.endpoint) == ENDPOINT
    assert subscription.origin == "https://push.example.net"
    assert subscription.receiver_key.export_key(format="raw") == BROWSER.point
    assert base64url(subscription.auth_secret) == BROWSER.auth


def test_subscription_has_one_spelling() -> None:
    spellings = [
        token(),
        token(expirationTime=1_900_000_000_000, options={"userVisibleOnly": True}),
        token(keys=keys(p256dh=BROWSER.p256dh + "=", auth=BROWSER.auth + "==")),
        token(endpoint=ENDPOINT.replace("https://push", "https://PUSH")),
        token(endpoint=ENDPOINT.replace("net/", "net:443/")),
    ]

    written = {write_subscription(read_subscription(text)) for text in spellings}

    (only,) = written
    assert orjson.loads(only) == {"endpoint": ENDPOINT, "keys": keys()}
    assert write_subscription(read_subscription(only)) == only


@each_row(
    ("endpoint", "origin"),
    [
        ("https://push.example.net", "https://push.example.net"),
        ("https://push.example.net:8443/a", "https://push.example.net:8443"),
        ("https://push.example.net/a?b=c%20d&e", "https://push.example.net"),
        ("https://[2001:db8::1]/a", "https://[2001:db8::1]"),
    ],
)
def test_the_origin_is_the_audience(endpoint: str, origin: str) -> None:
    subscription = read_subscription(token(endpoint=endpoint))

    assert subscription.origin == origin
    assert str(subscription.endpoint).rstrip("/") == endpoint


def test_plain_http_is_for_development() -> None:
    text = token(endpoint="http://127.0.0.1:8080/a")

    with pytest.raises(ValueError, match="must be an https URL"):
        read_subscription(text)
    assert read_subscription(text, allow_http=True).origin == "http://127.0.0.1:8080"


def test_nothing_of_it_is_shown() -> None:
    text = repr(read_subscription(token()))

    assert "push.example.net" not in text
    assert "0x" not in text


@each_row("text", ["", "fcm-token", "[]", '"a"', "{", '{"endpoint":NaN}', "[" * 2_000])
def test_subscription_other_than_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a push subscription as JSON"):
        read_subscription(text)


@each_row(
    ("changes", "reason"),
    [
        ({"endpoint": None}, "endpoint must be a URL"),
        ({"endpoint": "push.example.net/a"}, "endpoint must be an absolute http or https URL"),
        ({"endpoint": "ftp://push.example.net/a"}, "endpoint must be an absolute"),
        ({"endpoint": "https://push.example.net/a b"}, "endpoint must be a URL of ASCII"),
        ({"endpoint": "https://push.example.net:0/"}, "endpoint names port 0"),
        ({"endpoint": "https://[::1/"}, "endpoint is not a URL"),
        ({"endpoint": "https://user@push.example.net/"}, "no user name"),
        ({"endpoint": "https://push.example.net/#a"}, "no fragment"),
        ({"endpoint": "https://push.example.net/" + "a" * 2_048}, "at most 2048 characters"),
        ({"keys": None}, "has no keys"),
        ({"keys": {}}, "key p256dh is missing"),
        ({"keys": {"p256dh": BROWSER.p256dh}}, "key auth is missing"),
        ({"keys": keys(p256dh=7)}, "key p256dh is missing"),
        ({"keys": keys(p256dh="+/+/")}, "key p256dh is not base64url"),
        ({"keys": keys(p256dh=base64url(BROWSER.point[:64]))}, "p256dh must hold 65 bytes, and holds 64"),
        ({"keys": keys(p256dh=base64url(bytes(65)))}, "p256dh is not a point"),
        ({"keys": keys(p256dh=base64url(bytes(OFF_THE_CURVE)))}, "p256dh is not a point"),
        ({"keys": keys(p256dh=base64url(b"\x04" + b"\xff" * 64))}, "p256dh is not a point"),
        ({"keys": keys(p256dh=base64url(b"\x02" + BROWSER.point[1:]))}, "p256dh is not a point"),
        ({"keys": keys(auth="")}, "auth must hold 16 bytes, and holds 0"),
        ({"keys": keys(auth=base64url(bytes(17)))}, "auth must hold 16 bytes, and holds 17"),
        ({"expirationTime": "soon"}, "expirationTime must be a number or null"),
        ({"expirationTime": True}, "expirationTime must be a number or null"),
        ({"more": "a" * 4_096}, "at most 4096 bytes"),
    ],
)
def test_fault_of_a_subscription_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_subscription(token(**changes))
