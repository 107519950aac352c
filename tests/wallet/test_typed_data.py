"""eth_signTypedData over HTTP: EIP-712, strictly, for any chain or only for the wallet's."""

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from bridge_server.ethereum.signing_key import personal_message_hash, recover_address
from bridge_server.ethereum.typed_data import read_typed_data
from tests.ethereum.typed_data_examples import mail
from tests.ethereum.vectors import vectors
from tests.support.rows import each_row
from tests.support.rpc_client import DEVELOPMENT_ADDRESS, RpcClient, RpcError, result_of
from tests.support.server import running_server

COW_KEY = "0xc85ef7d79691fe79573b1a7064c19c1a9819ebdbd1faaab1a8ec92344438aaf4"
COW = "0xcd2a3d9f938e13cd947ec05abc7fe734df8dd826"
PUBLISHED = (
    "0x4355c47d63924e8a72e509b65029052eb6c299d53a04e167c5775fd466751c9d"
    "07299936d304c153f6443dfa05f40ff007d72911b6f72307f996231605b915621c"
)
"""Of the example, by the key that is Keccak-256 of `cow`: in EIP-712 and in the contract's source."""


async def test_the_published_example_has_its_published_signature(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY) as server:
        signature = await RpcClient(server).call("eth_signTypedData", COW, mail())

    assert signature == PUBLISHED


async def test_signatures_equal_an_independent_implementations(tmp_path: Path) -> None:
    some = vectors("typed_data.json")[::5]
    keys = ",".join(sorted({vector["key"] for vector in some}))
    async with running_server(tmp_path / "data", private_keys=keys) as server:
        rpc = RpcClient(server)
        for vector in some:
            document = vector["typed_data"]
            digest = read_typed_data(document).digest
            signer = recover_address(digest, bytes.fromhex(vector["signature"][2:]))

            assert await call(rpc, signer, document) == vector["signature"]
            assert await call(rpc, signer, json.dumps(document)) == vector["signature"]


async def call(rpc: RpcClient, signer: str, document: Any) -> str:
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


@each_row("text", ["", "hello", "[]", "1", "null", "{", '{"types":NaN}', "[" * 1000])
async def test_a_string_that_is_no_typed_data_is_refused(rpc: RpcClient, text: str) -> None:
    error = await rpc.error("eth_signTypedData", DEVELOPMENT_ADDRESS, text)

    assert error.code == -32602
    assert error.message.startswith("params[1]")


async def test_a_name_twice_in_the_object_is_never_signed(rpc: RpcClient) -> None:
    body = orjson.dumps(rpc.request("eth_signTypedData", DEVELOPMENT_ADDRESS, mail()))
    twice = body.replace(b'"contents":"Hello', b'"contents":"Pay","contents":"Hello', 1)

    answer = (await rpc.post(twice)).json

    assert answer["error"]["code"] == -32600


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


@each_row(
    ("change", "place"),
    [
        (lambda data: data["message"].pop("contents"), "message.contents"),
        (lambda data: data["message"]["to"].update(wallet="0x12"), "message.to.wallet"),
        (lambda data: data.update(primaryType="Letter"), "primaryType"),
        (lambda data: data["domain"].update(chainId="x"), "domain.chainId"),
        (lambda data: data.pop("types"), "types"),
    ],
)
async def test_a_fault_is_refused_with_its_path(rpc: RpcClient, change: Any, place: str) -> None:
    document = mail()
    change(document)

    error = await rpc.error("eth_signTypedData", DEVELOPMENT_ADDRESS, document)

    assert error.code == -32602
    assert error.message.startswith(f"params[1]: {place}")


def for_chain(chain_id: Any) -> dict[str, Any]:
    """The example for another chain; for none when it is None."""
    document = mail()
    document["domain"]["chainId"] = chain_id
    if chain_id is None:
        del document["domain"]["chainId"]
        document["types"]["EIP712Domain"] = [
            member for member in document["types"]["EIP712Domain"] if member["name"] != "chainId"
        ]
    return document


@each_row("settings", [{"chain_id": 5}, {}, {"node_url": "http://127.0.0.1:1"}])
async def test_a_wallet_signs_for_any_chain(tmp_path: Path, settings: dict[str, Any]) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY, **settings) as server:
        assert await RpcClient(server).call("eth_signTypedData", COW, mail()) == PUBLISHED


@pytest.fixture
async def own(tmp_path: Path) -> AsyncIterator[RpcClient]:
    """A wallet on chain 5 that signs for no other."""
    settings: dict[str, Any] = {"dev_accounts": True, "chain_id": 5, "typed_data_chain": "own"}
    async with running_server(tmp_path / "data", **settings) as server:
        yield RpcClient(server)


@each_row("chain_id", [5, "5", "0x5", None])
async def test_typed_data_chain_own_allows_the_own_chain_and_no_chain(own: RpcClient, chain_id: Any) -> None:
    assert len(await own.call("eth_signTypedData", DEVELOPMENT_ADDRESS, for_chain(chain_id))) == 132


@each_row("chain_id", [1, 55, "1", "0x1", 0])
async def test_typed_data_chain_own_refuses_another_chain(own: RpcClient, chain_id: Any) -> None:
    error = await own.error("eth_signTypedData", DEVELOPMENT_ADDRESS, for_chain(chain_id))

    assert error.code == -32602
    assert "domain.chainId" in error.message
    assert "chain 5" in error.message
    assert "typed_data_chain" in error.message


async def test_typed_data_chain_own_refuses_every_chain_while_the_own_is_unknown(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"private_keys": COW_KEY, "typed_data_chain": "own"}
    async with running_server(tmp_path / "data", **settings) as server:
        rpc = RpcClient(server)

        assert (await rpc.error("eth_signTypedData", COW, for_chain(7))).code == 4900
        assert await rpc.call("eth_signTypedData", COW, for_chain(None))


async def test_an_unsigned_chain_member_is_ignored(own: RpcClient) -> None:
    document = for_chain(None)
    document["domain"]["chainId"] = 1

    signature = await own.call("eth_signTypedData", DEVELOPMENT_ADDRESS, document)

    assert signature == await own.call("eth_signTypedData", DEVELOPMENT_ADDRESS, for_chain(None))


async def test_typed_data_scheme_eip191_signs_typed_data_as_a_message(tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", private_keys=COW_KEY, typed_data_scheme="eip191") as server:
        signature = await RpcClient(server).call("eth_signTypedData", COW, mail())

    digest = personal_message_hash(read_typed_data(mail()).preimage)
    assert recover_address(digest, bytes.fromhex(signature[2:])).lower() == COW
