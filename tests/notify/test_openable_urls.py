"""Which URLs a notification may have: absolute ones that a person can be offered to open."""

import pytest

from bridge_server.notify.wire import openable_url
from tests.support.rows import each_row

OPENABLE = [
    "https://a.example/é",
    "myapp://open",
    "myapp:open",
    "http://a",
    "HTTPS://EXAMPLE.ORG/?a=b#c",
    "https://例え.テスト/パス?質問=答え#先",
    "https://a.example/%F0%9F%98%80/😀",
    "https://[::1]:8443/",
    "https://example.org:/",
    "https://example.org:65535/",
    "https://example.org/@name:x",
    "https://example.org/?next=https://user:password@other.example/",
    "ftp://example.org/",
    "mailto:a@example.org",
    "tel:+15551234",
    "ethereum:0xab16a96D359eC26a11e2C2b3d8f8B8942d5Bfcdb@1",
    "wc:topic@1?bridge=https%3A%2F%2Fbridge.example&key=1",
    "urn:isbn:0451450523",
    "javascripts://open",
]
REFUSED = [
    "",
    "/relative",
    "example.org",
    "//example.org/",
    "https:",
    "https://",
    "https:///path",
    "https:example.org",
    "myapp:",
    "myapp://",
    "://open",
    "1app://open",
    "javascript:alert(1)",
    "JavaScript:alert(1)",
    "javascript://example.org/%0Aalert(1)",
    "data:text/html,x",
    "vbscript:x",
    "file:///etc/passwd",
    "blob:https://example.org/1",
    "about:blank",
    "https://user@example.org/",
    "https://user:password@example.org/",
    "https://é@example.org/",
    "myapp://user@open",
    "https://@example.org/",
    "https://example.org/a\nb",
    "https://example.org/\r\n",
    "\nhttps://example.org/",
    " https://example.org/",
    "java\tscript:alert(1)",
    "https://example.org/\u2028",
    "https://example.org/a b",
    "https://example.org/\u00a0",
    "https://example.org/\x00",
    "https://example.org/\x85",
    "https://example.org/\u202egnp.exe",
    "https://example.org/\u2066",
    "https://example.org/\ud800",
    "https://example.org/\ue000",
    "https://example.org/\ufffe",
    "https://example.org/%zz",
    "https://example.org/<x>",
    "https://example.org/\\",
    "https:\\\\example.org",
    "https://example.org:0/",
    "https://example.org:65536/",
    "https://example.org:port/",
    "https://[::1/",
    "https://[nonsense]/",
]


@each_row("url", OPENABLE)
def test_a_url_that_can_be_opened_is_taken_as_it_is(url: str) -> None:
    assert openable_url(url) == url


@each_row("url", REFUSED)
def test_any_other_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"must|names"):
        openable_url(url)
