"""Addresses as text: which of them lead to the machine itself."""

from bridge_server.kernel.fields import is_loopback, is_loopback_address, parse_ip_address
from bridge_server.web.routes import is_loopback_origin
from tests.support.rows import each_row

LOOPBACK = ["127.0.0.1", "127.8.0.1", "::1", "::1%lo", "::ffff:127.0.0.1", "0:0:0:0:0:0:0:1"]
ELSEWHERE = [
    "0.0.0.0",
    "::",
    "10.0.0.1",
    "127.0.0.1.example",
    "127.0.0.256",
    "127.1",
    "127.0.0.1%lo",
    "::2",
    "",
]


@each_row("address", LOOPBACK)
def test_an_address_of_loopback_is_one_in_every_spelling(address: str) -> None:
    assert is_loopback_address(address)
    assert is_loopback(address)


@each_row("address", ELSEWHERE)
def test_another_address_is_not_loopback(address: str) -> None:
    assert not is_loopback_address(address)
    assert not is_loopback(address)


@each_row("host", ["localhost", "LocalHost", "[::1]", "[::ffff:127.0.0.1]"])
def test_a_host_may_be_a_name_or_stand_in_brackets(host: str) -> None:
    assert is_loopback(host)
    assert not is_loopback_address(host)


def test_a_mapped_address_is_read_as_ipv4_and_a_zone_is_left_out() -> None:
    assert str(parse_ip_address("::ffff:192.0.2.1")) == "192.0.2.1"
    assert parse_ip_address("fe80::1%eth0") == parse_ip_address("fe80::1")


@each_row("host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:7f00:1]"])
def test_an_origin_is_loopback_if_its_host_is(host: str) -> None:
    assert is_loopback_origin(f"http://{host}")
    assert is_loopback_origin(f"https://{host}:8443")
    assert not is_loopback_origin(f"http://{host}:")
    assert not is_loopback_origin(f"http://{host}.example")
