"""Frames and messages that make no sense, from a bridge, a relay or the other side: a session lives on."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from bridge_server.kit.client import AnswerTimeoutError
from bridge_server.kit.client.v1 import SocketCipher, peer
from bridge_server.kit.client.v2_protocol import parse_relay_pairing
from tests.client.fake_relay import FakeRelay, fake_relay
from tests.client.pairs import ACCOUNT
from tests.client.relay_frames import acknowledged, count_of, delivery, publication, settled, subscribed
from tests.client.socket_pairs import dapp_at, wallet_for
from tests.support.eventually import eventually

NONSENSE: list[Any] = [None, [], {}, [[]], {"a": {}}, 1.5, True, "", "no", 2**63]
METHODS = [
    "wc_sessionPropose",
    "wc_sessionRequest",
    "wc_sessionSettle",
    "wc_sessionUpdate",
    "wc_sessionEvent",
    "eth_sign",
]


@pytest.fixture
async def fake() -> AsyncIterator[FakeRelay]:
    async with fake_relay() as fake:
        yield fake


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
async def test_a_session_of_2_x_lives_on(fake: FakeRelay, nonsense: Any) -> None:
    async with dapp_at(fake.url, "2.x") as dapp, wallet_for(dapp, fake.url) as wallet:
        await eventually(count_of(fake, "irn_batchSubscribe", 2))
        pairing = parse_relay_pairing(dapp.uri).topic_key
        key = await settled(dapp, fake)
        contents = [nonsense, *requests_with(nonsense), *responses_with(nonsense)]
        data: list[Any] = [
            {"topic": own.topic, "message": own.seal(content)}
            for own in (pairing, key)
            for content in contents
        ]
        data += [{"topic": nonsense, "message": ""}, {"topic": key.topic, "message": nonsense}, nonsense]
        await fake.say(
            "{",
            orjson.dumps(nonsense).decode(),
            {"id": nonsense, "result": True},
            {"id": 1, "method": nonsense},
            {"id": 1, "method": "irn_subscription", "params": nonsense},
            *(delivery(number, each) for number, each in enumerate(data, 20)),
            delivery(9_999, {"topic": "0" * 64, "message": "for nobody here"}),
        )

        await eventually(acknowledged(fake, 9_999, times=2))
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        with pytest.raises(AnswerTimeoutError):
            await wallet.proposal(timeout=0.01)


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
async def test_a_session_of_1_x_lives_on(fake: FakeRelay, nonsense: Any) -> None:
    async with dapp_at(fake.url, "1.x") as dapp, wallet_for(dapp, fake.url) as wallet:
        cipher = SocketCipher(dapp.pairing.key)
        sound = {"method": "wc_sessionRequest", "params": [peer("dapp-topic", "Sound Dapp", "")], "id": 1}
        requests = [each for each in requests_with(nonsense) if not is_end_of_1_x(each)]
        contents = [nonsense, *requests, *responses_with(nonsense), sound]

        async def connected() -> bool:
            return len(subscribed(fake)) == 3

        await eventually(connected)
        for topic in subscribed(fake):
            await fake.say(
                "{",
                orjson.dumps(nonsense).decode(),
                {"topic": nonsense, "payload": ""},
                {"topic": topic, "payload": nonsense},
                *(publication(topic, cipher.seal(content)) for content in contents),
            )

        assert (await wallet.proposal()).name == "Sound Dapp"
        with pytest.raises(AnswerTimeoutError):
            await dapp.approval(timeout=0.01)


def requests_with(nonsense: Any) -> list[dict[str, Any]]:
    """Requests of both generations, with the nonsense in each of their places."""
    deep = [
        {"request": nonsense, "chainId": "eip155:1"},
        {"request": {"method": nonsense}, "chainId": nonsense},
        {"event": nonsense, "chainId": nonsense},
        {"event": {"name": nonsense}, "chainId": nonsense},
        {"namespaces": nonsense},
        {"namespaces": {"eip155": nonsense}},
        {"namespaces": {"eip155": {"accounts": nonsense, "methods": 1, "events": nonsense}}},
        {"proposer": nonsense},
        {"proposer": {"publicKey": nonsense, "metadata": nonsense}},
        {"peerId": [nonsense], "peerMeta": nonsense},
    ]
    params = [nonsense, *deep, *([each] for each in deep)]
    requests = [{"id": nonsense, "method": method, "params": each} for method in METHODS for each in params]
    return [*requests, {"id": nonsense, "method": nonsense, "params": nonsense}]


def responses_with(nonsense: Any) -> list[dict[str, Any]]:
    """Responses to nothing that was asked."""
    return [{"id": nonsense, "result": nonsense}, {"id": nonsense, "error": nonsense}]


def is_end_of_1_x(request: dict[str, Any]) -> bool:
    """Whether generation 1.x ends a session by it: by each update that does not say `approved`."""
    match request:
        case {"method": "wc_sessionUpdate", "params": [dict(), *_]}:
            return True
        case _:
            return False
