"""The fixture `bridge_node`: an Ethereum node behind the bridge's wallet."""

from typing import Any

import pytest

from bridge_server.kit.fixtures import Bridge, BridgeNode
from bridge_server.kit.testing.fake_node import ETHER

TO = "0x00000000000000000000000000000000000000a1"
ZERO_HASH = "0x" + "00" * 32


def rpc(bridge: Bridge, method: str, *params: Any) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return bridge.http.send("POST", "/rpc", call)


def send(bridge: Bridge, wei: int = 5) -> str:
    """The hash of a transaction of the first account."""
    transaction = {"from": bridge.accounts[0], "to": TO, "value": hex(wei), "gas": hex(21_000)}
    answer: str = rpc(bridge, "eth_sendTransaction", transaction)["result"]
    return answer


def test_a_transaction_is_mined_and_moves_money(bridge: Bridge, bridge_node: BridgeNode) -> None:
    sent = send(bridge, ETHER)

    receipt = rpc(bridge, "eth_getTransactionReceipt", sent)["result"]
    assert (receipt["status"], receipt["blockNumber"], bridge_node.block_number) == ("0x1", "0x1", 1)
    assert bridge_node.balance(TO) == 10_001 * ETHER
    assert [f"0x{each.hash.hex()}" for each in bridge_node.transactions] == [sent]


def test_two_transactions_have_two_nonces(bridge: Bridge, bridge_node: BridgeNode) -> None:
    with bridge_node.not_mining():
        first, second = send(bridge), send(bridge)
        assert rpc(bridge, "eth_getTransactionReceipt", first)["result"] is None
        bridge_node.mine()

    assert [each.nonce for each in bridge_node.transactions] == [0, 1]
    assert rpc(bridge, "eth_getTransactionReceipt", second)["result"]["transactionIndex"] == "0x1"


def test_a_node_that_is_away_gets_the_transaction_later(bridge: Bridge, bridge_node: BridgeNode) -> None:
    send(bridge)
    with bridge_node.away():
        assert send(bridge) == ZERO_HASH
    bridge.clock.advance(minutes=10)

    assert len(bridge_node.transactions) == 2


@pytest.mark.bridge(node_timeout=1.5)
def test_a_node_that_is_slow_is_not_waited_for_for_ever(bridge: Bridge, bridge_node: BridgeNode) -> None:
    with bridge_node.slow(30):
        assert "error" in rpc(bridge, "eth_blockNumber")

    assert rpc(bridge, "eth_blockNumber")["result"] == "0x0"


def test_a_sender_without_enough_money_is_refused(bridge: Bridge, bridge_node: BridgeNode) -> None:
    bridge_node.set_balance(bridge.accounts[0], 1)
    transaction = {"from": bridge.accounts[0], "to": TO, "value": "0x5"}

    error = rpc(bridge, "eth_sendTransaction", transaction)["error"]

    assert "insufficient funds" in error["message"]


def test_a_test_says_what_the_node_answers(bridge: Bridge, bridge_node: BridgeNode) -> None:
    bridge_node.answer("eth_call", "0x2a")
    bridge_node.refuse("eth_estimateGas", 3, "execution reverted", "0x08c379a0")

    assert rpc(bridge, "eth_call", {}, "latest")["result"] == "0x2a"
    assert rpc(bridge, "eth_estimateGas", {})["error"]["code"] == 3


def test_a_contract_has_an_address(bridge: Bridge, bridge_node: BridgeNode) -> None:
    creation = {"from": bridge.accounts[0], "data": "0x6000"}
    sent = rpc(bridge, "eth_sendTransaction", creation)["result"]

    address = rpc(bridge, "eth_getTransactionReceipt", sent)["result"]["contractAddress"]

    assert address == "0x5fbdb2315678afecb367f032d93f642f64180aa3"
    assert "eth_sendRawTransaction" in bridge_node.methods
