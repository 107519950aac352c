"""Messages and typed data are signed as the standards say, for dapps that connect; faults are named."""

import json
from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum.signing_key import personal_message_hash, recover_address
from bridge_server.ethereum.typed_data import read_typed_data
from bridge_server.kernel.version import VERSION
from bridge_server.kit.testing.fake_node import FakeNode
from tests.ethereum.typed_data_examples import DOMAIN_TYPE, domain, mail
from tests.ethereum.vectors import key_of, vectors
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError, result_of
from tests.support.server import running_server

MESSAGE = "0x68656c6c6f"
CHECKSUMMED = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
UNKNOWN = "0x00000000000000000000000000000000000000aa"
COW_KEY = "0xc85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"
COW = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
PUBLISHED = (
    "0x4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d"
    "07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c"
)
"""Of the example, by the key that is Keccak-256 of `cow`: in EIP-712 and in the contract's source."""
FOR_NO_CHAIN = {
    **mail(),
    "types": {**mail()["types"], "EIP712Domain": [each for each in DOMAIN_TYPE if each["name"] != "chainId"]},
}
"""The example with a chain that is not signed."""


async def test_signatures_equal_an_independent_implementations(tmp_path: Path) -> None:
    messages, typed_data = vectors("messages.json"), vectors("typed_data.json")[::5]
    keys = ",".join(sorted({vector["key"] for vector in (*messages, *typed_data)}))
    async with running_server(tmp_path / "data", private_keys=keys) as server:
        rpc = RpcClient(server)
        for vector in messages:
            signer = key_of(vector).address
            assert await rpc.call("personal_sign", vector["message"], signer) == vector["signature"]
        for vector in typed_data:
            for spelled in (vector["typed_data"], json.dumps(vector["typed_data"])):
                request = rpc.request("eth_signTypedData_v4", key_of(vector).address, spelled)
                answer = await rpc.post(json.dumps(request).encode())  # integers may have any size
                assert result_of(answer.json) == vector["signature"]


async def test_any_bytes_are_signed(rpc: RpcClient) -> None:
    for message in ("0x", "0x00", "0x" + "ff" * 100_000, "0xABCDEF", UNKNOWN):
        signature = await rpc.call("personal_sign", message, CHECKSUMMED)
        assert await rpc.call("personal_ecRecover", message, signature) == DEVELOPMENT_ADDRESS
        assert await rpc.call("eth_sign", DEVELOPMENT_ADDRESS, message) == signature


OTHER_PERMISSIONS: list[tuple[Any, ...]] = [(), ("eth_accounts",), ({"eth_accounts": {}, "eth_sign": {}},)]
TWICE = json.dumps(mail()).replace('"contents": "Hello', '"contents": "Pay", "contents": "Hello', 1)


@each_row(("method", "params", "place"), [
    ("personal_sign", ("hello", DEVELOPMENT_ADDRESS), "params[0] must be DATA"),
    ("personal_sign", (MESSAGE, "0x12"), "params[1] must be an address"),
    ("personal_sign", (MESSAGE, CHECKSUMMED.replace("F", "f", 1)), "params[1] has a wrong checksum"),
    ("personal_sign", (MESSAGE,), "params has 1 value, and personal_sign takes [message, account, "),
    ("personal_sign", (MESSAGE, DEVELOPMENT_ADDRESS, None, None), "params has 4 values, and personal_"),
    ("wallet_getPermissions", (1,), "params has 1 value, and wallet_getPermissions takes []."),
    ("eth_signTypedData", (DEVELOPMENT_ADDRESS, {**mail(), "message": {}}), "params[1]: message.from"),
    *(
        ("eth_signTypedData", (DEVELOPMENT_ADDRESS, text), "params[1]")
        for text in ("", "hello", "[]", "[" * 1000)
    ),
    (
        "eth_signTypedData_v4", (DEVELOPMENT_ADDRESS, TWICE),
        "params[1] has an object with the name 'contents' twice.",
    ),
    *(
        ("personal_ecRecover", (MESSAGE, signature), "params[1]")
        for signature in ("0x" + "00" * 64, "0x" + "11" * 64 + "25", 7)
    ),
    *(
        ("wallet_switchEthereumChain", params, "params")
        for params in ((), ("0x1",), ({},), ({"chainId": 1},), ({"chainId": "0x0"},))
    ),
])  # fmt: skip
async def test_errors_name_wrong_parameters(
    rpc: RpcClient, method: str, params: tuple[Any, ...], place: str
) -> None:
    error = await rpc.error(method, *params)
    assert error.code == -32602
    assert error.message.startswith(place)


@each_row(("method", "params", "code", "said"), [
    ("personal_sign", (DEVELOPMENT_ADDRESS, MESSAGE), -32602, "personal_sign takes [message, account]"),
    ("eth_sign", (MESSAGE, DEVELOPMENT_ADDRESS), -32602, "personal_sign takes [message, account]"),
    (
        "eth_signTypedData", ({"types": {}}, DEVELOPMENT_ADDRESS), -32602,
        "personal_sign takes [message, account]",
    ),
    ("personal_sign", (MESSAGE, UNKNOWN), 4100, UNKNOWN),
    *(
        (method, (), 4900, "node_url")
        for method in ("eth_getTransactionReceipt", "eth_call", "net_listening", "web3_sha3", "x")
    ),
    *(
        (f"wallet_{verb}Permissions", params, -32602, "eth_accounts")
        for verb in ("request", "revoke")
        for params in OTHER_PERMISSIONS
    ),
])  # fmt: skip
async def test_errors_explain_what_would_help(
    rpc: RpcClient, method: str, params: tuple[Any, ...], code: int, said: str
) -> None:
    error = await rpc.error(method, *params)
    assert error.code == code
    assert said in error.message


async def test_a_number_beyond_64_bits_is_exact(rpc: RpcClient) -> None:
    document = mail()
    document["types"]["Mail"].append({"name": "amount", "type": "uint256"})

    async def signed(amount: Any) -> Any:
        document["message"]["amount"] = amount
        request = rpc.request("eth_signTypedData", DEVELOPMENT_ADDRESS, document)
        return result_of((await rpc.post(json.dumps(request).encode())).json)

    assert await signed(2**255 + 1) == await signed(str(2**255 + 1))
    with pytest.raises(RpcError, match=r"message\.amount"):
        await signed(1e77)


@each_row("settings", [{"chain_id": 5}, {"node_url": "http://127.0.0.1:1"}])
async def test_a_wallet_signs_for_any_chain(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY, **settings) as server:
        assert await RpcClient(server).call("eth_signTypedData", COW, mail()) == PUBLISHED


async def test_typed_data_chain_own_signs_for_the_own_chain_alone(tmp_path: Path, fake: FakeNode) -> None:
    fake.results["eth_chainId"] = "0x5"
    settings: dict[str, Any] = {"private_keys": COW_KEY, "typed_data_chain": "own", "node_url": fake.url}
    async with running_server(tmp_path / "data", **settings) as server:
        rpc = RpcClient(server)
        for chain_id in (5, "5", "0x5"):
            document = mail() | {"domain": domain() | {"chainId": chain_id}}
            assert len(await rpc.call("eth_signTypedData", COW, document)) == 132
        for chain_id in (1, 55, "0x1", 0):
            document = mail() | {"domain": domain() | {"chainId": chain_id}}
            error = await rpc.error("eth_signTypedData", COW, document)
            assert error.code == -32602
            words = ("domain.chainId", "chain 5", "typed_data_chain")
            assert [word for word in words if word not in error.message] == []
        assert len(await rpc.call("eth_signTypedData", COW, FOR_NO_CHAIN)) == 132


async def test_while_the_own_chain_is_unknown_every_chain_is_refused(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"private_keys": COW_KEY, "typed_data_chain": "own"}
    async with running_server(tmp_path / "data", **settings) as server:
        rpc = RpcClient(server)
        assert (await rpc.error("eth_signTypedData", COW, mail())).code == 4900
        assert (await rpc.error("wallet_switchEthereumChain", {"chainId": "0x1"})).code == 4900
        assert await rpc.call("eth_signTypedData", COW, FOR_NO_CHAIN)


async def test_typed_data_scheme_eip191_signs_typed_data_as_a_message(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY, typed_data_scheme="eip191") as server:
        signature = await RpcClient(server).call("eth_signTypedData", COW, mail())
    digest = personal_message_hash(read_typed_data(mail()).preimage)
    assert recover_address(digest, bytes.fromhex(signature[2:])).lower() == COW


async def test_a_wallet_for_development_has_ten_accounts_and_one_chain(rpc: RpcClient) -> None:
    for method in ("eth_accounts", "eth_requestAccounts", "personal_listAccounts"):
        accounts = await rpc.call(method)
        assert (len(accounts), accounts[0]) == (10, DEVELOPMENT_ADDRESS)
    assert await rpc.call("eth_chainId") == "0x7a69"
    assert await rpc.call("net_version") == "31337"
    assert await rpc.call("web3_clientVersion") == f"Bridge-Server/{VERSION}"

    described = {"chainId": "0x7a69", "chainName": "Here", "rpcUrls": ["http://127.0.0.1:8545"]}
    for method in ("wallet_switchEthereumChain", "wallet_addEthereumChain"):
        assert await rpc.call(method, {"chainId": "0x7a69"}) is None
        assert await rpc.call(method, described) is None
        error = await rpc.error(method, {"chainId": "0x1"})
        assert error.code == 4902
        assert error.message == "The wallet is on chain 31337 and on no other: it cannot go to chain 1."


async def test_every_caller_has_the_permission_to_see_the_accounts(tmp_path: Path) -> None:
    origin = "https://dapp.example"
    settings: dict[str, Any] = {"dev_accounts": True, "dev_account_count": 1, "rpc_origins": [origin]}
    async with running_server(tmp_path / "data", **settings) as server:
        page, program = RpcClient(server, {"Origin": origin}), RpcClient(server)
        requested = await page.call("wallet_requestPermissions", {"eth_accounts": {}})
        had = await page.call("wallet_getPermissions")
        revoked = await page.call("wallet_revokePermissions", {"eth_accounts": {}})
        of_program = await program.call("wallet_getPermissions")

    caveat = {"type": "restrictReturnedAccounts", "value": [DEVELOPMENT_ADDRESS]}
    permission = {"invoker": origin, "parentCapability": "eth_accounts", "caveats": [caveat]}
    assert requested == had == [permission]
    assert revoked is None
    assert of_program == [{**permission, "invoker": "127.0.0.1"}]
