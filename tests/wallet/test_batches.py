"""Batches: each call gets its own answer, in the order of the calls."""

import orjson
import pytest

from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError, result_of

MESSAGE = "0x68656c6c6f"
KEY, PASSPHRASE = "11" * 32, "correct horse"


async def test_a_batch_of_signatures_is_what_single_requests_get(rpc: RpcClient) -> None:
    messages = [f"0x{number:04x}" for number in range(100)]

    answers = await rpc.batch([("personal_sign", message, DEVELOPMENT_ADDRESS) for message in messages])

    assert [result_of(answer) for answer in answers] == [
        await rpc.call("personal_sign", message, DEVELOPMENT_ADDRESS) for message in messages
    ]


async def test_a_bad_element_spoils_only_itself(rpc: RpcClient) -> None:
    good = rpc.request("eth_chainId")

    answers = await rpc.send(
        [good, 1, {"id": 5}, {**good, "params": [1]}, {**good, "method": "wallet_x"}, good]
    )

    assert [answer.get("error", {}).get("code") for answer in answers] == [
        None,
        -32600,
        -32600,
        -32602,
        -32601,
        None,
    ]
    assert [answer["id"] for answer in answers] == [good["id"], None, 5, good["id"], good["id"], good["id"]]


async def test_notifications_are_left_out_of_the_answer(rpc: RpcClient) -> None:
    calls = [rpc.request("eth_chainId") for _ in range(4)]
    del calls[0]["id"], calls[2]["id"]

    answers = await rpc.send(calls)

    assert [answer["id"] for answer in answers] == [calls[1]["id"], calls[3]["id"]]


async def test_ids_need_not_differ(rpc: RpcClient) -> None:
    request = rpc.request("eth_chainId")

    assert (
        await rpc.send([request, request])
        == [{"jsonrpc": "2.0", "id": request["id"], "result": "0x7a69"}] * 2
    )


async def test_one_call_in_a_batch_is_answered_by_a_batch(rpc: RpcClient) -> None:
    request = rpc.request("eth_chainId")

    assert await rpc.send([request]) == [{"jsonrpc": "2.0", "id": request["id"], "result": "0x7a69"}]


async def test_calls_of_the_wallet_follow_one_another(rpc: RpcClient) -> None:
    address = await rpc.call("personal_importRawKey", KEY, PASSPHRASE)

    answers = await rpc.batch(
        [
            ("personal_sign", MESSAGE, address),
            ("personal_unlockAccount", address, PASSPHRASE),
            ("personal_sign", MESSAGE, address),
            ("personal_lockAccount", address),
            ("personal_sign", MESSAGE, address),
        ]
    )

    assert ["error" in answer for answer in answers] == [True, False, False, False, True]


async def test_without_a_node_only_the_nodes_calls_fail(rpc: RpcClient) -> None:
    answers = await rpc.batch(
        [("eth_blockNumber",), ("eth_accounts",), ("eth_getBalance", DEVELOPMENT_ADDRESS, "latest")]
    )

    assert DEVELOPMENT_ADDRESS in result_of(answers[1])
    for answer in (answers[0], answers[2]):
        with pytest.raises(RpcError, match="4900: There is no node"):
            result_of(answer)


async def test_a_name_twice_spoils_the_whole_body(rpc: RpcClient) -> None:
    good = orjson.dumps(rpc.request("eth_chainId"))
    twice = b'{"jsonrpc":"2.0","id":1,"method":"eth_chainId","method":"eth_accounts"}'

    answer = (await rpc.post(b"[%b,%b]" % (good, twice))).json

    assert answer["error"]["code"] == -32600
    assert "'method' twice" in answer["error"]["message"]
