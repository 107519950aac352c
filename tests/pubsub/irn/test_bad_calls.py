"""A wrong call is answered with a code and a sentence; what is no JSON-RPC ends its socket."""

from typing import Any

import pytest

from tests.pubsub.irn.conftest import Join
from tests.support.engines import database_of
from tests.support.irn_client import RelayError, topic_of
from tests.support.rows import each_row
from tests.support.server import RunningServer

TOPIC = topic_of("topic")
PUBLISH = {"topic": TOPIC, "message": "m", "ttl": 300}
PROPOSE = {"pairingTopic": TOPIC, "sessionProposal": "sealed"}
APPROVE = {
    "pairingTopic": TOPIC,
    "sessionTopic": topic_of("session"),
    "sessionProposalResponse": "response",
    "sessionSettlementRequest": "settlement",
}
TABLES = ("irn_messages", "irn_subscriptions", "irn_calls")


def stored(server: RunningServer) -> int:
    with database_of(server.settings) as database:
        return sum(database.execute(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES)


BAD: list[tuple[str, Any, int, str]] = [
    ("irn_publish", {**PUBLISH, "topic": value}, -32600, "InvalidTopic")
    for value in (None, 7, "", "ab", "g" * 64, TOPIC + "0", TOPIC + "\n", [TOPIC], "٣" * 64)
]
BAD += [
    ("irn_publish", {**PUBLISH, "ttl": value}, -32600, "InvalidParams")
    for value in (None, "300", 1.5, True, [300])
]
BAD += [
    ("irn_publish", {**PUBLISH, "ttl": 0}, -32000, "TtlTooShort"),
    ("irn_publish", {**PUBLISH, "ttl": -1}, -32000, "TtlTooShort"),
    ("irn_publish", {**PUBLISH, "ttl": 2**32}, -32000, "TtlTooLong"),
    ("irn_publish", {**PUBLISH, "message": None}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "message": {"a": 1}}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "message": "x" * 262_144}, -32600, "PayloadSizeExceeded"),
    ("irn_publish", {**PUBLISH, "tag": -1}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "tag": "1108"}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "tag": 2**32}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "prompt": 1}, -32600, "InvalidParams"),
    ("irn_publish", {**PUBLISH, "attestation": 1}, -32600, "InvalidParams"),
    ("irn_publish", [TOPIC], -32600, "InvalidParams"),
    ("irn_publish", None, -32600, "InvalidParams"),
    ("irn_batchPublish", {"messages": []}, -32600, "BatchEmpty"),
    ("irn_batchPublish", {"messages": [PUBLISH] * 501}, -32600, "BatchLimitExceeded"),
    ("irn_batchPublish", {"messages": PUBLISH}, -32600, "InvalidParams"),
    ("irn_batchPublish", {"messages": [PUBLISH, 7]}, -32600, "InvalidParams"),
    ("irn_batchPublish", {"messages": [PUBLISH, {**PUBLISH, "ttl": 0}]}, -32000, "TtlTooShort"),
    ("irn_subscribe", {}, -32600, "InvalidTopic"),
    ("irn_batchSubscribe", {"topics": []}, -32600, "BatchEmpty"),
    ("irn_batchSubscribe", {"topics": [TOPIC] * 501}, -32600, "BatchLimitExceeded"),
    ("irn_batchSubscribe", {"topics": [TOPIC, "x"]}, -32600, "InvalidTopic"),
    ("irn_unsubscribe", {"id": "ab" * 32}, -32600, "InvalidTopic"),
    ("irn_batchUnsubscribe", {"subscriptions": [{}]}, -32600, "InvalidTopic"),
    ("irn_batchFetchMessages", {"topics": TOPIC}, -32600, "InvalidParams"),
    ("irn_batchReceive", {"receipts": [{"topic": TOPIC}]}, -32600, "InvalidParams"),
    ("irn_batchReceive", {"receipts": [{"topic": "x", "message_id": 1}]}, -32600, "InvalidTopic"),
    ("wc_createTopic", {}, -32600, "InvalidTopic"),
    ("wc_createTopic", {"topic": "x"}, -32600, "InvalidTopic"),
    ("wc_proposeSession", {**PROPOSE, "pairingTopic": "x"}, -32600, "InvalidTopic"),
    ("wc_proposeSession", {**PROPOSE, "sessionProposal": ""}, -32600, "InvalidParams"),
    ("wc_proposeSession", {**PROPOSE, "ttl": "1"}, -32600, "InvalidParams"),
    ("wc_approveSession", {**APPROVE, "sessionTopic": None}, -32600, "InvalidTopic"),
    ("wc_approveSession", {**APPROVE, "sessionSettlementRequest": None}, -32600, "InvalidParams"),
    ("irn_unknown", {}, -32600, "InvalidMethod"),
    ("publish", PUBLISH, -32600, "InvalidMethod"),
    ("irn_wc_proposeSession", PROPOSE, -32600, "InvalidMethod"),
    ("irn_subscription", {}, -32600, "InvalidMethod"),
]


@each_row(("method", "params", "code", "tag"), BAD, empties=True)
async def test_a_bad_call_is_answered_and_nothing_is_stored(
    join: Join, server: RunningServer, method: str, params: Any, code: int, tag: str
) -> None:
    client = await join()

    with pytest.raises(RelayError) as refused:
        await client.ask(method, params)

    assert (refused.value.code, refused.value.tag) == (code, tag)
    assert refused.value.message.endswith(".")
    assert stored(server) == 0
    assert await client.publish(TOPIC) is True


@each_row("request_id", [None, -1, 1.5, 2**64, True, "", "-1", "x", "1" * 21, [1], "٣"])
async def test_a_wrong_id_is_answered_without_one(join: Join, server: RunningServer, request_id: Any) -> None:
    client = await join()
    await client.socket.send_json(
        {"id": request_id, "jsonrpc": "2.0", "method": "irn_publish", "params": PUBLISH}
    )

    with pytest.raises(RelayError) as refused:
        await client.answer(None)

    assert (refused.value.code, refused.value.tag) == (-32600, "InvalidRequestId")
    assert stored(server) == 0


async def test_another_version_of_json_rpc_is_refused(join: Join) -> None:
    client = await join()
    await client.send(id=5, method="irn_publish", params=PUBLISH)

    with pytest.raises(RelayError) as refused:
        await client.answer(5)

    assert refused.value.tag == "InvalidJsonRpcVersion"


@each_row(
    ("frame", "code"),
    [
        ("{", 1007),
        ('{"id":1,"method":"\\ud800"}', 1007),
        ("[" * 2_000, 1007),
        ("[]", 1008),
        ("null", 1008),
        ('"text"', 1008),
        ("{}", 1008),
        ('{"id":1,"jsonrpc":"2.0"}', 1008),
        ('{"topic":"t","type":"pub","payload":"","silent":true}', 1008),
        ('{"id":1,"jsonrpc":"2.0","method":7}', 1008),
    ],
)
async def test_a_frame_that_is_no_json_rpc_closes_its_own_socket(join: Join, frame: str, code: int) -> None:
    client, other = await join(), await join()
    await client.socket.send_str(frame)

    assert (await client.closed())[0] == code
    assert await other.publish(TOPIC) is True


@each_row(("frame", "code"), [(b"{", 1007), (b'{"id":"\xff"}', 1007), (b"{}", 1008)])
async def test_a_binary_frame_that_is_no_json_rpc_closes_its_socket(
    join: Join, frame: bytes, code: int
) -> None:
    client = await join()
    await client.socket.send_bytes(frame)

    assert (await client.closed())[0] == code


async def test_a_frame_that_is_much_too_large_closes_its_socket(join: Join) -> None:
    client = await join()
    await client.socket.send_str("x" * (4 * 262_144 + 2))

    assert (await client.closed())[0] == 1009


@each_row("answer", [{"id": 5, "result": True}, {"id": "x", "result": True}, {"result": True}])
async def test_an_acknowledgement_without_a_message_is_ignored(join: Join, answer: dict[str, Any]) -> None:
    client = await join()
    await client.send(jsonrpc="2.0", **answer)

    assert await client.publish(TOPIC) is True


@pytest.mark.sqlite("its file is read")
async def test_only_what_is_named_is_stored(join: Join, server: RunningServer) -> None:
    dapp, wallet = await join(), await join()
    tracking = {
        "correlationId": 7,
        "rpcMethods": ["eth_sendTransaction"],
        "txHashes": ["0x1"],
        "chainId": "eip155:1",
    }
    await dapp.ask("irn_publish", {**PUBLISH, **tracking, "tvf": tracking, "accounts": ["a"]})
    await dapp.ask("wc_proposeSession", {**PROPOSE, **tracking, "tvf": tracking})
    await wallet.ask(
        "wc_approveSession", {**APPROVE, "approvedAccounts": ["eip155:1:0xsecret"], "tvf": tracking}
    )
    await wallet.subscribe(TOPIC)

    sent = [await wallet.request() for _ in range(2)]

    members = [set(request["params"]["data"]) for request in sent]
    assert members == [{"topic", "message", "publishedAt", "tag"}] * 2
    content = b"".join(
        file.read_bytes() for file in server.settings.database_file.parent.glob("bridge.sqlite3*")
    )
    assert b"eth_sendTransaction" not in content
    assert b"0xsecret" not in content
