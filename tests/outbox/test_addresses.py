"""The address guard: whatever leads to an address that is not public, nothing is connected to."""

import asyncio
import threading
from collections.abc import Sequence
from dataclasses import replace
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address

import aiohttp
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.outbox.guarded_client import (
    REFUSED_IPV4,
    REFUSED_IPV6,
    AddressRefusedError,
    GuardedResolver,
    LookUp,
    Outcome,
    ReservedSemaphore,
    Rule,
    Verdict,
    anywhere,
    guarded_sockets,
    look_up,
    public_only,
)
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import SenderSettings, WebhookSender
from tests.outbox.running import HOOK, OPEN
from tests.support.rows import each_row
from tests.support.waiting import turns
from tests.support.webhook_receiver import WebhookReceiver

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


def test_public_addresses_alone_may_be_connected_to() -> None:
    reasons = {address: public_only(address, 443) for address in (*PUBLIC, *REFUSED, *NOT_ADDRESSES)}

    assert [address for address, reason in reasons.items() if reason is None] == PUBLIC
    assert [address for address in REFUSED if "is not public" not in str(reasons[address])] == []
    assert {reasons[text] for text in NOT_ADDRESSES} == {"the address cannot be read"}


@given(st.sampled_from([*REFUSED_IPV4, *REFUSED_IPV6]), st.data())
def test_whole_networks_are_refused(network: IPv4Network | IPv6Network, choice: st.DataObject) -> None:
    address = network[choice.draw(st.integers(0, network.num_addresses - 1))]
    assert public_only(str(address), 443) is not None


@given(st.integers(0, 2**32 - 1))
def test_an_ipv4_address_in_an_ipv6_spelling_is_refused(number: int) -> None:
    compatible, mapped, translated = number, 0xFFFF << 32 | number, 0x64FF9B << 96 | number
    of_6to4, teredo = 0x2002 << 112 | number << 80, 0x20010000 << 96 | number ^ 0xFFFFFFFF
    for disguise in (compatible, mapped, translated, of_6to4, teredo):
        assert public_only(str(IPv6Address(disguise)), 443) is not None


IPV6_NUMBERS = st.integers(0, 2**128 - 1) | st.integers(0x2 << 124, (0x4 << 124) - 1)


@given(st.integers(0, 2**32 - 1).map(IPv4Address) | IPV6_NUMBERS.map(IPv6Address))
def test_an_allowed_address_is_global_by_the_standard_library_too(address: IPv4Address | IPv6Address) -> None:
    assert public_only(str(address), 443) is not None or ip_address(str(address)).is_global


def test_the_ports_of_web_servers_are_open_and_those_of_other_services_are_not() -> None:
    for port in (80, 443, 1_024, 8_443, 65_535):
        assert public_only("8.8.8.8", port) is None
    for port in (0, 1, 22, 25, 79, 81, 442, 444, 587, 1_023):
        assert public_only("8.8.8.8", port) == f"port {port} is not allowed"


GUARDED = replace(OPEN, allow_private=False)


async def send(
    url: str,
    addresses: Sequence[str] | None = None,
    rule: Rule | None = None,
    settings: SenderSettings = GUARDED,
) -> Outcome:
    """The outcome of a message to this URL, whose name has these addresses if any are given."""
    names: LookUp = look_up if addresses is None else lambda _: list(addresses)
    async with WebhookSender(settings, rule=rule, look_up=names) as sender:
        return await sender.send(OutgoingMessage("message-1", url, b"{}", HOOK), 0)


async def test_every_spelling_of_this_machine_and_other_ports_are_refused(receiver: WebhookReceiver) -> None:
    for host in (
        *("127.0.0.1", "127.0.0.2", "0.0.0.0", "127。0。0。1", "0x7f.0.0.1", "localhost", "[::1]", "[::]"),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    ):
        outcome = await send(receiver.url(host=host))
        assert outcome.verdict is Verdict.REFUSED, host
        assert "is not public" in outcome.reason, host
    for host in ("127.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "[fe80::1%25lo]"):
        assert (await send(receiver.url(host=host))).verdict is not Verdict.DELIVERED, host
    refused = Outcome(Verdict.REFUSED, "the address 127.0.0.1 is not public (loopback)")
    assert await send(receiver.url(host="innocent.test"), ["127.0.0.1"]) == refused
    assert await send("http://93.184.216.34:22/") == Outcome(Verdict.REFUSED, "port 22 is not allowed")
    failed = Outcome(Verdict.FAILED, "the name does not resolve: the name has no address")
    assert await send("http://empty.test/", []) == failed
    assert receiver.requests == []


async def test_sockets_are_guarded_even_if_the_resolver_is_not(receiver: WebhookReceiver) -> None:
    resolver = GuardedResolver(anywhere, lambda _: ["127.0.0.1"])
    connector = aiohttp.TCPConnector(resolver=resolver, socket_factory=guarded_sockets(public_only))

    async with aiohttp.ClientSession(connector=connector) as session:
        for host in ("careless.test", "127.0.0.1", "[::ffff:127.0.0.1]"):
            with pytest.raises(aiohttp.ClientConnectorError) as caught:
                await session.post(receiver.url(host=host))
            assert isinstance(caught.value.os_error, AddressRefusedError), host

    assert receiver.requests == []


async def test_the_allowed_one_of_several_addresses_is_used(receiver: WebhookReceiver) -> None:
    def only_127_0_0_1(address: str, port: int) -> str | None:
        """Stands for `public_only`, which lets nothing through that a test may connect to."""
        return None if address == "127.0.0.1" else f"the address {address} is not public (test)"

    addresses = ("127.0.0.1", "127.0.0.2", "::1")
    for order in (addresses, addresses[::-1]):
        outcome = await send(receiver.url(host="mixed.test"), order, only_127_0_0_1)
        assert outcome.verdict is Verdict.DELIVERED, order
    development = await send(receiver.url(host="localhost"), settings=OPEN)

    assert development.verdict is Verdict.DELIVERED
    assert len(receiver.requests) == 3


async def test_names_that_hang_do_not_hold_up_the_others() -> None:
    release = threading.Event()
    slow: list[str] = []

    def slow_but_for_one(host: str) -> list[str]:
        if host != "quick.test":
            slow.append(host)
            release.wait(120)
        return ["192.0.2.1"]

    resolver = GuardedResolver(anywhere, slow_but_for_one)
    await resolver.resolve("quick.test", 443)
    hanging = [asyncio.create_task(resolver.resolve(f"slow-{n}.test", 443)) for n in range(200)]
    try:
        await asyncio.sleep(0)

        async with asyncio.timeout(60):
            (found,) = await resolver.resolve("quick.test", 443)

        assert found["host"] == "192.0.2.1"
        assert not any(task.done() for task in hanging)
        assert len(slow) <= 48
    finally:
        release.set()
        await asyncio.gather(*hanging)


async def test_a_lookup_without_a_waiter_is_dropped() -> None:
    begun, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def slow(host: str) -> list[str]:
        threads.append(threading.current_thread())
        begun.set()
        release.wait(60)
        raise OSError("too late")

    resolver = GuardedResolver(anywhere, slow)
    waiting = asyncio.create_task(resolver.resolve("slow.test", 443))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    release.set()
    await asyncio.to_thread(threads[0].join)
    await turns()  # its answer finds no waiter
    await resolver.close()


async def taken_at_once(places: ReservedSemaphore, key: str, asked: int) -> int:
    """How many of `asked` places are given without waiting."""
    tasks = [asyncio.create_task(places.take(key)) for _ in range(asked)]
    await asyncio.sleep(0)
    given = sum(task.done() for task in tasks)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return given


async def test_strangers_and_keys_that_failed_cannot_take_the_reserved_places() -> None:
    places = ReservedSemaphore(total=10, kept=3)
    for key, went_well in (("good", True), ("bad", True), ("bad", False)):
        places.note(key, went_well)

    assert await taken_at_once(places, "bad", 20) == 7
    assert await taken_at_once(places, "good", 20) == 3


@each_row("well", [True, False])
async def test_a_returned_place_goes_to_the_first_waiter(well: bool) -> None:
    places = ReservedSemaphore(total=1, kept=0)
    places.note("key", well)
    leave = await places.take("key")
    first, second = (asyncio.create_task(places.take("key")) for _ in range(2))
    await asyncio.sleep(0)

    leave()
    await asyncio.wait([first])

    assert not second.done()
    first.result()()
    await second


async def test_a_wait_that_is_cancelled_takes_no_place() -> None:
    places = ReservedSemaphore(total=2, kept=0)
    places.note("good", True)
    held = [await places.take("good"), await places.take("good")]
    assert await taken_at_once(places, "stranger", 1) == 0

    for leave in held:
        leave()

    assert await taken_at_once(places, "stranger", 3) == 2


async def test_only_the_outcomes_of_the_keys_used_last_are_remembered() -> None:
    places = ReservedSemaphore(total=2, kept=2)
    for number in range(10_001):
        places.note(str(number), True)

    assert [await taken_at_once(places, key, 1) for key in ("0", "1", "10000")] == [0, 1, 1]
