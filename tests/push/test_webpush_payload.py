"""What the service worker is handed, and what is given up when there is too much of it."""

from dataclasses import replace

import orjson
from hypothesis import given
from hypothesis import strategies as some

from bridge_server.push.models import PushNotice
from bridge_server.push.providers.messages import padding_for, write_payload
from tests.push.webpush import NOTICE
from tests.support.rows import each_row


def written(notice: PushNotice) -> bytes:
    payload = write_payload(notice)
    assert payload is not None
    return payload


def with_room(size: int) -> PushNotice:
    """A notice whose JSON is so many bytes with an empty body."""
    empty = replace(NOTICE, body="", data={"more": ""})
    return replace(empty, data={"more": "a" * (size - len(written(empty)))})


def test_the_notice_is_an_object_of_five_fields() -> None:
    assert orjson.loads(written(NOTICE)) == {
        "title": "New request",
        "body": "Wallet asks für you 👋",
        "url": "https://dapp.example.org/calls",
        "id": "device-7.41",
        "data": {"topic": "t-1"},
    }


def test_payload_that_just_fits_is_not_shortened() -> None:
    notice = with_room(3_983)

    assert len(written(replace(notice, body="0123456789"))) == 3_993
    assert orjson.loads(written(replace(notice, body="0123456789")))["body"] == "0123456789"
    assert orjson.loads(written(replace(notice, body="0123456789a")))["body"] == "0123456…"


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


def test_payload_too_large_without_its_body_is_not_written() -> None:
    assert write_payload(replace(with_room(3_990), body="a" * 300)) is not None
    assert write_payload(replace(with_room(3_991), body="a" * 300)) is None


@each_row("field", ["title", "body", "message_id"])
def test_half_a_character_is_no_text(field: str) -> None:
    assert write_payload(replace(NOTICE, **{field: "\ud83d"})) is None  # type: ignore[arg-type]


@each_row(
    ("size", "padding"),
    [(0, 0), (1, 255), (255, 1), (256, 0), (257, 255), (3_840, 0), (3_841, 152), (3_993, 0)],
)
def test_sizes_are_rounded_up_as_far_as_there_is_room(size: int, padding: int) -> None:
    assert padding_for(bytes(size)) == padding
