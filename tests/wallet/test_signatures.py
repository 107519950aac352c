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
OWN_CHAIN = "0x7a69"
PAGE = "https://dapp.example"
GOING_TO_A_CHAIN = ("wallet_switchEthereumChain", "wallet_addEthereumChain")
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
            signer, document = key_of(vector).address, vector["typed_data"]
            for spelled in (document, json.dumps(document)):
                assert await sign_typed_data(rpc, signer, spelled) == vector["signature"]


@each_row("message", ["0x", "0x00", "0x" + "ff" * 100_000, "0xABCDEF", UNKNOWN])
async def test_any_bytes_are_signed(rpc: RpcClient, message: str) -> None:
    signature = await rpc.call("personal_sign", message, CHECKSUMMED)

    assert await rpc.call("personal_ecRecover", message, signature) == DEVELOPMENT_ADDRESS
    assert await rpc.call("eth_sign", DEVELOPMENT_ADDRESS, message) == signature


@each_row(
    ("method", "params", "place"),
    [
        ("personal_sign", ("hello", DEVELOPMENT_ADDRESS), "params[0] must be DATA"),
        ("personal_sign", (MESSAGE, "0x12"), "params[1] must be an address"),
        ("personal_sign", (MESSAGE, CHECKSUMMED.replace("F", "f", 1)), "params[1] has a wrong checksum"),
        ("personal_sign", (MESSAGE,), "params has 1 value, and personal_sign takes [message, account, "),
        ("personal_sign", (MESSAGE, DEVELOPMENT_ADDRESS, None, None), "params has 4 values, and personal_"),
        ("wallet_getPermissions", (1,), "params has 1 value, and wallet_getPermissions takes []."),
        ("eth_signTypedData", (DEVELOPMENT_ADDRESS, {**mail(), "message": {}}), "params[1]: message.from"),
    ],
)
async def test_errors_name_wrong_parameters(
    rpc: RpcClient, method: str, params: tuple[Any, ...], place: str
) -> None:
    error = await rpc.error(method, *params)

    assert error.code == -32602
    assert error.message.startswith(place)


@each_row(
    ("method", "params"),
    [
        ("personal_sign", (DEVELOPMENT_ADDRESS, MESSAGE)),
        ("eth_sign", (MESSAGE, DEVELOPMENT_ADDRESS)),
        ("eth_signTypedData", ({"types": {}}, DEVELOPMENT_ADDRESS)),
    ],
)
async def test_swapped_parameters_are_explained(rpc: RpcClient, method: str, params: tuple[Any, ...]) -> None:
    error = await rpc.error(method, *params)

    assert error.code == -32602
    assert "personal_sign takes [message, account]" in error.message


async def test_an_unknown_account_signs_nothing(rpc: RpcClient) -> None:
    error = await rpc.error("personal_sign", MESSAGE, UNKNOWN)

    assert error.code == 4100
    assert UNKNOWN in error.message


@each_row("signature", ["0x" + "00" * 64, "0x" + "11" * 64 + "25", 7])
async def test_a_malformed_signature_has_no_signer(rpc: RpcClient, signature: Any) -> None:
    error = await rpc.error("personal_ecRecover", MESSAGE, signature)

    assert error.code == -32602
    assert error.message.startswith("params[1]")


async def sign_typed_data(rpc: RpcClient, signer: str, document: Any) -> str:
    """The signature; integers in the document may have any size."""
    body = json.dumps(rpc.request("eth_signTypedData_v4", signer, document)).encode()
    signature: str = result_of((await rpc.post(body)).json)
    return signature


async def test_a_string_is_read_as_strictly_as_an_object(rpc: RpcClient) -> None:
    text = json.dumps(mail())
    twice = text.replace('"contents": "Hello', '"contents": "Pay", "contents": "Hello', 1)

    error = await rpc.error("eth_signTypedData_v4", DEVELOPMENT_ADDRESS, twice)

    assert await rpc.call("eth_signTypedData_v4", DEVELOPMENT_ADDRESS, text)
    assert error.code == -32602
    assert error.message == "params[1] has an object with the name 'contents' twice."


@each_row("text", ["", "hello", "[]", "[" * 1000])
async def test_a_string_that_is_no_typed_data_is_refused(rpc: RpcClient, text: str) -> None:
    error = await rpc.error("eth_signTypedData", DEVELOPMENT_ADDRESS, text)

    assert error.code == -32602
    assert error.message.startswith("params[1]")


async def test_a_number_beyond_64_bits_is_exact(rpc: RpcClient) -> None:
    document = mail()
    document["types"]["Mail"].append({"name": "amount", "type": "uint256"})

    def spelled(amount: Any) -> bytes:
        document["message"]["amount"] = amount
        return json.dumps(rpc.request("eth_signTypedData", DEVELOPMENT_ADDRESS, document)).encode()

    as_number = await rpc.post(spelled(2**255 + 1))
    as_text = await rpc.post(spelled(str(2**255 + 1)))
    as_float = await rpc.post(spelled(1e77))

    assert result_of(as_number.json) == result_of(as_text.json)
    with pytest.raises(RpcError, match=r"message\.amount"):
        result_of(as_float.json)


@each_row("settings", [{"chain_id": 5}, {"node_url": "http://127.0.0.1:1"}])
async def test_a_wallet_signs_for_any_chain(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY, **settings) as server:
        assert await RpcClient(server).call("eth_signTypedData", COW, mail()) == PUBLISHED


async def test_typed_data_chain_own_signs_for_the_own_chain_and_no_chain_alone(
    tmp_path: Path, fake: FakeNode
) -> None:
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
            for word in ("domain.chainId", "chain 5", "typed_data_chain"):
                assert word in error.message
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


@each_row("method", ["eth_accounts", "eth_requestAccounts", "personal_listAccounts"])
async def test_there_are_ten_accounts_for_development(rpc: RpcClient, method: str) -> None:
    accounts = await rpc.call(method)

    assert len(accounts) == 10
    assert accounts[0] == DEVELOPMENT_ADDRESS


async def test_the_chain_is_the_one_for_development_and_the_version_is_the_servers(rpc: RpcClient) -> None:
    assert await rpc.call("eth_chainId") == "0x7a69"
    assert await rpc.call("net_version") == "31337"
    assert await rpc.call("web3_clientVersion") == f"Bridge-Server/{VERSION}"


@each_row("method", ["eth_getTransactionReceipt", "eth_call", "net_listening", "web3_sha3", "x"])
async def test_other_methods_go_to_the_node(rpc: RpcClient, method: str) -> None:
    error = await rpc.error(method)

    assert error.code == 4900
    assert "node_url" in error.message


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


@each_row(
    "params",
    [(), ("0x1",), ({},), ({"chainId": 1},), ({"chainId": "0x0"},)],
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
    [(), ("eth_accounts",), ({"eth_accounts": {}, "eth_sign": {}},)],
)
async def test_any_other_permission_is_refused(rpc: RpcClient, method: str, params: tuple[Any, ...]) -> None:
    error = await rpc.error(method, *params)

    assert error.code == -32602
    assert "eth_accounts" in error.message
