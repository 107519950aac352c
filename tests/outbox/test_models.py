from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.models import UNREADABLE_DESTINATION, OutgoingMessage
from tests.outbox.running import HOOK
from tests.support.rows import each_row


def destination(url: str) -> str:
    return OutgoingMessage("message-1", url, b"{}", HOOK).destination


@each_row(
    ("url", "expected"),
    [
        ("https://example.com/hook?token=1", "https://example.com:443"),
        ("http://example.com", "http://example.com:80"),
        ("HTTPS://Example.COM:443/", "https://example.com:443"),
        ("https://example.com:8443/a", "https://example.com:8443"),
        ("https://example.com./", "https://example.com:443"),
        ("https://user:password@example.com/", "https://example.com:443"),
        ("https://bücher.example/", "https://xn--bcher-kva.example:443"),
        ("http://[2001:DB8::1]/", "http://[2001:db8::1]:80"),
        ("http://[2001:db8:0::1]:8080/", "http://[2001:db8::1]:8080"),
        ("http://192.0.2.1:9000/", "http://192.0.2.1:9000"),
    ],
)
def test_a_destination_has_one_spelling(url: str, expected: str) -> None:
    assert destination(url) == expected


@each_row("url", ["", "hook", "//host/a", "http:///a", "http://host:99999/", "http://[::1/"])
def test_a_url_that_cannot_be_read_has_a_destination_all_the_same(url: str) -> None:
    assert destination(url) == UNREADABLE_DESTINATION


@each_row(
    ("url", "expected"), [("fcm:token", "fcm"), ("push:", "push"), ("webpush:{}", "webpush"), ("log:", "log")]
)
def test_a_url_without_a_host_has_its_channel_as_destination(url: str, expected: str) -> None:
    assert destination(url) == expected


def test_a_lane_is_the_destination_whatever_the_url_says() -> None:
    message = OutgoingMessage("message-1", "https://example.com/", b"{}", HOOK, lane="one lane")

    assert message.destination == "one lane"


@given(st.text(max_size=80) | st.text(max_size=80).map(lambda rest: f"http://{rest}"))
def test_a_destination_is_found_for_any_text(url: str) -> None:
    assert destination(url)
