"""Calls that are not the wallet's: the node answers them, the calls of a batch in one request."""

import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

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


async def test_a_single_call_is_forwarded_alone(rpc: RpcClient, node: FakeNode) -> None:
    assert await rpc.call("eth_getBalance", DEVELOPMENT_ADDRESS, "latest") == "0x20"
    [request] = [each for each in node.requests if each.methods == ["eth_getBalance"]]
    assert not request.is_batch
    assert request.calls[0]["params"] == [DEVELOPMENT_ADDRESS, "latest"]


async def test_a_batch_goes_in_one_request_and_comes_back_in_order(rpc: RpcClient, node: FakeNode) -> None:
    calls = [
        {**rpc.request("eth_blockNumber"), "id": "a"},
        rpc.request("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS),
        {**rpc.request("eth_getBalance", DEVELOPMENT_ADDRESS, "latest"), "id": None},
        rpc.request("personal_nope"),
        {**rpc.request("eth_blockNumber"), "id": "a"},
        {"jsonrpc": "2.0", "method": "eth_blockNumber"},
    ]

    answers = await rpc.send(calls)

    forwarded = [request.methods for request in node.requests if "eth_chainId" not in request.methods]
    assert forwarded == [["eth_blockNumber", "eth_getBalance", "eth_blockNumber", "eth_blockNumber"]]
    assert [answer["id"] for answer in answers] == [call["id"] for call in calls[:-1]]
    assert [result_of(answers[place]) for place in (0, 2, 4)] == ["0x10", "0x20", "0x10"]
    assert len(result_of(answers[1])) == 132
    assert answers[3]["error"]["code"] == -32601


@each_row("method", ["irn_publish", "iridium_publish", "wc_sessionPropose", " IRN_publish"])
async def test_methods_of_the_relay_are_refused(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = True
    message = {"topic": "ab" * 32, "message": "c2VjcmV0", "ttl": 300, "tag": 1100}
    alone = await rpc.error(method, message)
    [in_batch, other] = await rpc.batch([(method, message), ("eth_blockNumber",)])
    assert alone.code == in_batch["error"]["code"] == -32601
    assert alone.message.endswith(rpc.server.url.replace("http://", "ws://"))
    assert result_of(other) == "0x10"
    assert method not in node.methods


async def test_the_relays_address_is_that_of_the_public_url(tmp_path: Path) -> None:
    public: dict[str, Any] = {"dev_accounts_public": True, "public_url": "https://bridge.example.org/"}
    async with running_server(tmp_path / "data", dev_accounts=True, **public) as server:
        refused = await RpcClient(server).error("irn_publish", {})
    assert refused.message.endswith("The relay is the WebSocket at wss://bridge.example.org")


async def test_an_error_of_the_node_is_passed_on_unchanged(rpc: RpcClient, node: FakeNode) -> None:
    node.results["eth_call"] = RpcFailure(3, "execution reverted", {"deep": ["0x08c379a0"]})
    alone = await rpc.error("eth_call", {})
    [in_batch, other] = await rpc.batch([("eth_call", {}), ("eth_blockNumber",)])
    assert (alone.code, alone.message, alone.data) == (3, "execution reverted", {"deep": ["0x08c379a0"]})
    assert in_batch["error"] == {"code": 3, "message": alone.message, "data": alone.data}
    assert result_of(other) == "0x10"


async def test_parameters_arrive_as_they_were_sent(rpc: RpcClient, node: FakeNode) -> None:
    bare = {"jsonrpc": "2.0", "id": 1, "method": "eth_blockNumber"}
    named = {**bare, "params": {"text": "é", "float": 1.5}}
    for request in (named, bare):
        await rpc.send(request)
    calls = [request.calls[0] for request in node.requests if request.methods == ["eth_blockNumber"]]
    assert calls[0]["params"] == named["params"]
    assert "params" not in calls[1] or calls[1]["params"] == []
    body = json.dumps(rpc.request("eth_getBalance", 2**200)).encode()
    assert result_of((await rpc.post(body)).json) == "0x20"


@each_row("method", [
    *("eth_sendRawTransactionSync", "eth_sendBundle", "eth_signX", "eth_resend", " eth_SendTransaction"),
    *("personal_sendTransaction", "account_signTransaction", "wallet_watchAsset", "signer_list"),
    *("clef_signData", "secretstore_signRawHash", "shh_newKeyPair", "quorumPermission_addOrg"),
    *("klay_submitRawTransaction", "parity_postTransaction", "priv_distributeRawTransaction"),
    *("eth_decrypt", "eth_getEncryptionPublicKey", "parity_newAccountFromSecret"),
    *("parity_composeTransaction", "parity_exportAccount", "parity_setEngineSigner"),
])  # fmt: skip
async def test_methods_that_sign_never_reach_the_node(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = "0x" + "11" * 32
    raw = [{"from": DEVELOPMENT_ADDRESS, "to": DEVELOPMENT_ADDRESS}]
    alone = await rpc.error(method, *raw)
    in_batch, other = await rpc.batch([(method, *raw), ("eth_blockNumber",)])
    assert alone.code == in_batch["error"]["code"] == -32601
    assert alone.message.startswith(f"The wallet has no method {method}, and the node is asked for none that")
    assert result_of(other) == "0x10"
    assert method not in node.methods


@each_row("method", [
    *("eth_getTransactionReceipt", "clique_getSigners", "eth_submitWork", "miner_setEtherbase"),
    *("parity_listAccounts", "parity_pendingTransactions", "eth_newFilter"),
])  # fmt: skip
async def test_a_method_with_a_similar_name_is_forwarded(rpc: RpcClient, node: FakeNode, method: str) -> None:
    node.results[method] = "0x1"
    assert await rpc.call(method) == "0x1"
