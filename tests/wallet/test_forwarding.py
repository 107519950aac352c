"""Calls that are not the wallet's: the node answers them, the calls of a batch in one request."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, open_fake_node
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, result_of
from tests.support.server import RunningServer, running_server

MESSAGE = "0x68656c6c6f"


@pytest.fixture(scope="module")
async def shared_node() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as node:
        yield node


@pytest.fixture(scope="module")
def server_settings(shared_node: FakeNode) -> dict[str, Any]:
    return {"dev_accounts": True, "node_url": shared_node.url}


@pytest.fixture
def node(shared_node: FakeNode) -> Iterator[FakeNode]:
    """The node of the module's wallet, with its first answers, and without former requests."""
    usual = dict(shared_node.results)
    shared_node.results |= {"eth_blockNumber": "0x10", "eth_getBalance": "0x20"}
    shared_node.requests.clear()
    yield shared_node
    shared_node.results = usual


@pytest.fixture
def rpc(node: FakeNode, server: RunningServer) -> RpcClient:
    """A wallet with a node."""
    return RpcClient(server)


def forwarded(node: FakeNode) -> list[list[str]]:
    """The methods that were passed on, by request."""
    return [request.methods for request in node.requests if "eth_chainId" not in request.methods]


async def test_a_single_call_is_forwarded_alone(rpc: RpcClient, node: FakeNode) -> None:
    balance = await rpc.call("eth_getBalance", DEVELOPMENT_ADDRESS, "latest")

    assert balance == "0x20"
    [request] = [each for each in node.requests if each.methods == ["eth_getBalance"]]
    assert not request.is_batch
    assert request.calls[0]["params"] == [DEVELOPMENT_ADDRESS, "latest"]


async def test_a_batch_goes_in_one_request_and_comes_back_in_order(rpc: RpcClient, node: FakeNode) -> None:
    answers = await rpc.batch(
        [
            ("eth_blockNumber",),
            ("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS),
            ("eth_getBalance", DEVELOPMENT_ADDRESS, "latest"),
            ("personal_nope",),
            ("eth_blockNumber",),
        ]
    )

    assert forwarded(node) == [["eth_blockNumber", "eth_getBalance", "eth_blockNumber"]]
    assert [result_of(answers[place]) for place in (0, 2, 4)] == ["0x10", "0x20", "0x10"]
    assert len(result_of(answers[1])) == 132
    assert answers[3]["error"]["code"] == -32601


@pytest.mark.parametrize(
    "method", ["irn_publish", "irn_subscribe", "iridium_publish", "wc_sessionPropose", " IRN_publish"]
)
async def test_methods_of_the_relay_are_refused(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = True
    message = {"topic": "ab" * 32, "message": "c2VjcmV0", "ttl": 300, "tag": 1100}

    alone = await rpc.error(method, message)
    [in_batch, other] = await rpc.batch([(method, message), ("eth_blockNumber",)])

    assert alone.code == in_batch["error"]["code"] == -32601
    assert alone.message.endswith(rpc.server.url.replace("http://", "ws://"))
    assert result_of(other) == "0x10"
    assert forwarded(node) == [["eth_blockNumber"]]


async def test_the_relays_address_is_that_of_the_public_url(tmp_path: Path) -> None:
    async with running_server(
        tmp_path / "data",
        dev_accounts=True,
        dev_accounts_public=True,
        public_url="https://bridge.example.org/",
    ) as server:
        refused = await RpcClient(server).error("irn_publish", {})

    assert refused.message.endswith("The relay is the WebSocket at wss://bridge.example.org")


async def test_ids_of_forwarded_calls_are_the_clients(rpc: RpcClient) -> None:
    calls = [{**rpc.request("eth_blockNumber"), "id": number} for number in ("a", None, 7, "a")]

    assert [answer["id"] for answer in await rpc.send(calls)] == ["a", None, 7, "a"]


async def test_an_error_of_the_node_is_passed_on_unchanged(rpc: RpcClient, node: FakeNode) -> None:
    node.results["eth_call"] = RpcFailure(3, "execution reverted", {"deep": ["0x08c379a0"]})

    alone = await rpc.error("eth_call", {})
    [in_batch, other] = await rpc.batch([("eth_call", {}), ("eth_blockNumber",)])

    assert (alone.code, alone.message, alone.data) == (3, "execution reverted", {"deep": ["0x08c379a0"]})
    assert in_batch["error"] == {"code": 3, "message": alone.message, "data": alone.data}
    assert result_of(other) == "0x10"


async def test_parameters_arrive_as_they_were_sent(rpc: RpcClient, node: FakeNode) -> None:
    named = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber", "params": {"text": "é", "float": 1.5}}
    bare = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"}

    await rpc.send(named)
    await rpc.send(bare)

    calls = [request.calls[0] for request in node.requests if request.methods == ["eth_blockNumber"]]
    assert calls[0]["params"] == named["params"]
    assert "params" not in calls[1] or calls[1]["params"] == []
    body = json.dumps(rpc.request("eth_getBalance", 2**200)).encode()
    assert result_of((await rpc.post(body)).json) == "0x20"


async def test_notifications_are_forwarded_and_not_answered(rpc: RpcClient, node: FakeNode) -> None:
    notification = rpc.request("eth_blockNumber")
    del notification["id"]

    answer = await rpc.post(orjson.dumps([notification]))

    assert answer.status == 204
    assert forwarded(node) == [["eth_blockNumber"]]


@each_row(
    "method",
    [
        *("eth_sendTransactionSync", "eth_sendRawTransactionSync", "eth_sendUnsignedTransaction"),
        *("eth_sendBundle", "eth_signX", "eth_resend", "eth_SendTransaction", " eth_sendTransaction"),
        *("personal_sendTransaction", "account_signTransaction", "wallet_watchAsset", "signer_list"),
        *("eea_sendTransaction", "klay_signTransaction", "parity_postTransaction"),
        *("eth_submitTransaction", "klay_submitRawTransaction", "eth_signAndSendTransaction"),
        *("eth_distributePrivateTransaction", "priv_distributeRawTransaction", "quorumPermission_addOrg"),
        *("eth_decrypt", "eth_getEncryptionPublicKey", "clef_signData", "secretstore_signRawHash"),
        *("parity_postSign", "parity_signMessage", "parity_decryptMessage", "parity_newAccountFromSecret"),
        *("parity_composeTransaction", "parity_exportAccount", "parity_setEngineSigner", "shh_newKeyPair"),
    ],
)
async def test_methods_that_sign_never_reach_the_node(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = "0x" + "11" * 32
    raw = [{"from": DEVELOPMENT_ADDRESS, "to": DEVELOPMENT_ADDRESS}]

    alone = await rpc.error(method, *raw)
    in_batch, other = await rpc.batch([(method, *raw), ("eth_blockNumber",)])

    assert alone.code == in_batch["error"]["code"] == -32601
    assert alone.message.startswith(f"The wallet has no method {method}, and the node is asked for none that")
    assert result_of(other) == "0x10"
    assert method not in node.methods


@each_row(
    "method",
    [
        *("eth_getTransactionReceipt", "clique_getSigners", "txpool_content", "evm_snapshot"),
        *("eth_submitWork", "eth_submitHashrate", "eth_fillTransaction", "miner_setEtherbase"),
        *("parity_listAccounts", "parity_pendingTransactions", "eth_newFilter", "eth_pendingTransactions"),
    ],
)
async def test_a_method_with_a_similar_name_is_forwarded(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = "0x1"

    assert await rpc.call(method) == "0x1"


async def test_typed_data_chain_own_means_the_chain_of_the_node(node: FakeNode, tmp_path: Path) -> None:
    document = {
        "types": {"EIP712Domain": [{"name": "chainId", "type": "uint256"}]},
        "primaryType": "EIP712Domain",
        "domain": {"chainId": 1},
        "message": {},
    }
    node_chain = int(node.results["eth_chainId"], 16)
    settings: dict[str, Any] = {"dev_accounts": True, "node_url": node.url, "typed_data_chain": "own"}
    async with running_server(tmp_path / "data", **settings) as server:
        rpc = RpcClient(server)

        error = await rpc.error("eth_signTypedData_v4", DEVELOPMENT_ADDRESS, document)

        assert error.code == -32602
        assert f"chain {node_chain}" in error.message
        document["domain"] = {"chainId": node_chain}
        assert await rpc.call("eth_signTypedData_v4", DEVELOPMENT_ADDRESS, document)
