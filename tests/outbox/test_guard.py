import socket
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.guarded_client import (
    REFUSED_IPV4,
    REFUSED_IPV6,
    AddressRefusedError,
    anywhere,
    guarded_sockets,
    public_only,
)
from tests.support.rows import each_row

PUBLIC = [
    "1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "93.184.216.34", "100.63.255.255", "100.128.0.0",
    "126.255.255.255", "128.0.0.0", "168.63.129.15", "169.253.255.255", "169.255.0.0", "172.15.255.255",
    "172.32.0.0", "192.0.1.0", "192.0.3.0", "192.88.98.255", "192.88.100.0", "192.167.255.255", "192.169.0.0",
    "198.17.255.255", "198.20.0.0", "198.51.99.255", "198.51.101.0", "203.0.112.255", "203.0.114.0",
    "223.255.255.255", "2001:200::", "2001:db7:ffff::1", "2001:db9::1", "2003::1",
    "2400:cb00:2048:1::c629:d7a2", "2606:4700:4700::1111", "2a00:1450:4001:81b::200e", "3ffd:ffff::1",
]  # fmt: skip

REFUSED = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.0", "100.100.100.200", "100.127.255.255",
    "127.0.0.1", "127.255.255.255", "168.63.129.16", "169.254.169.254", "172.16.0.1", "172.31.255.255",
    "192.0.0.1", "192.0.0.10", "192.0.0.192", "192.0.2.1", "192.88.99.1", "192.168.1.1", "198.18.0.1",
    "198.19.255.255", "198.51.100.7", "203.0.113.9", "224.0.0.1", "239.255.255.255", "240.0.0.1",
    "255.255.255.255",
    "::", "::1", "::2", "::127.0.0.1", "::8.8.8.8", "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:8.8.8.8",
    "::ffff:0:127.0.0.1", "64:ff9b::7f00:1", "64:ff9b::8.8.8.8", "64:ff9b:1::1", "64:ff9b:2::1", "100::1",
    "200::1", "1fff:ffff::1", "2001::1", "2001:0:53aa:64c::1", "2001:2::1", "2001:10::1", "2001:20::1",
    "2001:1ff:ffff::1", "2001:db8::1", "2002:7f00:1::", "2002:808:808::1", "3ffe::1", "3fff::1",
    "3fff:fff:ffff::1", "4000::1", "5f00::1", "8000::1", "fc00::1", "fd00:ec2::254", "fdff::1", "fe80::1",
    "fe80::1%eth0", "2606:4700:4700::1111%1", "febf::1", "fec0::1", "feff::1", "ff02::1", "ff0e::1",
]  # fmt: skip

NOT_ADDRESSES = ["", "localhost", "127.1", "2130706433", "0x7f000001", "0177.0.0.1", "127.0.0.01", "::1::"]

NETWORKS: list[IPv4Network | IPv6Network] = [*REFUSED_IPV4, *REFUSED_IPV6]
IPV4 = st.integers(0, 2**32 - 1).map(IPv4Address)
IPV6 = st.integers(0, 2**128 - 1).map(IPv6Address)
IPV6_GLOBAL = st.integers(0x2 << 124, (0x4 << 124) - 1).map(IPv6Address)


def addresses_in(network: IPv4Network | IPv6Network) -> st.SearchStrategy[str]:
    first, last = int(network.network_address), int(network.broadcast_address)
    kind = IPv4Address if isinstance(network, IPv4Network) else IPv6Address
    return st.integers(first, last).map(lambda number: str(kind(number)))


@each_row("address", PUBLIC)
def test_a_public_address_may_be_connected_to(address: str) -> None:
    assert public_only(address, 443) is None


@each_row("address", REFUSED)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    reason = public_only(address, 443)

    assert reason is not None
    assert "is not public" in reason


@each_row("text", NOT_ADDRESSES)
def test_a_text_that_is_no_plain_address_is_refused(text: str) -> None:
    assert public_only(text, 443) == "the address cannot be read"


@given(st.sampled_from(NETWORKS).flatmap(addresses_in))
def test_every_address_inside_a_refused_network_is_refused(address: str) -> None:
    assert public_only(address, 443) is not None


@given(IPV4)
def test_an_ipv4_address_in_an_ipv6_spelling_is_refused(address: IPv4Address) -> None:
    number = int(address)
    disguises = [
        IPv6Address(number),
        IPv6Address(0xFFFF << 32 | number),
        IPv6Address(0x64FF9B << 96 | number),
        IPv6Address(0x2002 << 112 | number << 80),
        IPv6Address(0x20010000 << 96 | number ^ 0xFFFFFFFF),
    ]

    assert all(public_only(str(disguise), 443) is not None for disguise in disguises)


@given(IPV4 | IPV6 | IPV6_GLOBAL)
def test_an_allowed_address_is_global_by_the_standard_library_too(address: IPv4Address | IPv6Address) -> None:
    assert public_only(str(address), 443) is not None or ip_address(str(address)).is_global


@each_row("port", [80, 443, 1_024, 8_443, 65_535])
def test_the_ports_of_web_servers_are_open(port: int) -> None:
    assert public_only("8.8.8.8", port) is None


@each_row("port", [0, 1, 22, 25, 79, 81, 442, 444, 587, 1_023])
def test_the_ports_of_other_services_are_refused(port: int) -> None:
    assert public_only("8.8.8.8", port) == f"port {port} is not allowed"


def test_development_may_connect_anywhere() -> None:
    assert all(anywhere(address, 22) is None for address in [*REFUSED, *PUBLIC])


def test_the_factory_makes_no_socket_for_a_refused_address() -> None:
    factory = guarded_sockets(public_only)

    with pytest.raises(AddressRefusedError, match="loopback"):
        factory((socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", 8_080)))


@each_row(
    ("family", "address"),
    [(socket.AF_INET, ("8.8.8.8", 443)), (socket.AF_INET6, ("2606:4700:4700::1111", 443, 0, 0))],
)
def test_the_factory_makes_a_socket_for_an_allowed_address(
    family: socket.AddressFamily, address: tuple[str, int]
) -> None:
    made = guarded_sockets(public_only)((family, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", address))

    with made:
        assert (made.family, made.type) == (family, socket.SOCK_STREAM)
