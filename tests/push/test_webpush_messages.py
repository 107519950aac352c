"""A message to a browser: the subscription, the payload, and the encryption."""

from dataclasses import replace
from secrets import token_bytes
from typing import Any

import orjson
import pytest
from Crypto.PublicKey import ECC
from hypothesis import given
from hypothesis import strategies as some

from bridge_server.push.models import PushNotice
from bridge_server.push.providers.messages import LARGEST_PLAINTEXT_BYTES, padding_for, write_payload
from bridge_server.push.providers.webpush import SALT_BYTES, encrypt, read_subscription, write_subscription
from tests.push.providers import WEB_NOTICE
from tests.support.rows import each_row
from tests.support.webpush_service import Browser, base64url, from_base64url

BROWSER = Browser()
ENDPOINT = "https://push.example.net/send/abc%3AD_e-f"
OFF_THE_CURVE = bytearray(BROWSER.point)
OFF_THE_CURVE[-1] ^= 1


def token(**changes: Any) -> str:
    """A subscription as the browser sends it, but for these members."""
    return orjson.dumps({"endpoint": ENDPOINT, "expirationTime": None, "keys": keys(), **changes}).decode()


def keys(**changes: Any) -> dict[str, Any]:
    return {"p256dh": BROWSER.p256dh, "auth": BROWSER.auth, **changes}


def test_a_browsers_subscription_is_read() -> None:
    subscription = read_subscription(token())
    assert str(subscription.endpoint) == ENDPOINT
    assert subscription.origin == "https://push.example.net"
    assert subscription.receiver_key.export_key(format="raw") == BROWSER.point
    assert base64url(subscription.auth_secret) == BROWSER.auth
    assert not any(secret in repr(subscription) for secret in ("push.example.net", "0x"))


def test_subscription_has_one_spelling() -> None:
    spellings = [
        token(),
        token(expirationTime=1_900_000_000_000, options={"userVisibleOnly": True}),
        token(keys=keys(p256dh=BROWSER.p256dh + "=", auth=BROWSER.auth + "==")),
        token(endpoint=ENDPOINT.replace("https://push", "https://PUSH")),
        token(endpoint=ENDPOINT.replace("net/", "net:443/")),
    ]

    (only,) = {write_subscription(read_subscription(text)) for text in spellings}

    assert orjson.loads(only) == {"endpoint": ENDPOINT, "keys": keys()}
    assert write_subscription(read_subscription(only)) == only


def test_the_origin_is_the_audience() -> None:
    for origin, path in (
        ("https://push.example.net", ""),
        ("https://push.example.net:8443", "/a"),
        ("https://push.example.net", "/a?b=c%20d&e"),
        ("https://[2001:db8::1]", "/a"),
    ):
        subscription = read_subscription(token(endpoint=origin + path))
        assert subscription.origin == origin
        assert str(subscription.endpoint).rstrip("/") == origin + path


@each_row(
    ("changes", "reason"),
    [
        ({"endpoint": None}, "endpoint must be a URL"),
        ({"endpoint": "push.example.net/a"}, "endpoint must be an absolute http or https URL"),
        ({"endpoint": "https://push.example.net/a b"}, "endpoint must be a URL of ASCII"),
        ({"endpoint": "https://push.example.net:0/"}, "endpoint names port 0"),
        ({"endpoint": "https://[::1/"}, "endpoint is not a URL"),
        ({"endpoint": "https://user@push.example.net/"}, "no user name"),
        ({"endpoint": "https://push.example.net/#a"}, "no fragment"),
        ({"endpoint": "https://push.example.net/" + "a" * 2_048}, "at most 2048 characters"),
        ({"keys": None}, "has no keys"),
        ({"keys": {"p256dh": BROWSER.p256dh}}, "key auth is missing"),
        ({"keys": keys(p256dh=7)}, "key p256dh is missing"),
        ({"keys": keys(p256dh="+/+/")}, "key p256dh is not base64url"),
        ({"keys": keys(p256dh=base64url(BROWSER.point[:64]))}, "p256dh must hold 65 bytes, and holds 64"),
        ({"keys": keys(p256dh=base64url(bytes(OFF_THE_CURVE)))}, "p256dh is not a point"),
        ({"keys": keys(p256dh=base64url(b"\x02" + BROWSER.point[1:]))}, "p256dh is not a point"),
        ({"keys": keys(auth=base64url(bytes(17)))}, "auth must hold 16 bytes, and holds 17"),
        ({"expirationTime": True}, "expirationTime must be a number or null"),
        ({"more": "a" * 4_096}, "at most 4096 bytes"),
    ],
)
def test_fault_of_a_subscription_is_named(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_subscription(token(**changes))


@each_row("text", ["", "[]", '{"endpoint":NaN}', "[" * 2_000])
def test_subscription_other_than_a_json_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be a push subscription as JSON"):
        read_subscription(text)


def written(notice: PushNotice) -> bytes:
    payload = write_payload(notice)
    assert payload is not None
    return payload


def with_room(size: int) -> PushNotice:
    """A notice whose JSON is so many bytes with an empty body."""
    empty = replace(WEB_NOTICE, body="", data={"more": ""})
    return replace(empty, data={"more": "a" * (size - len(written(empty)))})


def test_payload_is_shortened_by_its_body_and_not_written_where_that_does_not_do() -> None:
    notice = with_room(3_983)

    assert len(written(replace(notice, body="0123456789"))) == 3_993
    for body, kept in (("0123456789", "0123456789"), ("0123456789a", "0123456…")):
        assert orjson.loads(written(replace(notice, body=body)))["body"] == kept
    assert write_payload(replace(with_room(3_990), body="a" * 300)) is not None
    assert write_payload(replace(with_room(3_991), body="a" * 300)) is None
    assert write_payload(replace(WEB_NOTICE, title="\ud83d")) is None  # half a character is no text


@given(some.text(max_size=300), some.integers(3_700, 3_990))
def test_a_body_that_is_too_long_is_cut_at_a_character(body: str, size: int) -> None:
    whole = replace(with_room(size), body=body)

    payload = written(whole)

    shown = orjson.loads(payload)["body"]
    assert len(payload) <= 3_993
    assert shown == body or (shown.endswith("…") and body.startswith(shown[:-1]))
    if shown != body:
        longer = replace(whole, body=body[: len(shown)] + "…")
        assert len(orjson.dumps(longer.body)) - len(orjson.dumps(shown)) + len(payload) > 3_993


def test_sizes_are_rounded_up_as_far_as_there_is_room() -> None:
    paddings = {0: 0, 1: 255, 255: 1, 256: 0, 257: 255, 3_840: 0, 3_841: 152, 3_993: 0}
    assert {size: padding_for(bytes(size)) for size in paddings} == paddings


def sealed(plaintext: bytes, padding_bytes: int = 0) -> bytes:
    """A message to the browser."""
    return encrypt(
        plaintext,
        ECC.import_key(BROWSER.point, curve_name="P-256"),
        from_base64url(BROWSER.auth),
        sender_key=ECC.generate(curve="P-256"),
        salt=token_bytes(SALT_BYTES),
        padding_bytes=padding_bytes,
    )


def test_the_example_of_the_rfc_comes_out_byte_for_byte() -> None:
    """RFC 8291, section 5 and appendix A."""
    receiver = "BCVxsr7N_eNgVRqvHtD0zTZsEc6-VV-JvLexhqUzORcxaOzi6-AYWXvTBHm4bjyPjs7Vd8pZGH6SRpkNtoIAiw4"
    sender = from_base64url("yfWPiYE-n46HLnH0KqZOF1fJJU3MYrct3AELtAQ-oRw")

    body = encrypt(
        b"When I grow up, I want to be a watermelon",
        ECC.import_key(from_base64url(receiver), curve_name="P-256"),
        from_base64url("BTBZMqHH6r4Tts7J_aSIgg"),
        sender_key=ECC.construct(curve="P-256", d=int.from_bytes(sender)),
        salt=from_base64url("DGv6ra1nlYgDCS1FRnbzlw"),
    )

    assert base64url(body) == (
        "DGv6ra1nlYgDCS1FRnbzlwAAEABBBP4z9KsN6nGRTbVYI_c7VJSPQTBtkgcy27ml"
        "mlMoZIIgDll6e3vCYLocInmYWAmS6TlzAC8wEqKK6PBru3jl7A_yl95bQpu6cVPT"
        "pK4Mqgkf1CXztLVBSt2Ks3oZwbuwXPXLWyouBWLVWGNWQexSgSxsj_Qulcy4a-fN"
    )


@given(some.binary(max_size=3_900), some.integers(0, 93))
def test_a_browser_reads_what_was_sent(plaintext: bytes, padding_bytes: int) -> None:
    body = sealed(plaintext, padding_bytes)
    assert BROWSER.decrypt(body) == plaintext
    assert len(body) == 86 + len(plaintext) + padding_bytes + 17


def test_the_largest_message_is_4096_bytes_and_no_more() -> None:
    assert len(sealed(bytes(LARGEST_PLAINTEXT_BYTES))) == 4_096
    for size, padding_bytes in ((LARGEST_PLAINTEXT_BYTES + 1, 0), (LARGEST_PLAINTEXT_BYTES, 1)):
        with pytest.raises(ValueError, match="at most 3993 bytes"):
            sealed(bytes(size), padding_bytes)
