"""What counts as an absolute http(s) URL."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kernel.fields import URL_MAX_CHARACTERS, http_url
from tests.support.rows import each_row


@each_row(
    "text",
    [
        "http://example.org",
        "https://example.org/hook?x=1#part",
        "HTTPS://EXAMPLE.ORG/",
        "http://example.org:1",
        "http://example.org:65535/",
        "http://user:password@example.org/",
        "http://192.0.2.1/hook",
        "http://[2001:db8::1]:8080/hook",
        "http://localhost/",
        "https://example.org/%C3%A9",
        "http://example.org/" + "x" * (URL_MAX_CHARACTERS - 19),
    ],
)
def test_an_absolute_web_address_is_returned_as_it_is(text: str) -> None:
    assert http_url(text) == text


@each_row(
    ("text", "complaint"),
    [
        ("", "absolute"),
        ("example.org", "absolute"),
        ("/hook", "absolute"),
        ("//example.org/hook", "absolute"),
        ("http:", "absolute"),
        ("http://", "absolute"),
        ("http:///hook", "absolute"),
        ("http://:80/hook", "absolute"),
        ("ftp://example.org/", "absolute"),
        ("javascript:alert(1)", "absolute"),
        ("file:///etc/passwd", "absolute"),
        ("http://example.org:0/", "port 0"),
        ("http://example.org:65536/", "not a URL"),
        ("http://example.org:port/", "not a URL"),
        ("http://[2001:db8::1/", "not a URL"),
        ("http://exämple.org/", "ASCII"),
        ("http://example.org/a b", "ASCII"),
        ("http://example.org/\r\nHost: other", "ASCII"),
        ("http://example.org/\x00", "ASCII"),
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
