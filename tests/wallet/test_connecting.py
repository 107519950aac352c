"""Calls of dapps when they connect: the wallet's chain, and the permission to see its accounts."""

from pathlib import Path
from typing import Any

from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient
from tests.support.server import running_server

OWN_CHAIN = "0x7a69"
PAGE = "https://dapp.example"
GOING_TO_A_CHAIN = ("wallet_switchEthereumChain", "wallet_addEthereumChain")


@each_row("method", GOING_TO_A_CHAIN)
async def test_the_wallet_is_on_its_own_chain_already(rpc: RpcClient, method: str) -> None:
    described = {"chainId": OWN_CHAIN, "chainName": "Here", "rpcUrls": ["http://127.0.0.1:8545"]}

    assert await rpc.call(method, {"chainId": OWN_CHAIN}) is None
    assert await rpc.call(method, described) is None


@each_row("method", GOING_TO_A_CHAIN)
async def test_a_switch_to_another_chain_is_refused(rpc: RpcClient, method: str) -> None:
    error = await rpc.error(method, {"chainId": "0x1"})

    assert error.code == 4902
    assert error.message == "The wallet is on chain 31337 and on no other: it cannot go to chain 1."


async def test_a_wallet_without_a_chain_cannot_switch(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data") as server:
        error = await RpcClient(server).error("wallet_switchEthereumChain", {"chainId": "0x1"})

    assert error.code == 4900


@each_row(
    "params",
    [(), ("0x1",), ({},), ({"chainId": 1},), ({"chainId": "0x0"},), ({"chainId": "0x01"},), ({}, {})],
)
async def test_a_parameter_without_a_chain_is_refused(rpc: RpcClient, params: tuple[Any, ...]) -> None:
    error = await rpc.error("wallet_switchEthereumChain", *params)

    assert error.code == -32602
    assert error.message.startswith("params")


async def test_every_caller_has_the_permission_to_see_the_accounts(tmp_path: Path) -> None:
    async with running_server(
        tmp_path / "data", dev_accounts=True, dev_account_count=1, rpc_origins=[PAGE]
    ) as server:
        page, program = RpcClient(server, {"Origin": PAGE}), RpcClient(server)
        requested = await page.call("wallet_requestPermissions", {"eth_accounts": {}})
        had = await page.call("wallet_getPermissions")
        revoked = await page.call("wallet_revokePermissions", {"eth_accounts": {}})
        of_program = await program.call("wallet_getPermissions")

    caveat = {"type": "restrictReturnedAccounts", "value": [DEVELOPMENT_ADDRESS]}
    permission = {"invoker": PAGE, "parentCapability": "eth_accounts", "caveats": [caveat]}
    assert requested == had == [permission]
    assert revoked is None
    assert of_program == [{**permission, "invoker": "127.0.0.1"}]


@each_row("method", ["wallet_requestPermissions", "wallet_revokePermissions"])
@each_row(
    "params",
    [(), ({},), ("eth_accounts",), ({"eth_sign": {}},), ({"eth_accounts": {}, "eth_sign": {}},), ([],)],
)
async def test_any_other_permission_is_refused(rpc: RpcClient, method: str, params: tuple[Any, ...]) -> None:
    error = await rpc.error(method, *params)

    assert error.code == -32602
    assert "eth_accounts" in error.message


async def test_the_count_of_parameters_is_spelled_in_singular_and_plural(rpc: RpcClient) -> None:
    one = await rpc.error("wallet_getPermissions", 1)
    two = await rpc.error("wallet_getPermissions", 1, 2)

    assert one.message == "params has 1 value, and wallet_getPermissions takes []."
    assert two.message == "params has 2 values, and wallet_getPermissions takes []."
