"""Bridges and relays over WebSockets that refuse, break off, lie, or are not there."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from typing import Any

import orjson
import pytest

from bridge_server.client import (
    AnswerTimeoutError,
    BridgeUnreachableError,
    Dapp,
    Generation,
    RequestRefusedError,
)
from bridge_server.client.v1.cipher import SocketCipher
from bridge_server.client.v1.messages import peer
from bridge_server.client.v2.envelope import TopicKey
from bridge_server.client.v2.keys import KeyPair, read_public_key
from bridge_server.client.v2.namespaces import approved
from bridge_server.client.v2.uri import parse_relay_pairing
from tests.client.fake_relay import (
    FakeRelay,
    Frame,
    breaking_off_at,
    closing_with,
    fake_relay,
    refusing,
)
from tests.client.pairs import ACCOUNT, BRISK
from tests.client.socket_pairs import dapp_at, wallet_for
from tests.support.eventually import eventually

IMPATIENT = replace(BRISK, patience_seconds=0.2)


@pytest.fixture
async def fake() -> AsyncIterator[FakeRelay]:
    async with fake_relay() as fake:
        yield fake


@pytest.fixture(params=["1.x", "2.x"])
def generation(request: pytest.FixtureRequest) -> Generation:
    """Each generation over a WebSocket."""
    chosen: Generation = request.param
    return chosen


@pytest.mark.parametrize("status", [400, 401, 403, 404])
async def test_a_connection_that_is_refused_is_not_tried_again(
    fake: FakeRelay, generation: Generation, status: int
) -> None:
    fake.statuses = [status] * 2

    with pytest.raises(RequestRefusedError) as refusal:
        await dapp_at(fake.url, generation).__aenter__()

    assert refusal.value.status == status
    assert len(fake.statuses) == 1


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_a_bridge_that_cannot_now_is_tried_again(
    fake: FakeRelay, generation: Generation, status: int
) -> None:
    fake.statuses = [status] * 3

    async with dapp_at(fake.url, generation):
        assert (fake.statuses, fake.connections) == ([], 1)


async def test_a_close_code_from_3000_on_means_for_good(fake: FakeRelay) -> None:
    fake.react = closing_with(3000, "unknown project", "wc_proposeSession")

    with pytest.raises(RequestRefusedError, match="unknown project") as refusal:
        await dapp_at(fake.url, "2.x", project_id="nobody").__aenter__()

    assert (refusal.value.status, fake.connections) == (3000, 1)


async def test_a_wallet_whose_connection_is_refused_learns_it(
    fake: FakeRelay, generation: Generation
) -> None:
    async with dapp_at(fake.url, generation) as dapp:
        fake.statuses = [401]
        async with wallet_for(dapp, fake.url) as wallet:
            with pytest.raises(RequestRefusedError):
                await wallet.proposal()
            with pytest.raises(RequestRefusedError):
                _ = [call async for call in wallet.calls()]


async def test_a_bridge_that_is_not_there_is_unreachable(generation: Generation) -> None:
    with pytest.raises(BridgeUnreachableError, match="cannot be used"):
        await dapp_at("http://127.0.0.1:9", generation, pace=IMPATIENT).__aenter__()


async def test_a_bridge_that_never_confirms_is_unreachable(fake: FakeRelay, generation: Generation) -> None:
    fake.react = breaking_off_at(1_000, "wc_proposeSession", "pub")

    with pytest.raises(BridgeUnreachableError):
        await dapp_at(fake.url, generation, pace=IMPATIENT).__aenter__()

    assert fake.connections > 1


async def test_a_relay_is_called_with_the_same_id_until_it_answers(fake: FakeRelay) -> None:
    fake.react = breaking_off_at(2, "wc_proposeSession")

    async with dapp_at(fake.url, "2.x") as dapp:
        proposals = fake.of("wc_proposeSession")

        assert len(proposals) == 3
        assert proposals[0] == proposals[1] == proposals[2]
        assert proposals[0]["params"]["pairingTopic"] == parse_relay_pairing(dapp.uri).topic_key.topic


async def test_topics_are_subscribed_again_with_each_connection(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        topic = parse_relay_pairing(dapp.uri).topic_key.topic
        for times in (1, 2, 3):
            await eventually(_count(fake, "irn_batchSubscribe", times))
            await fake.break_off()

    assert [frame["params"] for frame in fake.of("irn_batchSubscribe")] == [{"topics": [topic]}] * 3


async def test_a_refused_subscription_is_tried_again(fake: FakeRelay) -> None:
    fake.react = refusing(-32_000, "SubscriberLimitExceeded", "irn_batchSubscribe", times=2)

    async with dapp_at(fake.url, "2.x"):
        await eventually(_count(fake, "irn_batchSubscribe", 3))


async def test_what_a_relay_refuses_has_its_code_and_text(fake: FakeRelay) -> None:
    fake.react = refusing(-32_000, "MailboxLimitExceeded: too much waits", "wc_proposeSession")

    with pytest.raises(RequestRefusedError, match="too much waits") as refusal:
        await dapp_at(fake.url, "2.x").__aenter__()

    assert refusal.value.status == -32_000


async def test_a_message_that_is_too_large_is_refused(fake: FakeRelay, generation: Generation) -> None:
    fake.react = closing_with(1009, "too large", "wc_proposeSession", "pub")

    with pytest.raises(RequestRefusedError, match="larger than the") as refusal:
        await dapp_at(fake.url, generation).__aenter__()

    assert refusal.value.status == 1009


async def test_a_session_request_of_1_x_is_published_until_its_pong(fake: FakeRelay) -> None:
    fake.react = breaking_off_at(2, "pub")

    async with dapp_at(fake.url, "1.x"):
        published = [frame for frame in fake.frames if frame["type"] == "pub"]

        assert len(published) == 3
        assert published[0] == published[1] == published[2]


async def test_a_call_of_1_x_that_the_bridge_may_have_taken_is_not_published_again(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "1.x") as dapp:
        cipher = SocketCipher(dapp.pairing.key)
        request = _opened(cipher, fake, "pub")
        approval = {"approved": True, "accounts": [ACCOUNT], "chainId": 1, **peer("wallet-topic", "W", "")}
        await fake.say(_publication(fake, cipher.seal({"id": request["id"], "result": approval})))
        await dapp.approval()
        fake.react = breaking_off_at(1, "pub")

        with pytest.raises(BridgeUnreachableError, match="may have taken"):
            await dapp.call("personal_sign", [])
        calls = [frame for frame in fake.frames if frame["topic"] == "wallet-topic"]
        assert len(calls) == 1
        assert calls[0]["silent"] is False


async def test_what_makes_no_sense_is_passed_over(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        topic_key = parse_relay_pairing(dapp.uri).topic_key
        deliveries: list[Any] = [
            {"topic": "0" * 64, "message": "for nobody here"},
            {"topic": topic_key.topic, "message": "no envelope"},
            {"topic": topic_key.topic, "message": topic_key.seal([])},
            {"topic": topic_key.topic, "message": topic_key.seal({"id": 1, "result": {}})},
        ]
        await fake.say(
            "{",
            "[]",
            {"id": 1, "method": "irn_subscription", "params": []},
            {"id": 2, "result": True},
            *(_delivery(number, data) for number, data in enumerate(deliveries, 10)),
        )

        async def acknowledged() -> bool:
            answers = [frame["id"] for frame in fake.frames if frame.get("result") is True]
            return answers == [10, 11, 12, 13]

        await eventually(acknowledged)
        with pytest.raises(AnswerTimeoutError):
            await dapp.approval(timeout=0.01)


async def test_a_message_that_comes_twice_is_taken_once(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        key = await _settled(dapp, fake)
        events = [
            {"id": number, "method": "wc_sessionEvent", "params": {"event": {"name": name}, "chainId": "a:1"}}
            for number, name in ((1, "first"), (2, "second"))
        ]
        first, second = ({"topic": key.topic, "message": key.seal(event)} for event in events)
        await fake.say(_delivery(20, first), _delivery(21, first), _delivery(22, second))
        told = dapp.events()

        assert [(await anext(told)).name, (await anext(told)).name] == ["first", "second"]


async def test_a_dapp_refuses_what_only_a_dapp_may_ask(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "2.x") as dapp:
        key = await _settled(dapp, fake)
        call = {"id": 1, "method": "wc_sessionRequest", "params": {"request": {"method": "eth_sign"}}}
        wrong = {"id": 2, "method": "wc_sessionEvent", "params": {"event": "none"}}
        update = {"id": 3, "method": "wc_sessionUpdate", "params": {"namespaces": {}}}
        messages = [{"topic": key.topic, "message": key.seal(content)} for content in (call, wrong, update)]
        approval = await dapp.approval()
        await fake.say(*(_delivery(number, data) for number, data in enumerate(messages, 20)))

        async def acknowledged() -> bool:
            return [frame["id"] for frame in fake.frames if frame.get("result") is True][-3:] == [20, 21, 22]

        await eventually(acknowledged)
        assert await dapp.approval() == approval


async def test_frames_of_1_x_that_make_no_sense_are_passed_over(fake: FakeRelay) -> None:
    async with dapp_at(fake.url, "1.x") as dapp:
        cipher = SocketCipher(dapp.pairing.key)
        contents: list[Any] = [[], {"method": "wc_sessionUpdate", "params": []}, {"id": 1, "result": {}}]
        await fake.say("{", "[]", "{}", _publication(fake, "{"))
        await fake.say(*(_publication(fake, cipher.seal(content)) for content in contents))

        async def acknowledged() -> bool:
            return len([frame for frame in fake.frames if frame["type"] == "ack"]) == 4

        await eventually(acknowledged)


async def test_leaving_while_the_bridge_is_away_does_not_wait(
    fake: FakeRelay, generation: Generation
) -> None:
    async with asyncio.timeout(5), dapp_at(fake.url, generation):
        fake.statuses = [503] * 1_000
        await fake.break_off()


async def _settled(dapp: Dapp, fake: FakeRelay) -> TopicKey:
    """The key of a session that the test, as the wallet, has settled with the dapp."""
    pairing, own = parse_relay_pairing(dapp.uri).topic_key, KeyPair()
    proposal = pairing.open(fake.of("wc_proposeSession")[0]["params"]["sessionProposal"])
    key = TopicKey(own.symmetric_key(read_public_key(proposal["params"]["proposer"]["publicKey"])))
    answer = {"id": proposal["id"], "result": {"responderPublicKey": own.public.hex()}}
    namespaces = approved(proposal["params"], [ACCOUNT], 1)
    settlement = {"id": 9, "method": "wc_sessionSettle", "params": {"namespaces": namespaces}}
    await fake.say(
        _delivery(10, {"topic": pairing.topic, "message": pairing.seal(answer)}),
        _delivery(11, {"topic": key.topic, "message": key.seal(settlement)}),
    )
    await dapp.approval()
    return key


def _count(fake: FakeRelay, method: str, times: int) -> Callable[[], Awaitable[bool]]:
    async def holds() -> bool:
        return len(fake.of(method)) == times

    return holds


def _opened(cipher: SocketCipher, fake: FakeRelay, kind: str) -> Any:
    return cipher.open(next(frame["payload"] for frame in fake.frames if frame["type"] == kind))


def _publication(fake: FakeRelay, payload: Any) -> Frame:
    """A message of generation 1.x on the topic to which the client has subscribed."""
    topic = next(frame["topic"] for frame in fake.frames if frame["type"] == "sub")
    text = payload if isinstance(payload, str) else orjson.dumps(payload).decode()
    return {"topic": topic, "type": "pub", "payload": text}


def _delivery(number: int, data: dict[str, Any]) -> Frame:
    return {"id": number, "jsonrpc": "2.0", "method": "irn_subscription", "params": {"id": "", "data": data}}
