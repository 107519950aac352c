"""Generation 2.x: who is sent what, how often and until when."""

import hashlib
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from tests.pubsub.conftest import Join, irn_opened
from tests.support.asking import until_delivered
from tests.support.bridge_client import BridgeClient
from tests.support.rows import each_row
from tests.support.server import RunningServer, running_server
from tests.support.socket_client import (
    PATIENCE_SECONDS,
    TOKEN_TIME,
    Identity,
    IrnClient,
    irn_connected,
    topic_of,
)
from tests.support.webhook_receiver import WebhookReceiver

# Publishing, subscribing, acknowledging: who is sent what, how often and until when.


TOPIC, OTHER = topic_of("topic"), topic_of("other")


async def test_a_message_goes_to_who_is_there(join: Join, server: RunningServer) -> None:
    wallet_identity = Identity()
    dapp, wallet = await join(), await join(wallet_identity)
    await wallet.subscribe(TOPIC)

    answer = await dapp.publish(TOPIC, "sealed", tag=1108, attestation="signed")

    request = await wallet.request()
    subscription = hashlib.sha256(f"{TOPIC}{wallet_identity.did}".encode()).hexdigest()
    assert answer is True
    assert request == {
        "id": request["id"],
        "jsonrpc": "2.0",
        "method": "irn_subscription",
        "params": {
            "id": subscription,
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


@each_row("path", ["/", "/compat/v2"])
async def test_both_paths_meet(join: Join, path: str) -> None:
    dapp, wallet = await join(path=path), await join(path="/")
    await wallet.subscribe(TOPIC)

    await dapp.publish(TOPIC)

    assert await wallet.messages(1) == ["message"]


@each_row("request_id", [0, 7, 2**53 + 1, 2**64 - 1, "7", "007", "1700000000000000001", str(2**64 - 1)])
async def test_an_id_is_repeated_exactly(join: Join, request_id: Any) -> None:
    client = await join()

    assert await client.publish(TOPIC, request_id=request_id) is True


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
    for number in range(4):
        await dapp.publish((TOPIC, OTHER)[number % 2], str(number))
    first = [await wallet.request() for _ in range(4)]
    await wallet.acknowledge(first[1])
    await wallet.settled()
    await wallet.socket.close()

    again = await join(identity)
    await again.subscribe(TOPIC, OTHER)

    assert await again.messages(3, acknowledge=False) == ["0", "2", "3"]
    ids = [request["id"] for request in [*wallet.requests, *again.requests]]
    assert len(set(ids)) == 7


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


@each_row("answer", [{"result": False}, {"error": {"code": 1, "message": "no"}}])
async def test_only_true_is_an_acknowledgement(join: Join, answer: dict[str, Any]) -> None:
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    await wallet.subscribe(TOPIC)
    await dapp.publish(TOPIC)
    request = await wallet.request()
    await wallet.send(id=request["id"], jsonrpc="2.0", **answer)
    await wallet.settled()

    again = await join(identity)
    await again.subscribe(TOPIC)

    assert await again.messages(1) == ["message"]


@each_row(("ttl", "waits"), [(300, 300), (2**32 - 1, 30 * 86_400)], empties=True)
@each_row("is_over", [False, True], empties=True)
async def test_a_message_waits_its_time_and_at_most_thirty_days(
    join: Join, server: RunningServer, ttl: int, waits: int, is_over: bool
) -> None:
    dapp, wallet = await join(), await join()
    await dapp.publish(TOPIC, ttl=ttl)
    server.clock.advance(waits - (not is_over))

    await wallet.subscribe(TOPIC)

    assert await wallet.messages(not is_over) == ["message"] * (not is_over)


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

    first, second = await wallet.fetch(TOPIC), await wallet.fetch(TOPIC)

    assert (first["hasMore"], second["hasMore"]) == (True, False)
    assert [each["message"] for each in first["messages"] + second["messages"]] == payloads


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


@each_row(
    ("method", "shape"),
    [
        ("irn_subscribe", "one"),
        ("irn_subscribeBlocking", "one"),
        ("iridium_subscribe", "one"),
        ("irn_batchSubscribe", "list"),
        ("irn_batchSubscribeBlocking", "results"),
    ],
)
async def test_subscriptions_are_answered_with_their_ids(join: Join, method: str, shape: str) -> None:
    identity = Identity()
    client = await join(identity)
    ids = [hashlib.sha256(f"{topic}{identity.did}".encode()).hexdigest() for topic in (TOPIC, OTHER)]

    answer = await client.ask(method, {"topic": TOPIC, "topics": [TOPIC, OTHER]})

    assert answer == {"one": ids[0], "list": ids, "results": [{"id": each} for each in ids]}[shape]


async def test_a_batch_of_subscriptions_ends(join: Join) -> None:
    dapp, wallet, other = await join(), await join(), await join()
    await wallet.subscribe(TOPIC, OTHER)

    ended = [{"topic": topic, "id": "x"} for topic in (TOPIC, OTHER)]
    assert await wallet.ask("irn_batchUnsubscribe", {"subscriptions": ended}) is True
    await dapp.publish(TOPIC)

    await wallet.nothing()
    await other.subscribe(TOPIC)
    assert await other.messages(1) == ["message"]


async def test_a_response_never_overtakes_the_answer_to_its_request(join: Join) -> None:
    dapp, wallet = await join(), await join()
    await dapp.subscribe(TOPIC)
    await wallet.subscribe(TOPIC)
    early = 0

    for number in range(50):
        request_id = 1_000 + number
        call = {"topic": TOPIC, "message": f"request {number}", "ttl": 60}
        await dapp.send(id=request_id, jsonrpc="2.0", method="irn_publish", params=call)
        await wallet.message()
        answer = call | {"message": f"response {number}"}
        await wallet.send(id=request_id, jsonrpc="2.0", method="irn_publish", params=answer)
        await dapp.answer(request_id)
        early += len(dapp.requests) - number
        await dapp.message()
        await wallet.answer(request_id)

    assert early == 0


async def test_a_subscription_lives_on_while_its_client_connects_and_then_expires(tmp_path: Path) -> None:
    day = 86_400
    identity = Identity()
    options = {"token": identity.token(exp=TOKEN_TIME + 7 * day)}
    async with irn_opened(tmp_path, 1, subscription_ttl=2 * day) as (server, (dapp,)):
        async with irn_connected(server.client, server.url, identity, **options) as wallet:
            await wallet.subscribe(TOPIC)
        server.clock.advance(1.5 * day)
        await dapp.publish(TOPIC, "one")
        async with irn_connected(server.client, server.url, identity, **options) as wallet:
            assert await wallet.messages(1) == ["one"]
        server.clock.advance(1.5 * day)
        await dapp.publish(TOPIC, "two")

        other = Identity()
        token = other.token(exp=TOKEN_TIME + 7 * day)
        async with irn_connected(server.client, server.url, other, token=token) as client:
            await client.subscribe(TOPIC)
            await client.nothing()
            await client.socket.close()
            server.clock.advance(2 * day)
            await dapp.publish(TOPIC, "three")
        async with irn_connected(server.client, server.url, other, token=token) as client:
            await client.subscribe(OTHER)
            await client.nothing()


@pytest.fixture
def answers_are_new(monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer counts as new for two seconds, which a busy machine may need for the next message."""
    monkeypatch.setattr("bridge_server.pubsub.v2_sockets._IS_NEW_SECONDS", 3_600.0)


async def test_a_message_waits_until_a_new_answer_was_read(answers_are_new: None, join: Join) -> None:
    asking, answering = await join(), await join()
    await asking.subscribe(TOPIC)
    await asking.publish(TOPIC, "request")
    await answering.publish(TOPIC, "response")

    ping = await asking.socket.receive(PATIENCE_SECONDS)
    await asking.socket.pong(ping.data)

    assert ping.type is aiohttp.WSMsgType.PING
    assert await asking.messages(1) == ["response"]


async def test_a_message_comes_in_the_end_to_a_client_that_answers_no_ping(
    answers_are_new: None, join: Join
) -> None:
    asking, answering = await join(), await join()
    await asking.subscribe(TOPIC)
    await asking.publish(TOPIC, "request")
    await answering.publish(TOPIC, "response")

    kinds = [(await asking.socket.receive(PATIENCE_SECONDS)).type for _ in range(2)]

    assert kinds == [aiohttp.WSMsgType.PING, aiohttp.WSMsgType.TEXT]


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


# A socket that is sent messages from the disk, while it subscribes to more topics.

NEW = topic_of("new")
OTHERS = [topic_of(name) for name in "abc"]
WINDOW = 4
"""Messages that a socket is sent before it acknowledges any: twice what may wait on a topic."""


async def test_a_topic_is_sent_from_its_oldest_message_on_while_others_are_caught_up_with(
    tmp_path: Path,
) -> None:
    identity = Identity()
    async with running_server(tmp_path, max_topic_messages=WINDOW // 2) as server:
        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
        async with irn_connected(server.client, server.url, Identity()) as dapp:
            await dapp.publish(NEW, "older")
            for topic in OTHERS:
                await dapp.publish(topic, "one")
                await dapp.publish(topic, "two")
            await dapp.publish(NEW, "newer")

        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
            first = [await wallet.request() for _ in range(WINDOW)]
            await wallet.subscribe(NEW)
            for request in first:
                await wallet.acknowledge(request)

            later = [await wallet.request() for _ in range(2)]
            for request in later:
                await wallet.acknowledge(request)
            assert [each["params"]["data"]["topic"] for each in later] == [OTHERS[2]] * 2
            assert await wallet.messages(2) == ["older", "newer"]


async def test_a_topic_is_subscribed_to_anew_while_it_is_caught_up_with(tmp_path: Path) -> None:
    identity = Identity()
    async with running_server(tmp_path, max_topic_messages=WINDOW // 2) as server:
        async with irn_connected(server.client, server.url, identity) as wallet:
            await wallet.subscribe(*OTHERS)
        async with irn_connected(server.client, server.url, Identity()) as dapp:
            for topic in OTHERS:
                await dapp.publish(topic, "one")
                await dapp.publish(topic, "two")

            async with irn_connected(server.client, server.url, identity) as wallet:
                await wallet.subscribe(*OTHERS)
                first = [await wallet.request() for _ in range(WINDOW)]
                await _unsubscribe(wallet, OTHERS[2])
                await dapp.publish(OTHERS[2], "three")
                await dapp.publish(OTHERS[2], "four")
                await wallet.subscribe(OTHERS[2])
                for request in first:
                    await wallet.acknowledge(request)

                assert await wallet.messages(2) == ["three", "four"]


async def _unsubscribe(wallet: IrnClient, topic: str) -> None:
    await wallet.ask("irn_unsubscribe", {"topic": topic, "id": ""})


# What is published with `prompt` calls the topic's webhooks, and wakes who registered for pushes.

NOTICE = b'{"topic":"%s"}' % TOPIC.encode()


@pytest.mark.parametrize("somebody_is_there", [True, False])
async def test_a_prompt_calls_the_webhooks_once(
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

    assert [request.body for request in receiver.requests] == [NOTICE] * 2


async def test_a_push_registration_is_woken(
    join: Join, server: RunningServer, receiver: WebhookReceiver
) -> None:
    dapp = await join()
    registration = {
        "bridge": server.url, "topic": TOPIC, "type": "webhook", "token": receiver.url("/device"),
        "peerName": "Example Dapp", "language": "en",
    }  # fmt: skip
    async with server.client.post(f"{server.url}/new", json=registration) as response:
        assert response.status == 200, await response.text()

    await dapp.publish(TOPIC, prompt=True)
    await until_delivered(server)

    assert [request.path for request in receiver.requests] == ["/device"]
