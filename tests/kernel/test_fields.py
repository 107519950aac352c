"""Fields of requests and headers: URLs, addresses, seconds to wait, and texts of members."""

from contextlib import suppress
from datetime import UTC, datetime
from email.utils import format_datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.fields import (
    http_url,
    is_loopback,
    is_loopback_address,
    origin_of_url,
    parse_retry_after,
)
from bridge_server.kernel.json_texts import DuplicateNameError, member_texts
from bridge_server.web.routes import is_loopback_origin
from tests.support.rows import each_row


def test_an_absolute_web_address_is_returned_as_it_is() -> None:
    for text in (
        "http://example.org", "https://example.org/hook?x=1#part", "HTTPS://EXAMPLE.ORG/",
        "http://example.org:1", "http://example.org:65535/", "http://user:password@example.org/",
        "http://192.0.2.1/hook", "http://[2001:db8::1]:8080/hook", "http://localhost/",
        "https://example.org/%C3%A9", "http://example.org/" + "x" * (2_048 - 19),
    ):  # fmt: skip
        assert http_url(text) == text


@each_row(
    ("texts", "complaint"),
    [
        (["", "//example.org/hook", "http:///hook", "http://:80/hook", "ftp://example.org/"], "absolute"),
        (["http://example.org:0/"], "port 0"),
        (["http://example.org:65536/", "http://[2001:db8::1/"], "not a URL"),
        (["http://exämple.org/", "http://example.org/a b", " http://example.org/"], "ASCII"),
        (["http://example.org/\r\nHost: other"], "ASCII"),
        (["http://example.org/" + "x" * (2_048 - 18)], "at most 2048"),
    ],
)
def test_a_text_that_is_no_web_url_is_refused_with_the_reason(texts: list[str], complaint: str) -> None:
    for text in texts:
        with pytest.raises(ValueError, match=complaint):
            http_url(text)


@given(st.one_of(st.text(), st.text().map(lambda rest: f"http://{rest}"), st.from_regex(r"https?://\[.*")))
def test_a_url_check_returns_or_refuses_any_text(text: str) -> None:
    with suppress(ValueError):
        assert http_url(text) == text


@each_row(
    ("url", "origin"),
    [
        ("https://App.Example/path?a#b", "https://app.example"),
        ("HTTPS://app.example:443", "https://app.example"),
        ("http://app.example:443/", "http://app.example:443"),
        ("http://[::1]:1/", "http://[::1]:1"),
        ("https://user@app.example/", None),
        ("https://app.example:0/", None),
        ("https://app.example:99999/", None),
        ("ftp://app.example/", None),
        ("https:///path", None),
        ("https://[::1", None),
        ("urn:isbn:1", None),
        ("", None),
    ],
)
def test_the_origin_of_a_url_is_what_browsers_call_it(url: str, origin: str | None) -> None:
    assert origin_of_url(url) == origin


def test_loopback_is_known_in_every_spelling_of_its_address_and_by_its_names() -> None:
    addresses = ["127.0.0.1", "127.8.0.1", "::1", "::1%lo", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"]
    names = ["localhost", "LocalHost", "[::1]", "[::ffff:127.0.0.1]"]
    elsewhere = ["0.0.0.0", "::", "10.0.0.1", "127.0.0.1.example", "127.0.0.256", "127.1", "127.0.0.1%lo"]
    hosts = [*addresses, *names, *elsewhere, "::2", ""]
    assert [host for host in hosts if is_loopback_address(host)] == addresses
    assert [host for host in hosts if is_loopback(host)] == [*addresses, *names]


def test_an_origin_is_loopback_if_its_host_is() -> None:
    for host in ("127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"):
        origins = [f"http://{host}", f"https://{host}:8443", f"http://{host}:", f"http://{host}.example"]
        assert [is_loopback_origin(origin) for origin in origins] == [True, True, False, False], host


NOW_MS = 1_800_000_000_000


def date_in(seconds: int) -> str:
    return format_datetime(datetime.fromtimestamp(NOW_MS / 1_000 + seconds, UTC), usegmt=True)


def test_retry_after_is_seconds_or_a_date_and_ignored_if_it_is_unclear() -> None:
    unclear = ["", "soon", "-5", "1.5", "٣", "9" * 16, "Mon, 99 Foo 2026 00:00:00 GMT"]
    seconds = {"0": 0, "120": 120, " 7 ": 7, "9" * 15: pytest.approx(1e15)}
    dates = {date_in(90): 90, date_in(0): 0, date_in(-90): 0}
    expected = {**seconds, **dates, **dict.fromkeys(unclear)}
    assert {value: parse_retry_after(value, NOW_MS) for value in expected} == expected


@given(st.text(max_size=60) | st.from_regex(r"\w{3}, \d{1,9} \w{3} \d{1,9} \d\d:\d\d:\d\d [+-]\d{1,9}"))
def test_the_parser_survives_any_header(value: str) -> None:
    asked = parse_retry_after(value, NOW_MS)
    assert asked is None or asked >= 0


def test_each_member_keeps_its_text() -> None:
    text = ' { "a" : 1e2 ,"b":{"c": [1, 2.50]},\n"\\u0063": "\\u00e9" } '
    assert member_texts(text) == {"a": "1e2", "b": '{"c": [1, 2.50]}', "c": '"\\u00e9"'}


def test_a_text_that_is_no_object_or_has_a_name_twice_however_deep_is_refused() -> None:
    for text in ('{"a":1,"a":2}', '{"b":{"a":1,"a":2}}', '{"b":[{"a":1,"a":2}]}'):
        with pytest.raises(DuplicateNameError, match="'a'"):
            member_texts(text, are_unique=True)
    unfinished = ["{", '{"a"', '{"a":', '{"a":1']
    for text in (*unfinished, "", "null", "[]", "{1:2}", '{"a":NaN}', '{"a":1} {}', '{"a" 1}', "{a:1}"):
        with pytest.raises(ValueError, match=r"."):
            member_texts(text)
