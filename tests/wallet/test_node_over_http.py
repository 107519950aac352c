"""A dapp, the wallet's HTTP face, and a real node behind it."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import orjson
import pytest

from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, hang, open_fake_node
from bridge_server.kit.testing.server import ServerProcess
from tests.support.closing_proxy import open_closing_proxy
from tests.support.eventually import eventually
from tests.support.rpc_client import RpcClient
from tests.support.server import running_server, server_process
from tests.wallet.anvil import CHAIN_ID, Anvil, needs_anvil, open_anvil
from tests.wallet.rig import ALICE, BOB, ZERO_HASH, transaction

CREATION = "0x6001600c60003960016000f300"


@pytest.fixture
async def anvil(tmp_path: Path) -> AsyncIterator[Anvil]:
    async with open_anvil(tmp_path) as anvil:
        yield anvil


@pytest.fixture
async def dapp(anvil: Anvil, tmp_path: Path) -> AsyncIterator[RpcClient]:
    async with running_server(tmp_path / "data", dev_accounts=True, node_url=anvil.url) as server:
        yield RpcClient(server)


@pytest.fixture
async def fake() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as fake:
        yield fake


@needs_anvil
async def test_a_dapp_sends_and_reads_the_receipt(dapp: RpcClient, anvil: Anvil) -> None:
    (sender, *_) = await dapp.call("eth_accounts")
    assert await dapp.call("eth_chainId") == hex(CHAIN_ID)
    assert await dapp.call("net_version") == str(CHAIN_ID)

    sent = await dapp.call("eth_sendTransaction", {"from": sender, "to": BOB, "value": "0x5"})

    await anvil.receipt(sent)
    assert (await dapp.call("eth_getTransactionReceipt", sent))["status"] == "0x1"
    assert (await dapp.call("wallet_getQueuedTransaction", sent))["state"] in ("sent", "mined")
    assert await dapp.call("wallet_getQueuedTransactions") == []


@needs_anvil
async def test_a_created_contract_is_found_by_its_receipt(dapp: RpcClient, anvil: Anvil) -> None:
    sent = await dapp.call("eth_sendTransaction", {"from": ALICE, "data": CREATION})

    await anvil.receipt(sent)
    address = (await dapp.call("eth_getTransactionReceipt", sent))["contractAddress"]
    assert await dapp.call("eth_getCode", address, "latest") == "0x00"


@needs_anvil
async def test_a_signed_transaction_is_sent_with_eth_send_raw_transaction(
    dapp: RpcClient, anvil: Anvil
) -> None:
    raw = await dapp.call("eth_signTransaction", transaction(data="0x1234"))

    sent = await dapp.call("eth_sendRawTransaction", raw)

    assert (await anvil.receipt(sent))["from"] == ALICE


@needs_anvil
async def test_two_hundred_requests_at_once_have_consecutive_nonces(dapp: RpcClient, anvil: Anvil) -> None:
    sends = (dapp.call("eth_sendTransaction", transaction(value=hex(number))) for number in range(100))
    batch = [("eth_sendTransaction", transaction(value=hex(number))) for number in range(100, 200)]

    sent, answers = await asyncio.gather(asyncio.gather(*sends), dapp.batch(batch))

    in_batch = [answer["result"] for answer in answers]
    assert len({*sent, *in_batch}) == 200
    await anvil.count(ALICE, 200)
    found = await dapp.batch([("wallet_getQueuedTransaction", each) for each in in_batch])
    nonces = [int(answer["result"]["nonce"], 16) for answer in found]
    assert nonces == sorted(nonces)


@needs_anvil
async def test_refusals_are_json_rpc_errors(dapp: RpcClient) -> None:
    error = await dapp.error("eth_sendTransaction", transaction(value=hex(10**30)))
    assert (error.code, error.message.lower()[:18]) == (-32003, "insufficient funds")

    error = await dapp.error("eth_sendTransaction", transaction(chainId="0x1"))
    assert error.code == -32602

    error = await dapp.error("eth_sendTransaction", transaction(from_="0x" + "12" * 20))
    assert error.code == 4100

    error = await dapp.error("eth_sendRawTransaction", "0x1234")
    assert (error.code, error.message[:9]) == (-32602, "params[0]")


@needs_anvil
async def test_a_reverted_call_keeps_its_data(dapp: RpcClient, anvil: Anvil) -> None:
    reverts = "0x" + "63deadbeef60005260046" + "01cfd"

    error = await dapp.error("eth_call", {"from": ALICE, "data": reverts}, "latest")

    assert error.data == "0xdeadbeef"


@needs_anvil
async def test_the_zero_hash_becomes_the_real_one_when_the_node_is_back(
    dapp: RpcClient, anvil: Anvil
) -> None:
    anvil.kill()
    assert await dapp.call("eth_sendTransaction", transaction()) == ZERO_HASH
    error = await dapp.error("eth_blockNumber")
    assert error.code == 4900

    await anvil.start()
    dapp.server.clock.advance(61)

    async def has_arrived() -> bool:
        found = await dapp.call("wallet_getQueuedTransaction", transaction())
        return found["state"] in ("sent", "mined")

    await eventually(has_arrived)
    found = await dapp.call("wallet_getQueuedTransaction", transaction())
    assert (await anvil.receipt(found["hash"]))["to"] == BOB


@needs_anvil
async def test_a_snapshot_that_is_gone_back_to_leaves_no_trace(dapp: RpcClient, anvil: Anvil) -> None:
    snapshot = await dapp.call("evm_snapshot")
    undone = await dapp.call("eth_sendTransaction", transaction(value="0x1"))
    await anvil.receipt(undone)  # a transaction that waits for its block outlives the revert

    assert await dapp.call("evm_revert", snapshot) is True

    assert (await dapp.call("wallet_getQueuedTransaction", undone))["state"] == "forgotten"
    sent = await dapp.call("eth_sendTransaction", transaction(value="0x2"))
    assert (await anvil.receipt(sent))["status"] == "0x1"
    [told] = await dapp.call("wallet_getQueuedTransactions", transaction(value="0x2"))
    assert (told["hash"], told["nonce"]) == (sent, "0x0")


async def test_a_batch_goes_to_the_node_as_one_and_keeps_its_order(fake: FakeNode, tmp_path: Path) -> None:
    fake.results |= {"eth_blockNumber": "0x1", "eth_call": RpcFailure(3, "reverted", {"why": 1.5})}
    async with running_server(tmp_path / "data", dev_accounts=True, node_url=fake.url) as server:
        dapp = RpcClient(server)

        answers = await dapp.batch(
            [
                ("eth_blockNumber",),
                ("eth_accounts",),
                ("eth_call", {}),
                ("eth_nothing",),
                ("eth_blockNumber",),
            ]
        )

    (request,) = [each for each in fake.requests if "eth_blockNumber" in each.methods]
    assert request.methods == ["eth_blockNumber", "eth_call", "eth_nothing", "eth_blockNumber"]
    assert [each.get("result", each.get("error")) for each in answers] == [
        "0x1",
        answers[1]["result"],
        {"code": 3, "message": "reverted", "data": {"why": 1.5}},
        {"code": -32601, "message": "the method eth_nothing does not exist"},
        "0x1",
    ]


async def test_a_node_on_another_chain_is_a_chain_disconnected_error(fake: FakeNode, tmp_path: Path) -> None:
    async with running_server(tmp_path / "data", dev_accounts=True, node_url=fake.url, chain_id=1) as server:
        dapp = RpcClient(server)

        assert (await dapp.error("eth_sendTransaction", transaction())).code == 4901
        assert (await dapp.error("eth_signTransaction", transaction())).code == 4901
        assert (await dapp.error("eth_gasPrice")).code == 4901
        answers = await dapp.batch([("eth_accounts",), ("eth_blockNumber",)])
        assert (answers[0].keys() >= {"result"}, answers[1]["error"]["code"]) == (True, 4901)

    assert set(fake.methods) == {"eth_chainId"}


async def test_a_node_behind_a_proxy_that_closes_every_connection_is_sent_to(
    fake: FakeNode, tmp_path: Path
) -> None:
    async with (
        open_closing_proxy(fake.url) as url,
        running_server(tmp_path / "data", dev_accounts=True, node_url=url) as server,
    ):
        dapp = RpcClient(server)

        sent = await dapp.call("eth_sendTransaction", transaction())

        assert sent in fake.taken
        assert (await dapp.call("wallet_getQueuedTransaction", sent))["state"] == "sent"


async def rpc(server: ServerProcess, method: str, *params: Any) -> Any:
    request = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    async with aiohttp.ClientSession() as client, client.post(f"{server.url}/rpc", json=request) as response:
        return orjson.loads(await response.read())["result"]


@pytest.mark.parametrize("is_killed", [True, False], ids=["killed", "stopped"])
async def test_a_server_that_ends_in_mid_broadcast_sends_the_stored_bytes_when_it_is_back(
    fake: FakeNode, tmp_path: Path, is_killed: bool
) -> None:
    arguments = ("--dev-accounts", "--node-url", fake.url)
    fake.at("eth_sendRawTransaction", hang)
    with server_process(tmp_path / "data", *arguments) as server:
        sending = asyncio.create_task(rpc(server, "eth_sendTransaction", transaction()))
        await fake.asked("eth_sendRawTransaction")
        if is_killed:
            server.kill()
            with pytest.raises(aiohttp.ClientError):
                await sending
        else:
            assert await asyncio.to_thread(server.stop) == 0
            assert await sending == ZERO_HASH

    with server_process(tmp_path / "data", *arguments) as server:

        async def has_arrived() -> bool:
            return bool((await rpc(server, "wallet_getQueuedTransaction"))["state"] == "sent")

        await eventually(has_arrived)

    assert len(fake.sent()) == 2
    assert len(set(fake.sent())) == 1
    (line,) = (tmp_path / "data" / "audit.log").read_bytes().splitlines()
    assert orjson.loads(line)["method"] == "eth_sendTransaction"
