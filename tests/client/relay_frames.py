"""What a test says in the place of a bridge, a relay, or the wallet behind it; and what it looks for."""

from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from bridge_server.kit.client import Dapp
from bridge_server.kit.client.v2_protocol import (
    KeyPair,
    TopicKey,
    approved,
    parse_relay_pairing,
    read_public_key,
)
from tests.client.fake_relay import FakeRelay, Frame
from tests.client.pairs import ACCOUNT


def delivery(number: int, data: Any) -> Frame:
    """A message of generation 2.x."""
    return {"id": number, "jsonrpc": "2.0", "method": "irn_subscription", "params": {"id": "", "data": data}}


def publication(topic: str, payload: Any) -> Frame:
    """A message of generation 1.x."""
    return {"topic": topic, "type": "pub", "payload": orjson.dumps(payload).decode()}


def subscribed(fake: FakeRelay) -> list[str]:
    """The topics of generation 1.x to which the clients have subscribed."""
    return [frame["topic"] for frame in fake.frames if frame["type"] == "sub"]


async def settled(dapp: Dapp, fake: FakeRelay) -> TopicKey:
    """The key of a session that the test, as the wallet, has settled with the dapp."""
    pairing, own = parse_relay_pairing(dapp.uri).topic_key, KeyPair()
    proposal = pairing.open(fake.of("wc_proposeSession")[0]["params"]["sessionProposal"])
    key = TopicKey(own.symmetric_key(read_public_key(proposal["params"]["proposer"]["publicKey"])))
    answer = {"id": proposal["id"], "result": {"responderPublicKey": own.public.hex()}}
    namespaces = approved(proposal["params"], [ACCOUNT], 1)
    settlement = {"id": 9, "method": "wc_sessionSettle", "params": {"namespaces": namespaces}}
    await fake.say(
        delivery(10, {"topic": pairing.topic, "message": pairing.seal(answer)}),
        delivery(11, {"topic": key.topic, "message": key.seal(settlement)}),
    )
    await dapp.approval()
    return key


def count_of(fake: FakeRelay, method: str, times: int) -> Callable[[], Awaitable[bool]]:
    """Whether so many frames of the method have come."""

    async def holds() -> bool:
        return len(fake.of(method)) == times

    return holds


def acknowledged(fake: FakeRelay, number: int, times: int = 1) -> Callable[[], Awaitable[bool]]:
    """Whether so many clients have acknowledged the delivery."""

    async def holds() -> bool:
        return [frame["id"] for frame in fake.frames if frame.get("result") is True].count(number) == times

    return holds
