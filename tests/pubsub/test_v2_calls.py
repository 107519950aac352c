"""Generation 2.x: wrong calls, calls that are made again, and calls that do several things."""

from pathlib import Path
from typing import Any

import pytest
from aiohttp import WSMsgType

from tests.pubsub.conftest import Join, error_of, irn_opened, until_open
from tests.support.project import look
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.socket_client import Identity, topic_of

TOPIC = topic_of("topic")
PUBLISH = {"topic": TOPIC, "message": "m", "ttl": 300}
PAIRING, SESSION = topic_of("pairing"), topic_of("session")
PROPOSE = {"pairingTopic": PAIRING, "sessionProposal": "proposal", "attestation": "signed"}
APPROVE = {
    "pairingTopic": PAIRING,
    "sessionTopic": SESSION,
    "sessionProposalResponse": "response",
    "sessionSettlementRequest": "settlement",
}


def stored(server: RunningServer) -> int:
    """How many rows of generation 2.x there are."""
    tables = ("irn_messages", "irn_subscriptions", "irn_calls")
    return sum(look(server, f"SELECT count(*) FROM {name}")[0][0] for name in tables)


def wrong(method: str, params: dict[str, Any], name: str, *values: Any) -> list[tuple[str, Any]]:
    """Calls of a method whose parameter of that name has each of the values."""
    return [(method, {**params, name: value}) for value in values]


BAD = {
    (-32600, "InvalidTopic"): [
        *wrong("irn_publish", PUBLISH, "topic", None, "ab", "g" * 64, TOPIC + "0", TOPIC + "\n", "٣" * 64),
        ("irn_subscribe", {}),
        ("irn_batchSubscribe", {"topics": [TOPIC, "x"]}),
        ("irn_unsubscribe", {"id": "ab" * 32}),
        ("irn_batchUnsubscribe", {"subscriptions": [{}]}),
        ("irn_batchReceive", {"receipts": [{"topic": "x", "message_id": 1}]}),
        ("wc_createTopic", {"topic": "x"}),
        *wrong("wc_proposeSession", PROPOSE, "pairingTopic", "x"),
        *wrong("wc_approveSession", APPROVE, "sessionTopic", None),
    ],
    (-32600, "InvalidParams"): [
        *wrong("irn_publish", PUBLISH, "ttl", None, "300", 1.5, True),
        *wrong("irn_publish", PUBLISH, "message", None, {"a": 1}),
        *wrong("irn_publish", PUBLISH, "tag", -1, "1108", 2**32),
        *wrong("irn_publish", PUBLISH, "prompt", 1),
        *wrong("irn_publish", PUBLISH, "attestation", 1),
        ("irn_publish", [TOPIC]),
        ("irn_batchPublish", {"messages": PUBLISH}),
        ("irn_batchPublish", {"messages": [PUBLISH, 7]}),
        ("irn_batchFetchMessages", {"topics": TOPIC}),
        ("irn_batchReceive", {"receipts": [{"topic": TOPIC}]}),
        *wrong("wc_proposeSession", PROPOSE, "sessionProposal", ""),
        *wrong("wc_proposeSession", PROPOSE, "ttl", "1"),
        *wrong("wc_approveSession", APPROVE, "sessionSettlementRequest", None),
    ],
    (-32000, "TtlTooShort"): [
        *wrong("irn_publish", PUBLISH, "ttl", 0, -1),
        ("irn_batchPublish", {"messages": [PUBLISH, {**PUBLISH, "ttl": 0}]}),
    ],
    (-32000, "TtlTooLong"): wrong("irn_publish", PUBLISH, "ttl", 2**32),
    (-32600, "PayloadSizeExceeded"): wrong("irn_publish", PUBLISH, "message", "x" * 262_144),
    (-32600, "BatchEmpty"): [("irn_batchPublish", {"messages": []}), ("irn_batchSubscribe", {"topics": []})],
    (-32600, "BatchLimitExceeded"): [
        ("irn_batchPublish", {"messages": [PUBLISH] * 501}),
        ("irn_batchSubscribe", {"topics": [TOPIC] * 501}),
    ],
    (-32600, "InvalidMethod"): [("irn_unknown", {}), ("publish", PUBLISH), ("irn_subscription", {})],
}


@each_row(
    ("method", "params", "error"),
    [(*called, error) for error, calls in BAD.items() for called in calls],
    empties=True,
)
async def test_a_bad_call_is_answered_and_nothing_is_stored(
    join: Join, server: RunningServer, method: str, params: Any, error: tuple[int, str]
) -> None:
    client = await join()
    refused = await error_of(client.ask(method, params))

    assert (refused.code, refused.tag) == error
    assert refused.message.endswith(".")
    assert stored(server) == 0
    assert await client.publish(TOPIC) is True


@each_row("request_id", [None, -1, 1.5, 2**64, True, "", "-1", "1" * 21, [1], "٣"])
async def test_a_wrong_id_is_answered_without_one(join: Join, server: RunningServer, request_id: Any) -> None:
    client = await join()
    await client.socket.send_json(
        {"id": request_id, "jsonrpc": "2.0", "method": "irn_publish", "params": PUBLISH}
    )
    await client.send(id=5, method="irn_publish", params=PUBLISH)

    for answered, tag in ((None, "InvalidRequestId"), (5, "InvalidJsonRpcVersion")):
        refused = await error_of(client.answer(answered))
        assert (refused.code, refused.tag) == (-32600, tag)
    assert stored(server) == 0


@each_row(
    ("frame", "code"),
    [
        ("{", 1007),
        ('{"id":1,"method":"\\ud800"}', 1007),
        ("[" * 2_000, 1007),
        ("\udcff", 1007),
        ("[]", 1008),
        ("{}", 1008),
        ('{"id":1,"jsonrpc":"2.0"}', 1008),
        ('{"topic":"t","type":"pub","payload":"","silent":true}', 1008),
        ('{"id":1,"jsonrpc":"2.0","method":7}', 1008),
        ("x" * (4 * 262_144 + 2), 1009),
    ],
)
async def test_a_frame_that_is_no_json_rpc_or_is_much_too_large_closes_its_own_socket(
    join: Join, frame: str, code: int
) -> None:
    client, other = await join(), await join()
    for answer in ({"id": 5, "result": True}, {"id": "x", "result": True}, {"result": True}):
        await other.send(jsonrpc="2.0", **answer)  # acknowledgements without a message are ignored
    await client.socket.send_frame(frame.encode("utf-8", "surrogateescape"), WSMsgType.TEXT)

    found, said = await client.closed()
    assert (found, "it is not UTF-8" in said) == (code, frame == "\udcff")
    assert await other.publish(TOPIC) is True


@pytest.mark.sqlite("its file is read")
async def test_only_what_is_named_is_stored(join: Join, server: RunningServer) -> None:
    dapp, wallet = await join(), await join()
    facts = {
        "correlationId": 7,
        "rpcMethods": ["eth_sendTransaction"],
        "txHashes": ["0x1"],
        "chainId": "eip155:1",
    }
    await dapp.ask("irn_publish", {**PUBLISH, **facts, "tvf": facts, "accounts": ["a"]})
    await dapp.ask("wc_proposeSession", {**PROPOSE, **facts, "tvf": facts})
    approval = {**APPROVE, "approvedAccounts": ["eip155:1:0xsecret"], "tvf": facts}
    await wallet.ask("wc_approveSession", approval)
    await wallet.subscribe(TOPIC, PAIRING)

    sent = [await wallet.request() for _ in range(2)]

    members = sorted((set(request["params"]["data"]) for request in sent), key=len)
    usual = {"topic", "message", "publishedAt", "tag"}
    assert members == [usual, usual | {"attestation"}]
    files = server.settings.database_file.parent.glob("bridge.sqlite3*")
    content = b"".join(file.read_bytes() for file in files)
    assert b"eth_sendTransaction" not in content
    assert b"0xsecret" not in content


@each_row("later", [0, 299, 300], empties=True)
@each_row("somebody_is_there", [True, False], empties=True)
async def test_a_repetition_is_answered_and_not_published(
    join: Join, server: RunningServer, later: int, somebody_is_there: bool
) -> None:
    identity = Identity()
    dapp, wallet = await join(identity), await join()
    if somebody_is_there:
        await wallet.subscribe(TOPIC)
    await dapp.publish(TOPIC, request_id="1700000000000000001", ttl=3600)
    server.clock.advance(later)

    again = await join(identity, token=identity.token(exp=None))
    assert await again.publish(TOPIC, request_id="1700000000000000001", ttl=3600) is True

    await wallet.subscribe(TOPIC)
    expected = 1 if later < 300 else 2
    assert await wallet.messages(expected) == ["message"] * expected


async def test_an_id_is_that_of_its_client_and_of_what_it_says(join: Join) -> None:
    identity = Identity()
    dapp, other_socket, other, wallet = await join(identity), await join(identity), await join(), await join()
    await wallet.subscribe(TOPIC)

    await dapp.publish(TOPIC, "one", request_id=1)
    await dapp.publish(TOPIC, "two", request_id=1)
    await other.publish(TOPIC, "one", request_id=1)
    await dapp.publish(TOPIC, "one", request_id=2)

    assert await wallet.messages(4) == ["one", "two", "one", "one"]
    for client in (dapp, dapp, other_socket):  # they overtake the answer
        await client.send(id=5, jsonrpc="2.0", method="irn_publish", params=PUBLISH)
    assert [await client.answer(5) for client in (dapp, dapp, other_socket)] == [True] * 3
    assert await wallet.messages(1) == ["m"]


async def test_a_call_that_was_refused_is_made_anew(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_topic_messages=1) as (_, (dapp, wallet)):
        await dapp.publish(TOPIC, "first")
        assert (await error_of(dapp.publish(TOPIC, "second", request_id=2))).tag == "MailboxLimitExceeded"
        await wallet.subscribe(TOPIC)
        assert await wallet.messages(1) == ["first"]
        await wallet.settled()
        assert await dapp.publish(TOPIC, "second", request_id=2) is True

        assert await wallet.messages(1) == ["second"]


async def test_so_many_calls_are_remembered_and_no_more(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_remembered_calls=2) as (server, (dapp, wallet)):
        await wallet.subscribe(TOPIC)
        for request_id in (1, 2, 3):
            await dapp.publish(TOPIC, str(request_id), request_id=request_id)
            server.clock.advance(0.001)
        assert await wallet.messages(3) == ["1", "2", "3"]
        for request_id in (2, 3, 1):
            await dapp.publish(TOPIC, str(request_id), request_id=request_id)

        assert await wallet.messages(1) == ["1"]


async def test_a_session_is_proposed_approved_and_used(join: Join) -> None:
    dapp, wallet = await join(), await join()

    assert await dapp.ask("wc_proposeSession", PROPOSE) is True
    await wallet.subscribe(PAIRING)
    proposal = await wallet.request()
    await wallet.acknowledge(proposal)
    assert await wallet.ask("wc_approveSession", APPROVE) is True
    response = await dapp.request()
    await dapp.acknowledge(response)
    await dapp.subscribe(SESSION)
    settlement = await dapp.request()
    await dapp.acknowledge(settlement)
    await dapp.publish(SESSION, "call")

    data = [request["params"]["data"] for request in (proposal, response, settlement)]
    assert [(each["topic"], each["message"], each["tag"], each.get("attestation")) for each in data] == [
        (PAIRING, "proposal", 1100, "signed"),
        (PAIRING, "response", 1101, None),
        (SESSION, "settlement", 1102, None),
    ]
    assert await wallet.messages(1) == ["call"]
    await dapp.nothing()
    assert await dapp.ask("wc_createTopic", {"topic": TOPIC}) is True
    await wallet.publish(TOPIC, "for the creator")
    assert await dapp.messages(1) == ["for the creator"]


@each_row(
    ("method", "params", "topic"),
    [
        ("irn_subscribe", {"topic": TOPIC}, TOPIC),
        ("wc_createTopic", {"topic": TOPIC}, TOPIC),
        ("wc_proposeSession", PROPOSE, PAIRING),
        ("wc_approveSession", APPROVE, SESSION),
    ],
    empties=True,
)
async def test_calls_that_are_sent_together_happen_in_their_order(
    join: Join, server: RunningServer, method: str, params: dict[str, Any], topic: str
) -> None:
    dapp, wallet = await join(), await join()
    unsubscribing = {"jsonrpc": "2.0", "method": "irn_unsubscribe", "params": {"topic": topic}}
    await wallet.send(id=1, jsonrpc="2.0", method=method, params=params)
    await wallet.send(id=2, **unsubscribing)
    await wallet.answer(1)
    assert await wallet.answer(2) is True

    await dapp.publish(topic, "while unsubscribed")
    await wallet.nothing()
    await until_open(server, 2)

    await wallet.subscribe(topic)
    assert await wallet.messages(1) == ["while unsubscribed"]
    await wallet.send(id=3, **unsubscribing)
    await wallet.send(id=4, jsonrpc="2.0", method="irn_subscribe", params={"topic": topic})
    assert await wallet.answer(3) is True
    await wallet.answer(4)
    await dapp.publish(topic, "once subscribed")
    assert await wallet.messages(1) == ["once subscribed"]


async def test_a_proposal_waits_as_long_as_it_says(join: Join, server: RunningServer) -> None:
    dapp, wallet = await join(), await join()
    for ttl, waits in ((None, 300), (600, 600)):
        topics = [topic_of(f"{waits} {name}") for name in ("before", "after")]
        for topic in topics:
            proposal = {**PROPOSE, "pairingTopic": topic, **({"ttl": ttl} if ttl else {})}
            await dapp.ask("wc_proposeSession", proposal)

        server.clock.advance(waits - 1)
        await wallet.subscribe(topics[0])
        assert await wallet.messages(1) == ["proposal"]
        server.clock.advance(1)
        await wallet.subscribe(topics[1])
        await wallet.nothing()


async def test_an_approval_happens_wholly_or_not_at_all(tmp_path: Path) -> None:
    async with irn_opened(tmp_path, 2, max_client_topics=1) as (_, (dapp, wallet)):
        await dapp.ask("wc_proposeSession", PROPOSE)
        await wallet.subscribe(PAIRING)
        assert await wallet.messages(1) == ["proposal"]
        refused = await error_of(wallet.ask("wc_approveSession", APPROVE, request_id=77))

        assert refused.tag == "SubscriberLimitExceeded"
        await dapp.nothing()
        await wallet.ask("irn_unsubscribe", {"topic": PAIRING})
        assert await wallet.ask("wc_approveSession", APPROVE, request_id=77) is True
        assert await dapp.messages(1) == ["response"]


async def test_a_repeated_approval_is_one(join: Join) -> None:
    identity = Identity()
    dapp, wallet = await join(), await join(identity)
    await dapp.ask("wc_proposeSession", PROPOSE)
    await wallet.ask("wc_approveSession", APPROVE, request_id="1700000000000000001")
    await wallet.socket.close()
    again = await join(identity)
    assert await again.ask("wc_approveSession", APPROVE, request_id="1700000000000000001") is True

    assert await dapp.messages(1) == ["response"]
    await dapp.publish(SESSION, "call")
    assert await again.messages(1) == ["call"]
