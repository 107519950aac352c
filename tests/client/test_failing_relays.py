"""Bridges and relays over WebSockets that refuse, break off, lie, say nonsense, or are not there."""

import asyncio
import itertools
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any

import orjson
import pytest

from bridge_server.kit import client
from bridge_server.kit.client import Generation
from bridge_server.kit.client.v1 import SocketCipher, peer
from bridge_server.kit.client.v2_protocol import parse_relay_pairing
from tests.client import fake_relay
from tests.client.fake_relay import FakeRelay, breaking_off_at, delivery, publication, refusing
from tests.client.pairs import ACCOUNT, BRISK, dapp_at, wallet_for
from tests.support.clock import PassTime
from tests.support.rows import each_row
from tests.support.waiting import eventually, turns

NONSENSE: list[Any] = [None, [], [[]], {"a": {}}, 1.5, True, "no", 2**63]
METHODS = [*(f"wc_session{each}" for each in ("Propose", "Request", "Settle", "Update", "Event")), "eth_sign"]


@pytest.fixture
async def fake() -> AsyncIterator[FakeRelay]:
    async with fake_relay.open_fake_relay() as fake:
        yield fake


@pytest.fixture(params=["1.x", "2.x"])
def generation(request: pytest.FixtureRequest) -> Generation:
    chosen: Generation = request.param
    return chosen


async def test_a_busy_bridge_is_tried_again_a_refusal_final(fake: FakeRelay, generation: Generation) -> None:
    for connections, status in enumerate((429, 500, 502, 503), 1):
        fake.statuses = [status] * 3
        async with dapp_at(fake.url, generation):
            assert (fake.statuses, fake.connections) == ([], connections)
    for status in (400, 401, 403, 404):
        fake.statuses = [status] * 2
        with pytest.raises(client.RequestRefusedError) as refusal:
            await dapp_at(fake.url, generation).__aenter__()
        assert (refusal.value.status, len(fake.statuses)) == (status, 1)


@each_row(
    ("react", "status", "reason"),
    [
        (refusing(-32_000, "Mailbox: too much waits", "wc_proposeSession"), -32_000, "too much waits"),
        (fake_relay.closing_with(3000, "unknown project", "wc_proposeSession"), 3000, "unknown project"),
        (fake_relay.closing_with(1009, "too large", "wc_proposeSession"), 1009, "larger than the"),
    ],
)
async def test_a_refusal_of_a_relay_is_final_and_has_its_reason(
    fake: FakeRelay, react: fake_relay.Reaction, status: int, reason: str
) -> None:
    fake.react = react
    with pytest.raises(client.RequestRefusedError, match=reason) as refusal:
        await dapp_at(fake.url, "2.x").__aenter__()
    assert refusal.value.status == status


async def test_a_wallet_whose_connection_is_refused_knows(fake: FakeRelay, generation: Generation) -> None:
    async with dapp_at(fake.url, generation) as dapp:
        fake.statuses = [401]
        async with wallet_for(dapp, fake.url) as wallet:
            with pytest.raises(client.RequestRefusedError):
                await wallet.proposal()
            with pytest.raises(client.RequestRefusedError):
                _ = [call async for call in wallet.calls()]


async def test_a_bridge_that_is_not_there_is_unreachable(generation: Generation) -> None:
    impatient = replace(BRISK, patience_seconds=0.2)
    with pytest.raises(client.BridgeUnreachableError, match="cannot be used"):
        await dapp_at("http://127.0.0.1:9", generation, pace=impatient).__aenter__()


async def test_a_bridge_that_never_confirms_is_unreachable(
    fake: FakeRelay, generation: Generation, pass_time: PassTime
) -> None:
    fake.react = breaking_off_at(1_000_000, "wc_proposeSession", "pub")
    entering = asyncio.create_task(dapp_at(fake.url, generation).__aenter__())
    await eventually(lambda: fake.connections > 1)
    await pass_time(BRISK.patience_seconds)
    with pytest.raises(client.BridgeUnreachableError):
        await entering


@each_row(("generation", "kind"), [("1.x", "pub"), ("2.x", "wc_proposeSession")])
async def test_a_request_is_sent_until_confirmed(fake: FakeRelay, generation: Generation, kind: str) -> None:
    fake.react = breaking_off_at(2, kind)
    async with dapp_at(fake.url, generation) as dapp:
        sent = [frame for frame in fake.frames if frame.get("method", frame.get("type")) == kind]
        assert len(sent) == 3
        assert sent[0] == sent[1] == sent[2]
        if generation == "2.x":
            assert sent[0]["params"]["pairingTopic"] == parse_relay_pairing(dapp.uri).topic_key.topic


async def test_topics_are_subscribed_again_with_each_connection(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        topic = parse_relay_pairing(dapp.uri).topic_key.topic
        for times in (1, 2):
            await fake.got("irn_batchSubscribe", times)
            await fake.break_off()
        await fake.got("irn_batchSubscribe", 3)
    assert [frame["params"] for frame in fake.of("irn_batchSubscribe")] == [{"topics": [topic]}] * 3


async def test_a_refused_subscription_is_tried_again(fake: FakeRelay) -> None:
    fake.react = refusing(-32_000, "SubscriberLimitExceeded", "irn_batchSubscribe", times=2)
    async with dapp_at(fake.url, "2.x"):
        await fake.got("irn_batchSubscribe", 3)


async def test_a_call_of_1_x_that_the_bridge_may_have_taken_is_not_published_again(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "1.x") as dapp:
        cipher = SocketCipher(dapp.pairing.key)
        request = cipher.open(next(frame["payload"] for frame in fake.frames if frame["type"] == "pub"))
        approval = {"approved": True, "accounts": [ACCOUNT], "chainId": 1, **peer("wallet-topic", "W", "")}
        answer = cipher.seal({"id": request["id"], "result": approval})
        await fake.say(publication(fake.topics()[0], answer))
        await dapp.approval()
        fake.react = breaking_off_at(1, "pub")
        with pytest.raises(client.BridgeUnreachableError, match="may have taken"):
            await dapp.call("personal_sign", [])
        calls = [frame for frame in fake.frames if frame["topic"] == "wallet-topic"]
        assert len(calls) == 1
        assert calls[0]["silent"] is False


async def test_a_message_that_comes_twice_is_taken_once(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        key = await fake_relay.settled(dapp, fake)
        events = [
            {"id": number, "method": "wc_sessionEvent", "params": {"event": {"name": name}, "chainId": "a:1"}}
            for number, name in ((1, "first"), (2, "second"))
        ]
        first, second = ({"topic": key.topic, "message": key.seal(event)} for event in events)
        await fake.say(delivery(20, first), delivery(21, first), delivery(22, second))
        told = dapp.events()
        assert [(await anext(told)).name, (await anext(told)).name] == ["first", "second"]


async def test_a_dapp_refuses_what_only_a_dapp_may_ask(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        key = await fake_relay.settled(dapp, fake)
        call = {"id": 1, "method": "wc_sessionRequest", "params": {"request": {"method": "eth_sign"}}}
        wrong = {"id": 2, "method": "wc_sessionEvent", "params": {"event": "none"}}
        update = {"id": 3, "method": "wc_sessionUpdate", "params": {"namespaces": {}}}
        messages = [{"topic": key.topic, "message": key.seal(content)} for content in (call, wrong, update)]
        approval = await dapp.approval()
        await fake.say(*(delivery(number, data) for number, data in enumerate(messages, 20)))
        await fake.acknowledged(22)
        assert await dapp.approval() == approval


@pytest.mark.parametrize("count", range(8))
async def test_leaving_can_be_cancelled(fake: FakeRelay, generation: Generation, count: int) -> None:
    dapp = dapp_at(fake.url, generation)
    await dapp.__aenter__()
    leaving = asyncio.create_task(dapp.__aexit__(None, None, None))
    await turns(count)
    was_cancelled = leaving.cancel()
    await asyncio.wait([leaving])
    assert leaving.cancelled() is was_cancelled
    await dapp.__aexit__(None, None, None)


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
async def test_a_session_of_2_x_lives_on(fake: FakeRelay, nonsense: Any) -> None:
    async with dapp_at(fake.url, "2.x") as dapp, wallet_for(dapp, fake.url) as wallet:
        await fake.got("irn_batchSubscribe", 2)
        pairing = parse_relay_pairing(dapp.uri).topic_key
        key = await fake_relay.settled(dapp, fake)
        contents = [nonsense, *requests_with(nonsense), *responses_with(nonsense)]
        sealed = itertools.product((pairing, key), contents)
        data: list[Any] = [{"topic": own.topic, "message": own.seal(content)} for own, content in sealed]
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

        await fake.acknowledged(9_999, times=2)
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        with pytest.raises(client.AnswerTimeoutError):
            await wallet.proposal(timeout=0.01)


@pytest.mark.parametrize("nonsense", NONSENSE, ids=repr)
async def test_a_session_of_1_x_lives_on(fake: FakeRelay, nonsense: Any) -> None:
    async with dapp_at(fake.url, "1.x") as dapp, wallet_for(dapp, fake.url) as wallet:
        cipher = SocketCipher(dapp.pairing.key)
        sound = {"method": "wc_sessionRequest", "params": [peer("dapp-topic", "Sound Dapp", "")], "id": 1}
        requests = [each for each in requests_with(nonsense) if not ends_1_x(each)]
        contents = [nonsense, *requests, *responses_with(nonsense), sound]

        await eventually(lambda: len(fake.topics()) == 3)
        for topic in fake.topics():
            await fake.say(
                "{",
                orjson.dumps(nonsense).decode(),
                {"topic": nonsense, "payload": ""},
                {"topic": topic, "payload": nonsense},
                *(publication(topic, cipher.seal(content)) for content in contents),
            )

        assert (await wallet.proposal()).name == "Sound Dapp"
        with pytest.raises(client.AnswerTimeoutError):
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


def ends_1_x(request: dict[str, Any]) -> bool:
    """Whether generation 1.x ends a session by it: by each update that does not say `approved`."""
    params = request["params"]
    of_update = request["method"] == "wc_sessionUpdate" and isinstance(params, list)
    return of_update and isinstance(next(iter(params), None), dict)
