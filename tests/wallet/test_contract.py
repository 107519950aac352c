"""The contract's table of methods (section 4, D), and methods that clients need beside it."""

from typing import Any

from bridge_server.kernel.version import VERSION
from tests.ethereum.typed_data_examples import mail
from tests.ethereum.vectors import vectors
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient

MESSAGE = "0xdeadbeef"
DEVELOPMENT_KEY = "0xac0974bec39a17e36ba4a6b4d238ff944bacb478cbed5efcae784d7bf4f2ff80"
ANOTHER_ADDRESS = "0x9b2055d370f73ec7d8a03e965129118dc8f5bf83"
TRANSACTION = {"from": DEVELOPMENT_ADDRESS, "to": ANOTHER_ADDRESS, "data": "0x"}
FILLED = {**TRANSACTION, "gas": "0x5208", "gasPrice": "0x1", "nonce": "0x0", "value": "0x1"}


def signature_of(file: str, what: str, signed: Any) -> str:
    """The first development account's signature of this, by an independent implementation."""
    [vector] = [each for each in vectors(file) if each["key"] == DEVELOPMENT_KEY]
    assert vector[what] == signed
    signature: str = vector["signature"]
    return signature


@each_row(
    ("method", "params"),
    [("personal_sign", (MESSAGE, DEVELOPMENT_ADDRESS)), ("eth_sign", (DEVELOPMENT_ADDRESS, MESSAGE))],
)
async def test_a_message_is_signed_behind_its_prefix(
    rpc: RpcClient, method: str, params: tuple[str, ...]
) -> None:
    signature = await rpc.call(method, *params)

    assert signature == signature_of("messages.json", "message", MESSAGE)


@each_row("method", ["eth_signTypedData", "eth_signTypedData_v3", "eth_signTypedData_v4"])
async def test_typed_data_is_signed(rpc: RpcClient, method: str) -> None:
    signature = await rpc.call(method, DEVELOPMENT_ADDRESS, mail())

    assert signature == signature_of("typed_data.json", "typed_data", mail())


async def test_a_transaction_is_signed_without_a_node_when_nothing_is_left_open(rpc: RpcClient) -> None:
    signed = await rpc.call("eth_signTransaction", FILLED)

    assert signed.startswith("0xf8")


@each_row("params", [("eth_sendTransaction", FILLED), ("eth_sendRawTransaction", "0xc0")])
async def test_without_a_node_nothing_is_sent(rpc: RpcClient, params: tuple[Any, ...]) -> None:
    error = await rpc.error(*params)

    assert error.code in (4900, -32602)


@each_row("method", ["eth_accounts", "eth_requestAccounts", "personal_listAccounts"])
async def test_there_are_ten_accounts_for_development(rpc: RpcClient, method: str) -> None:
    accounts = await rpc.call(method)

    assert len(accounts) == 10
    assert accounts[0] == DEVELOPMENT_ADDRESS


async def test_the_chain_is_the_one_for_development(rpc: RpcClient) -> None:
    assert await rpc.call("eth_chainId") == "0x7a69"
    assert await rpc.call("net_version") == "31337"


async def test_the_client_version_is_the_servers(rpc: RpcClient) -> None:
    assert await rpc.call("web3_clientVersion") == f"Bridge-Server/{VERSION}"


async def test_a_signer_is_recovered(rpc: RpcClient) -> None:
    signature = await rpc.call("personal_sign", MESSAGE, DEVELOPMENT_ADDRESS)

    assert await rpc.call("personal_ecRecover", MESSAGE, signature) == DEVELOPMENT_ADDRESS
    assert await rpc.call("personal_ecRecover", "0xdead", signature) != DEVELOPMENT_ADDRESS


@each_row("method", ["eth_getTransactionReceipt", "eth_call", "net_listening", "web3_sha3", "x"])
async def test_other_methods_go_to_the_node(rpc: RpcClient, method: str) -> None:
    error = await rpc.error(method)

    assert error.code == 4900
    assert "node_url" in error.message


@each_row("method", ["personal_ecrecover", "personal_", "wallet_watchAsset", "eth_signTypedData_v1"])
async def test_a_method_in_the_wallets_namespaces_never_reaches_the_node(rpc: RpcClient, method: str) -> None:
    error = await rpc.error(method)

    assert error.code == -32601
    assert method in error.message
