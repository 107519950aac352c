"""Which pages speak for a server, by the address that it is reached at."""

from typing import Any

from bridge_server.inbox.sign_in import origin_of_url
from bridge_server.web.addresses import origins_of_socket
from tests.support.rows import each_row


@each_row(
    ("socket_name", "origins"),
    [
        (("192.0.2.7", 8080), {"http://192.0.2.7:8080"}),
        (("192.0.2.7", 80), {"http://192.0.2.7"}),
        (("2001:db8::7", 8080, 0, 0), {"http://[2001:db8::7]:8080"}),
        (("fe80::7%eth0", 8080, 0, 2), {"http://[fe80::7]:8080"}),
        (("::ffff:192.0.2.7", 8080, 0, 0), {"http://192.0.2.7:8080"}),
        ("/run/bridge.sock", set()),
        (None, set()),
    ],
)
def test_a_server_is_known_by_its_address(socket_name: Any, origins: set[str]) -> None:
    assert origins_of_socket(socket_name) == origins


@each_row("host", ["127.0.0.1", "::1", "::ffff:127.0.0.1"])
def test_a_server_on_loopback_is_known_by_all_names_of_it(host: str) -> None:
    names = {"http://localhost:8080", "http://127.0.0.1:8080", "http://[::1]:8080"}

    assert origins_of_socket((host, 8080)) == names


def test_another_address_of_loopback_is_one_name_more() -> None:
    assert "http://127.0.0.9:8080" in origins_of_socket(("127.0.0.9", 8080))


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
