"""Fields of requests and headers: URLs, addresses, seconds to wait, and texts of members."""

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.fields import (
    URL_MAX_CHARACTERS,
    http_url,
    is_loopback,
    is_loopback_address,
    parse_retry_after,
)
from bridge_server.kernel.json_texts import DuplicateNameError, member_texts
from bridge_server.web.routes import is_loopback_origin
from tests.support.rows import each_row


@each_row(
    "text",
    [
        "http://example.org", "https://example.org/hook?x=1#part", "HTTPS://EXAMPLE.ORG/",
        "http://example.org:1", "http://example.org:65535/", "http://user:password@example.org/",
        "http://192.0.2.1/hook", "http://[2001:db8::1]:8080/hook", "http://localhost/",
        "https://example.org/%C3%A9", "http://example.org/" + "x" * (URL_MAX_CHARACTERS - 19),
    ],
)  # fmt: skip
def test_an_absolute_web_address_is_returned_as_it_is(text: str) -> None:
    assert http_url(text) == text


@each_row(
    ("text", "complaint"),
    [
        ("", "absolute"),
        ("//example.org/hook", "absolute"),
        ("http:///hook", "absolute"),
        ("http://:80/hook", "absolute"),
        ("ftp://example.org/", "absolute"),
        ("http://example.org:0/", "port 0"),
        ("http://example.org:65536/", "not a URL"),
        ("http://[2001:db8::1/", "not a URL"),
        ("http://exämple.org/", "ASCII"),
        ("http://example.org/a b", "ASCII"),
        ("http://example.org/\r\nHost: other", "ASCII"),
        (" http://example.org/", "ASCII"),
        ("http://example.org/" + "x" * (URL_MAX_CHARACTERS - 18), "at most 2048"),
    ],
)
def test_a_text_that_is_no_web_url_is_refused_with_the_reason(text: str, complaint: str) -> None:
    with pytest.raises(ValueError, match=complaint):
        http_url(text)


@given(st.one_of(st.text(), st.text().map(lambda rest: f"http://{rest}"), st.from_regex(r"https?://\[.*")))
def test_a_url_check_returns_or_refuses_any_text(text: str) -> None:
    with suppress(ValueError):
        assert http_url(text) == text


LOOPBACK = ["127.0.0.1", "127.8.0.1", "::1", "::1%lo", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"]
NAMES = ["localhost", "LocalHost", "[::1]", "[::ffff:127.0.0.1]"]
ELSEWHERE = [
    "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "127.0.0.256", "127.1", "127.0.0.1%lo", "::2", "",
]  # fmt: skip


def test_loopback_is_known_in_every_spelling_of_its_address_and_by_its_names() -> None:
    hosts = [*LOOPBACK, *NAMES, *ELSEWHERE]

    assert [host for host in hosts if is_loopback_address(host)] == LOOPBACK
    assert [host for host in hosts if is_loopback(host)] == [*LOOPBACK, *NAMES]


@each_row("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"])
def test_an_origin_is_loopback_if_its_host_is(host: str) -> None:
    assert is_loopback_origin(f"http://{host}")
    assert is_loopback_origin(f"https://{host}:8443")
    assert not is_loopback_origin(f"http://{host}:")
    assert not is_loopback_origin(f"http://{host}.example")


NOW_MS = 1_800_000_000_000


def date_in(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(NOW_MS / 1_000 + seconds, UTC), usegmt=True)


UNCLEAR = ["", "soon", "-5", "1.5", "٣", "9" * 16, "Mon, 99 Foo 2026 00:00:00 GMT"]


@each_row(
    ("value", "seconds"),
    [
        *[("0", 0), ("120", 120), (" 7 ", 7), ("9" * 15, pytest.approx(1e15))],
        *[(date_in(90), 90), (date_in(0), 0), (date_in(-90), 0)],
        *[(value, None) for value in UNCLEAR],
    ],
)
def test_retry_after_is_seconds_or_a_date_and_ignored_if_it_is_unclear(value: str, seconds: object) -> None:
    assert parse_retry_after(value, NOW_MS) == seconds


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,9} \w{3} \d{1,9} \d\d:\d\d:\d\d [+-]\d{1,9}"))
def test_the_parser_survives_any_header(value: str) -> None:
    asked = parse_retry_after(value, NOW_MS)

    assert asked is None or asked >= 0


def test_each_member_keeps_its_text() -> None:
    text = ' { "a" : 1e2 ,"b":{"c": [1, 2.50]},\n"\\u0063": "\\u00e9" } '

    assert member_texts(text) == {"a": "1e2", "b": '{"c": [1, 2.50]}', "c": '"\\u00e9"'}


@each_row("text", ['{"a":1,"a":2}', '{"b":{"a":1,"a":2}}', '{"b":[{"a":1,"a":2}]}'])
def test_unique_names_are_demanded_however_deep(text: str) -> None:
    with pytest.raises(DuplicateNameError, match="'a'"):
        member_texts(text, are_unique=True)


@each_row(
    "text",
    [
        "", "null", "[]", "{", '{"a"', '{"a":', '{"a":1', "{1:2}", '{"a":NaN}', '{"a":1} {}', '{"a" 1}',
        "{a:1}",
    ],
)  # fmt: skip
def test_a_text_that_is_no_object_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        member_texts(text)
