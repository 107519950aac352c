"""Generation 2.x: who is sent what, how often and until when.

White-box: what a client has two seconds for has no setting, and a busy machine needs longer.
"""

import hashlib
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.pubsub.conftest import Join, irn_opened
from tests.support.asking import until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import (
    PATIENCE_SECONDS,
    TOKEN_TIME,
    Identity,
    irn_connected,
    topic_of,
)
from tests.support.webhook_receiver import WebhookReceiver

TOPIC, OTHER = topic_of("topic"), topic_of("other")


async def test_a_message_goes_to_who_is_there_at_both_paths(join: Join, server: RunningServer) -> None:
    identity = Identity()
    dapp, wallet, other = await join(), await join(identity), await join(path="/compat/v2")
    await wallet.subscribe(TOPIC)

    assert await dapp.publish(TOPIC, "sealed", tag=1108, attestation="signed") is True

    request = await wallet.request()
    assert request == {
        "id": request["id"],
        "jsonrpc": "2.0",
        "method": "irn_subscription",
        "params": {
            "id": hashlib.sha256(f"{TOPIC}{identity.did}".encode()).hexdigest(),
            "data": {
                "topic": TOPIC,
                "message": "sealed",
                "publishedAt": server.clock.now_ms(),
                "tag": 1108,
                "attestation": "signed",
            },
        },
    }
    assert 10**9 <= request["id"] < 2**53
    # An id is repeated exactly.
    for request_id in (0, 7, 2**53 + 1, 2**64 - 1, "7", "007", "1700000000000000001", str(2**64 - 1)):
        assert await other.publish(TOPIC, repr(request_id), request_id=request_id) is True
        assert await wallet.messages(1) == [repr(request_id)]


async def test_nobody_hears_their_own_on_any_socket(join: Join) -> None:
    identity = Identity()
    one, two, other = await join(identity), await join(identity), await join()
    for client in (one, two, other):
        await client.subscribe(TOPIC)

    await one.publish(TOPIC)

    assert await other.messages(1) == ["message"]
    await one.nothing()
    await two.nothing()
    assert await one.fetch(TOPIC) == {"messages": [], "hasMore": False}
    again = await join(identity)
    await again.subscribe(TOPIC)
    await again.nothing()


async def test_unacknowledged_messages_come_again_in_order_with_other_ids(join: Join) -> None:
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    await wallet.subscribe(TOPIC, OTHER)
    for number in range(6):
        await dapp.publish((TOPIC, OTHER)[number % 2], str(number))
    first = [await wallet.request() for _ in range(6)]
    await wallet.acknowledge(first[1])
    for request, answer in (
        (first[4], {"result": False}),
        (first[5], {"error": {"code": 1, "message": "no"}}),
    ):
        await wallet.send(id=request["id"], jsonrpc="2.0", **answer)  # only true is an acknowledgement
    await wallet.settled()
    await wallet.socket.close()

    again = await join(identity)
    await again.subscribe(TOPIC, OTHER)

    assert await again.messages(5, acknowledge=False) == ["0", "2", "3", "4", "5"]
    assert len({request["id"] for request in [*wallet.requests, *again.requests]}) == 11


async def test_a_client_that_does_not_subscribe_anew_is_sent_what_waits_all_the_same(join: Join) -> None:
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    await wallet.subscribe(TOPIC)
    await wallet.socket.close()
    await dapp.publish(TOPIC, "while away")
    again = await join(identity)

    assert await again.message() == "while away"
    await dapp.publish(TOPIC, "while there")
    assert await again.messages(1) == ["while there"]


@each_row(("ttl", "waits"), [(300, 300), (2**32 - 1, 30 * 86_400)], empties=True)
async def test_a_message_waits_its_time_and_at_most_thirty_days(
    join: Join, server: RunningServer, ttl: int, waits: int
) -> None:
    dapp, wallet = await join(), await join()
    for topic in (TOPIC, OTHER):
        await dapp.publish(topic, ttl=ttl)

    server.clock.advance(waits - 1)
    await wallet.subscribe(TOPIC)
    assert await wallet.messages(1) == ["message"]
    server.clock.advance(1)
    await wallet.subscribe(OTHER)
    await wallet.nothing()


async def test_a_fetch_delivers(join: Join, monkeypatch: pytest.MonkeyPatch) -> None:
    # Or all of it is sent as well.
    monkeypatch.setattr("bridge_server.pubsub.v2_calls.RESUME_SECONDS", 3_600.0)
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    await wallet.subscribe(TOPIC)
    await wallet.socket.close()
    await dapp.publish(TOPIC, "one")
    await dapp.publish(OTHER, "two")
    again = await join(identity)

    found = await again.fetch(TOPIC, OTHER)

    assert [message["message"] for message in found["messages"]] == ["one", "two"]
    assert set(found["messages"][0]) == {"topic", "message", "publishedAt", "tag"}
    assert found["hasMore"] is False
    assert (await again.ask("irn_fetchMessages", {"topic": TOPIC}))["messages"] == []
    await again.subscribe(TOPIC, OTHER)
    await again.nothing()


async def test_a_fetch_says_when_there_is_more(join: Join) -> None:
    dapp, wallet = await join(), await join()
    payloads = [f"{number}{'x' * 100_000}" for number in range(4)]
    for payload in payloads:
        await dapp.publish(TOPIC, payload)
    pages = [await wallet.fetch(TOPIC) for _ in range(2)]

    assert [page["hasMore"] for page in pages] == [True, False]
    assert [each["message"] for page in pages for each in page["messages"]] == payloads


async def test_receipts_acknowledge(join: Join) -> None:
    identity = Identity()
    dapp, wallet, sibling = await join(), await join(identity), await join(identity)
    await wallet.subscribe(TOPIC)
    for number in range(3):
        await dapp.publish(TOPIC, str(number))
    sent = [await wallet.request() for _ in range(3)]

    receipts = [{"topic": TOPIC, "message_id": sent[0]["id"]}, {"topic": OTHER, "message_id": sent[1]["id"]}]
    assert await wallet.ask("irn_batchReceive", {"receipts": receipts}) is True
    receipts = [{"topic": TOPIC, "message_id": str(sent[2]["id"])}, {"topic": TOPIC, "message_id": 1}]
    assert await sibling.ask("irn_batchReceive", {"receipts": receipts}) is True

    again = await join(identity)
    await again.subscribe(TOPIC)
    assert await again.messages(1) == ["1"]


async def test_a_batch_is_published_in_order(join: Join) -> None:
    dapp, wallet = await join(), await join()
    await wallet.subscribe(TOPIC)
    messages = [{"topic": TOPIC, "message": str(number), "ttl": 60} for number in range(500)]
    assert await dapp.ask("irn_batchPublish", {"messages": messages}) is True

    assert await wallet.messages(500) == [str(number) for number in range(500)]


async def test_subscriptions_are_answered_with_their_ids_and_a_batch_of_them_ends(join: Join) -> None:
    identity = Identity()
    dapp, wallet, other = await join(), await join(identity), await join()
    one, two = [hashlib.sha256(f"{topic}{identity.did}".encode()).hexdigest() for topic in (TOPIC, OTHER)]
    answers = {
        "irn_subscribe": one,
        "irn_subscribeBlocking": one,
        "iridium_subscribe": one,
        "irn_batchSubscribe": [one, two],
        "irn_batchSubscribeBlocking": [{"id": one}, {"id": two}],
    }
    params = {"topic": TOPIC, "topics": [TOPIC, OTHER]}
    assert {method: await wallet.ask(method, params) for method in answers} == answers

    ended = [{"topic": topic, "id": "x"} for topic in (TOPIC, OTHER)]
    assert await wallet.ask("irn_batchUnsubscribe", {"subscriptions": ended}) is True
    await dapp.publish(TOPIC)

    await wallet.nothing()
    await other.subscribe(TOPIC)
    assert await other.messages(1) == ["message"]


async def test_a_response_never_overtakes_the_answer_to_its_request(join: Join) -> None:
    dapp, wallet = await join(), await join()
    for client in (dapp, wallet):
        await client.subscribe(TOPIC)
    early = 0

    for number in range(50):
        call: dict[str, Any] = {"id": 1_000 + number, "jsonrpc": "2.0", "method": "irn_publish"}
        params = {"topic": TOPIC, "ttl": 60}
        await dapp.send(**call, params={**params, "message": f"request {number}"})
        await wallet.message()
        await wallet.send(**call, params={**params, "message": f"response {number}"})
        await dapp.answer(1_000 + number)
        early += len(dapp.requests) - number
        await dapp.message()
        await wallet.answer(1_000 + number)

    assert early == 0


async def test_a_subscription_lives_on_while_its_client_connects_and_then_expires(tmp_path: Path) -> None:
    day, identities = 86_400, [Identity(), Identity()]
    async with irn_opened(tmp_path, 1, subscription_ttl=2 * day) as (server, (dapp,)):
        connecting, other = [
            partial(
                irn_connected, server.client, server.url, each, token=each.token(exp=TOKEN_TIME + 7 * day)
            )
            for each in identities
        ]
        async with connecting() as wallet:
            await wallet.subscribe(TOPIC)
        server.clock.advance(1.5 * day)
        await dapp.publish(TOPIC, "one")
        async with connecting() as wallet:
            assert await wallet.messages(1) == ["one"]
        server.clock.advance(1.5 * day)
        await dapp.publish(TOPIC, "two")

        async with other() as client:
            await client.subscribe(TOPIC)
            await client.nothing()
            await client.socket.close()
            server.clock.advance(2 * day)
            await dapp.publish(TOPIC, "three")
        async with other() as client:
            await client.subscribe(OTHER)
            await client.nothing()


@pytest.mark.parametrize("answers_ping", [True, False])
async def test_a_message_waits_until_a_new_answer_was_read_but_not_without_end(
    join: Join, monkeypatch: pytest.MonkeyPatch, answers_ping: bool
) -> None:
    # An answer counts as new for two seconds, which a busy machine may need for the next message.
    monkeypatch.setattr("bridge_server.pubsub.v2_sockets._IS_NEW_SECONDS", 3_600.0)
    asking, answering = await join(), await join()
    await asking.subscribe(TOPIC)
    await asking.publish(TOPIC, "request")
    await answering.publish(TOPIC, "response")

    ping = await asking.socket.receive(PATIENCE_SECONDS)

    assert ping.type is aiohttp.WSMsgType.PING
    if answers_ping:
        await asking.socket.pong(ping.data)
        assert await asking.messages(1) == ["response"]
    else:
        assert (await asking.socket.receive(PATIENCE_SECONDS)).type is aiohttp.WSMsgType.TEXT


async def test_binary_frames_with_json_are_calls_and_acknowledgements(join: Join) -> None:
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    call = {"id": 7, "jsonrpc": "2.0", "method": "irn_subscribe", "params": {"topic": TOPIC}}
    await wallet.socket.send_bytes(orjson.dumps(call))
    await wallet.answer(7)

    await dapp.publish(TOPIC, "é")
    request = await wallet.request()
    await wallet.socket.send_bytes(orjson.dumps({"id": request["id"], "jsonrpc": "2.0", "result": True}))
    await wallet.settled()

    assert request["params"]["data"]["message"] == "é"
    again = await join(identity)
    await again.subscribe(TOPIC)
    await again.nothing()


@pytest.mark.parametrize("is_known", [False, True])
async def test_a_topic_subscribed_to_while_others_are_caught_up_with_is_sent_from_its_oldest_message_on(
    tmp_path: Path, is_known: bool
) -> None:
    identity, new, others = Identity(), topic_of("new"), [topic_of(name) for name in "abc"]
    async with irn_opened(tmp_path, 1, max_topic_messages=2) as (server, (dapp,)):
        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*others)
        await dapp.publish(new, "one")
        for topic in others:
            await dapp.publish(topic, "one")
            await dapp.publish(topic, "two")
        await dapp.publish(new, "two")

        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*others)
            # Before it acknowledges any, a socket is sent twice as many messages as may wait on a topic.
            first = [await wallet.request() for _ in range(4)]
            if is_known:
                await wallet.ask("irn_unsubscribe", {"topic": others[2], "id": ""})
                await dapp.publish(others[2], "three")
                await dapp.publish(others[2], "four")
            await wallet.subscribe(others[2] if is_known else new)
            for request in first:
                await wallet.acknowledge(request)

            later = [await wallet.request() for _ in range(2)]
            assert [each["params"]["data"]["topic"] for each in later] == [others[2]] * 2
            if is_known:
                assert [each["params"]["data"]["message"] for each in later] == ["three", "four"]
                await wallet.nothing()
            else:
                for request in later:
                    await wallet.acknowledge(request)
                assert await wallet.messages(2) == ["one", "two"]


@pytest.mark.parametrize("somebody_is_there", [True, False])
async def test_a_prompt_calls_the_webhooks_once_and_wakes_a_push_registration(
    join: Join, server: RunningServer, receiver: WebhookReceiver, somebody_is_there: bool
) -> None:
    dapp, wallet = await join(), await join()
    if somebody_is_there:
        await wallet.subscribe(TOPIC)
    await BridgeClient(server).subscribe(TOPIC, receiver.url("/hook"))

    for _ in range(2):
        await dapp.publish(TOPIC, request_id=1, prompt=True)
    await dapp.publish(TOPIC, prompt=False)
    await dapp.publish(TOPIC)
    await dapp.ask("wc_proposeSession", {"pairingTopic": TOPIC, "sessionProposal": "sealed"})
    await until_delivered(server)

    assert [request.body for request in receiver.requests] == [b'{"topic":"%s"}' % TOPIC.encode()] * 2
    registration = {
        "bridge": server.url, "topic": OTHER, "type": "webhook", "token": receiver.url("/device"),
        "peerName": "Example Dapp", "language": "en",
    }  # fmt: skip
    async with server.client.post(f"{server.url}/new", json=registration) as response:
        assert response.status == 200, await response.text()
    await dapp.publish(OTHER, prompt=True)
    await until_delivered(server)
    assert [request.path for request in receiver.requests[2:]] == ["/device"]
