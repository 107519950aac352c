"""The guard at work: whatever leads to an address that is not public, nothing is connected to."""

import socket
from dataclasses import replace

import aiohttp
import pytest
from aiohttp.abc import AbstractResolver, ResolveResult

from bridge_server.outbox.guarded_client import (
    AddressRefusedError,
    GuardedResolver,
    LookUp,
    Outcome,
    Rule,
    Verdict,
    guarded_sockets,
    look_up,
    public_only,
)
from bridge_server.outbox.models import OutgoingMessage
from bridge_server.outbox.sender import WebhookSender
from tests.outbox.running import HOOK, OPEN
from tests.support.rows import each_row
from tests.support.webhook_receiver import WebhookReceiver, open_receiver

GUARDED = replace(OPEN, allow_private=False)
PUBLIC = "93.184.216.34"


async def send(url: str, rule: Rule | None = None, look_up: LookUp = look_up) -> Outcome:
    async with WebhookSender(GUARDED, rule=rule, look_up=look_up) as sender:
        return await sender.send(OutgoingMessage("message-1", url, b"{}", HOOK), 0)


def only_127_0_0_1(address: str, port: int) -> str | None:
    """Stands for `public_only`, which lets nothing through that a test may connect to."""
    return None if address == "127.0.0.1" else f"the address {address} is not public (test)"


def always(*addresses: str) -> LookUp:
    return lambda host: list(addresses)


@each_row(
    "host",
    [
        *("127.0.0.1", "127.0.0.2", "0.0.0.0", "127。0。0。1", "0x7f.0.0.1", "localhost", "[::1]", "[::]"),
        *("[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]"),
    ],
)
async def test_every_spelling_of_this_machine_is_refused(receiver: WebhookReceiver, host: str) -> None:
    outcome = await send(receiver.url(host=host))

    assert outcome.verdict is Verdict.REFUSED
    assert "is not public" in outcome.reason
    assert receiver.requests == []


@each_row("host", ["127.1", "2130706433", "0177.0.0.1", "127.0.0.1.", "[fe80::1%25lo]"])
async def test_odd_spellings_of_addresses_are_refused(receiver: WebhookReceiver, host: str) -> None:
    outcome = await send(receiver.url(host=host))

    assert outcome.verdict is not Verdict.DELIVERED
    assert receiver.requests == []


async def test_a_port_of_another_service_is_refused() -> None:
    assert await send(f"http://{PUBLIC}:22/") == Outcome(Verdict.REFUSED, "port 22 is not allowed")


async def test_a_name_that_leads_to_this_machine_is_refused(receiver: WebhookReceiver) -> None:
    outcome = await send(receiver.url(host="innocent.test"), look_up=always("127.0.0.1"))

    assert outcome == Outcome(Verdict.REFUSED, "the address 127.0.0.1 is not public (loopback)")
    assert receiver.requests == []


async def test_a_name_whose_addresses_are_all_refused_is_refused(receiver: WebhookReceiver) -> None:
    outcome = await send(receiver.url(host="innocent.test"), look_up=always("::1", "127.0.0.1", "10.0.0.1"))

    assert outcome.verdict is Verdict.REFUSED
    assert receiver.requests == []


async def test_a_name_that_turns_to_this_machine_is_refused_from_then_on(receiver: WebhookReceiver) -> None:
    answers = iter([[PUBLIC], ["127.0.0.1"]])
    resolver = GuardedResolver(public_only, lambda host: next(answers))

    (first,) = await resolver.resolve("turning.test", receiver.port)

    assert first["host"] == PUBLIC
    with pytest.raises(AddressRefusedError, match="loopback"):
        await resolver.resolve("turning.test", receiver.port)


class _Careless(AbstractResolver):
    """Resolves every name to this machine, and checks nothing."""

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        return [ResolveResult(hostname=host, host="127.0.0.1", port=port, family=family, proto=0, flags=0)]

    async def close(self) -> None: ...


@each_row("host", ["careless.test", "127.0.0.1", "[::ffff:127.0.0.1]"])
async def test_the_sockets_are_guarded_even_if_the_resolver_is_not(
    receiver: WebhookReceiver, host: str
) -> None:
    connector = aiohttp.TCPConnector(resolver=_Careless(), socket_factory=guarded_sockets(public_only))

    async with aiohttp.ClientSession(connector=connector) as session:
        with pytest.raises(aiohttp.ClientConnectorError) as caught:
            await session.post(receiver.url(host=host))

    assert isinstance(caught.value.os_error, AddressRefusedError)
    assert receiver.requests == []


@pytest.mark.parametrize("addresses", [("127.0.0.1", "127.0.0.2", "::1"), ("::1", "127.0.0.2", "127.0.0.1")])
async def test_the_allowed_one_of_several_addresses_is_used(
    receiver: WebhookReceiver, addresses: tuple[str, ...]
) -> None:
    outcome = await send(receiver.url(host="mixed.test"), only_127_0_0_1, always(*addresses))

    assert outcome.verdict is Verdict.DELIVERED
    assert len(receiver.requests) == 1


@each_row("addresses", [("127.0.0.1", "127.0.0.2", "::1"), ("::1", "127.0.0.2", "127.0.0.1")])
async def test_a_failure_of_the_only_allowed_address_is_a_failure_to_connect(
    addresses: tuple[str, ...],
) -> None:
    async with open_receiver() as receiver:
        url = receiver.url(host="mixed.test")

    outcome = await send(url, only_127_0_0_1, always(*addresses))

    assert outcome.verdict is Verdict.FAILED
    assert outcome.reason.startswith("no connection: ")


async def test_a_name_without_addresses_is_a_failure() -> None:
    outcome = await send("http://empty.test/", look_up=always())

    assert outcome == Outcome(Verdict.FAILED, "the name does not resolve: the name has no address")


async def test_development_may_connect_to_this_machine(receiver: WebhookReceiver) -> None:
    async with WebhookSender(OPEN) as sender:
        message = OutgoingMessage("message-1", receiver.url(host="localhost"), b"{}", HOOK)
        outcome = await sender.send(message, 0)

    assert outcome.verdict is Verdict.DELIVERED
