"""The fixtures as tests use them: a bridge, a process, a node, a project, a wallet, and their thread."""

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest
from coincurve import PrivateKey

from bridge_server.ethereum.signing_key import SigningKey, personal_message_hash, recover_address
from bridge_server.kit.client import CallFailedError, RejectedError, RequestRefusedError, SessionEndedError
from bridge_server.kit.client.dapp_and_wallet import Generation
from bridge_server.kit.fixtures import (
    Bridge,
    BridgeNode,
    BridgeProcess,
    BridgeProject,
    BridgeWallet,
    NothingReceivedError,
    NothingSentError,
    RequestFailedError,
)
from bridge_server.kit.fixtures.background_loop import BackgroundLoop
from bridge_server.kit.headless import Result
from bridge_server.kit.testing.fake_node import ETHER
from tests.support.waiting import until

ADDRESS = "0xf39Fd6e51aad88F6F4ce6aB8827279cffFb92266"
TO = "0x00000000000000000000000000000000000000a1"
HELLO = "0x68656c6c6f"


@pytest.mark.bridge(session_ttl=5)
class TestNearestMarker:
    """Settings of a class, and of a test in it."""

    @pytest.mark.bridge(session_ttl=500)
    def test_the_nearest_marker_wins(self, bridge: Bridge) -> None:
        dapp = bridge.dapp("Example")
        bridge.clock.advance(seconds=6)
        assert dapp.request("personal_sign", ["0x68", ADDRESS])


def test_an_order_for_a_fault_makes_requests_fail_and_the_clock_can_be_set(bridge: Bridge) -> None:
    bridge.faults.request(403, route="open-session", times=1)
    with pytest.raises(RequestRefusedError):
        bridge.dapp("Example")
    bridge.faults.disk("full", after=100)  # another fault does not revive the one that is over
    assert bridge.dapp("Example").uri
    assert [rule["where"] for rule in bridge.faults.list()] == ["disk"]
    bridge.reset()
    assert bridge.faults.list() == []

    then = datetime(2030, 1, 15, 8, tzinfo=UTC)
    bridge.clock.set(then, frozen=True)
    assert bridge.clock.now() == then
    assert bridge.v07_url == f"{bridge.url}/compat/v0.7"


def test_a_mistake_of_a_test_is_raised_with_its_reason(bridge: Bridge, bridge_project: BridgeProject) -> None:
    with pytest.raises(RuntimeError, match=r"call approval\(\) first"):
        _ = bridge.dapp("Example").accounts
    with pytest.raises(NothingSentError, match="no further fcm message was delivered within 0 s"):
        bridge.sent.fcm()
    with pytest.raises(ValueError, match="name a development account"):
        bridge_project.inbox("0x0000000000000000000000000000000000000001")
    with pytest.raises(RequestFailedError, match="was answered 400") as refused:
        bridge_project.notify(0, title="x" * 65)
    assert refused.value.status == 400
    assert "#/notification/title" in str(refused.value)


@pytest.mark.bridge(approve="queue")
def test_a_call_wakes_a_wallet_that_sleeps(bridge: Bridge) -> None:
    dapp = bridge.dapp("Example Dapp")
    topic = dapp.uri.partition("wc-")[2].partition("@")[0]
    fields = {"type": "fcm", "token": "a-token", "peerName": "Example Dapp", "language": "en"}
    bridge.http.send("POST", "/new", {"bridge": bridge.url, "topic": topic, **fields})
    bridge.faults.fcm("UNAVAILABLE", times=1)

    dapp.request("personal_sign", ["0x68", ADDRESS])
    bridge.clock.advance(minutes=1)

    assert bridge.sent.fcm(wait=20, topic=topic).title == "Example Dapp"


@pytest.mark.usefixtures("forked_processes")
@pytest.mark.bridge(session_ttl=500, rpc_origins=("http://localhost:3000", "https://a.example"))
def test_a_write_survives_a_crash(bridge_process: BridgeProcess, bridge_project: BridgeProject) -> None:
    url, pid = bridge_process.url, bridge_process.pid
    dapp = bridge_process.dapp("Example")
    bridge_project.subscribe(3)

    bridge_process.kill()
    assert not bridge_process.is_running
    bridge_process.restart()

    assert (bridge_process.url, bridge_process.is_running) == (url, True)
    assert pid not in (bridge_process.pid, os.getpid())
    assert dapp.request("personal_sign", ["0x68", "0x0"])
    assert len(bridge_project.subscribers()) == 1
    assert [each.path for each in bridge_process.traffic() if each.who != "test"] != []


def test_a_process_stops_in_good_order(bridge_process: BridgeProcess) -> None:
    bridge_process.clock.advance(hours=1)

    assert bridge_process.stop() == 0
    assert "server_stopped" in bridge_process.log()


def node_rpc(bridge: Bridge, method: str, *params: Any) -> Any:
    call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return bridge.http.send("POST", "/rpc", call)


def send_ether(bridge: Bridge, wei: int = 5) -> Any:
    transaction = {"from": bridge.accounts[0], "to": TO, "value": hex(wei), "gas": hex(21_000)}
    return node_rpc(bridge, "eth_sendTransaction", transaction)


def test_transactions_move_money_and_make_contracts(bridge: Bridge, bridge_node: BridgeNode) -> None:
    sent = send_ether(bridge, ETHER)["result"]

    receipt = node_rpc(bridge, "eth_getTransactionReceipt", sent)["result"]
    assert (receipt["status"], receipt["blockNumber"], bridge_node.block_number) == ("0x1", "0x1", 1)
    assert bridge_node.balance(TO) == 10_001 * ETHER
    assert [f"0x{each.hash.hex()}" for each in bridge_node.transactions] == [sent]
    assert "eth_sendRawTransaction" in bridge_node.methods
    with bridge_node.not_mining():
        first, second = (send_ether(bridge)["result"] for _ in range(2))
        assert node_rpc(bridge, "eth_getTransactionReceipt", first)["result"] is None
        bridge_node.mine()
    assert [each.nonce for each in bridge_node.transactions] == [0, 1, 2]
    assert node_rpc(bridge, "eth_getTransactionReceipt", second)["result"]["transactionIndex"] == "0x1"
    creation = {"from": bridge.accounts[0], "data": "0x6000"}
    made = node_rpc(bridge, "eth_sendTransaction", creation)["result"]
    found = node_rpc(bridge, "eth_getTransactionReceipt", made)["result"]["contractAddress"]
    assert found == "0xcf7ed3acca5a467e9e704c703e8d87f634fb0fc9"


@pytest.mark.bridge(node_timeout=1.5)
def test_a_node_that_is_slow_is_not_waited_for_for_ever(bridge: Bridge, bridge_node: BridgeNode) -> None:
    with bridge_node.slow(30):
        assert "error" in node_rpc(bridge, "eth_blockNumber")

    until(lambda: node_rpc(bridge, "eth_blockNumber").get("result") == "0x0")


def test_a_node_answers_as_told_and_may_be_away(bridge: Bridge, bridge_node: BridgeNode) -> None:
    bridge_node.answer("eth_call", "0x2a")
    bridge_node.refuse("eth_estimateGas", 3, "execution reverted", "0x08c379a0")
    assert node_rpc(bridge, "eth_call", {}, "latest")["result"] == "0x2a"
    assert node_rpc(bridge, "eth_estimateGas", {})["error"]["code"] == 3

    send_ether(bridge)
    with bridge_node.away():
        assert send_ether(bridge)["result"] == "0x" + "00" * 32
    bridge.clock.advance(minutes=10)
    assert len(bridge_node.transactions) == 2, "a node that was away gets the transaction later"
    bridge_node.set_balance(bridge.accounts[0], 1)
    assert "insufficient funds" in send_ether(bridge)["error"]["message"]


def test_any_subscribed_account_gets_notifications(bridge: Bridge, bridge_project: BridgeProject) -> None:
    inbox = bridge_project.inbox(0)
    inbox.subscribe()
    notified = bridge_project.notify(0, title="Hello")
    found = inbox.next(wait=20)
    assert notified.sent == [inbox.account]
    assert (found.title, found.body, found.url) == ("Hello", "Body", None)
    inbox.read(found)
    with pytest.raises(NothingReceivedError):
        inbox.next()
    assert [each.id for each in inbox.notifications()] == [found.id]

    address = "0x0000000000000000000000000000000000000001"
    bridge_project.subscribe(address)
    assert bridge_project.subscribers() == [f"eip155:1:{address}", inbox.account]
    assert bridge_project.notify(address, 1).not_found != []
    bridge_project.unsubscribe(address)
    assert bridge_project.notify(address).sent == []

    bridge.clock.advance(days=400)  # an account of another library signs in at the server's time
    secret = PrivateKey.from_int(7).secret
    account: Any = SimpleNamespace(key=secret, address=SigningKey(secret).address)
    bridge_project.subscribe(account)
    assert bridge_project.inbox(account).account == f"eip155:1:{account.address}"
    assert bridge_project.notify(account).sent == [f"eip155:1:{account.address}"]


def test_a_push_that_fails_is_tried_again(bridge: Bridge, bridge_project: BridgeProject) -> None:
    inbox = bridge_project.inbox(0)
    inbox.subscribe()
    inbox.add_device("fcm", "a-token")
    bridge.faults.fcm("UNAVAILABLE", times=1)
    bridge_project.notify(0, title="First")
    bridge.clock.advance(minutes=5)

    assert bridge.sent.fcm(wait=20).title == "First"
    assert [each.outcome for each in bridge.sent.list("fcm")] == ["failed", "delivered"]
    bridge_project.notify(0, title="Second")
    assert bridge.sent.fcm(wait=20, account=inbox.account).title == "Second"
    with pytest.raises(NothingSentError):
        bridge.sent.fcm()


@pytest.mark.parametrize("generation", ["plain", "0.7", "1.x", "2.x"])
def test_wallets_pair_and_sign(bridge: Bridge, bridge_wallet: BridgeWallet, generation: Generation) -> None:
    dapp = bridge.dapp("Example", generation=generation)
    session = bridge_wallet.pair(dapp.uri)
    dapp.approval()

    signature = bytes.fromhex(dapp.call("personal_sign", [HELLO, dapp.accounts[0]])[2:])

    assert recover_address(personal_message_hash(b"hello"), signature) == bridge_wallet.accounts[0]
    assert [(call.method, call.text) for call in bridge_wallet.calls] == [("personal_sign", "hello")]
    assert (session.dapp.name, session.state) == ("Example", "approved")
    found = bridge_wallet.request("eth_requestAccounts", origin="https://dapp.example")
    assert found == Result(bridge_wallet.accounts)


def test_the_test_itself_decides(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    bridge_wallet.on("*").ask()
    dapp = bridge.dapp("Example")
    session = bridge_wallet.pair(dapp.uri)
    dapp.approval()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(dapp.call, "personal_sign", [HELLO, dapp.accounts[0]])

        call = bridge_wallet.next_call("personal_sign", timeout=60)
        call.answer("0xfeed")

        assert (call.text, answer.result(10)) == ("hello", "0xfeed")
    session.switch_account(1)
    assert session.accounts == dapp.approval().accounts
    session.disconnect()
    with pytest.raises(SessionEndedError):
        dapp.approval()


@pytest.mark.bridge_wallet(session="reject")
def test_a_marker_has_options(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    dapp = bridge.dapp("Example")
    bridge_wallet.pair(dapp.uri)

    with pytest.raises(RejectedError):
        dapp.approval()


async def test_an_async_test_pairs(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    bridge_wallet.on("personal_sign").ask()
    async with bridge.adapp("Example") as dapp:
        await bridge_wallet.apair(dapp.uri)
        approval = await dapp.approval()
        assert (approval.accounts, dapp.accounts, dapp.chain_id) == ((ADDRESS,), (ADDRESS,), 31_337)
        call_id = await dapp.request("personal_sign", [HELLO, ADDRESS])
        call = await bridge_wallet.anext_call(timeout=60)
        call.reject()

        with pytest.raises(CallFailedError):
            await dapp.result(call_id)


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop()
    yield loop
    loop.stop()


async def fail() -> None:
    raise ValueError("no")


def test_a_call_ends_as_the_coroutine_does_and_the_loop_begins_again(background: BackgroundLoop) -> None:
    async def ask() -> int:
        return background.run(asyncio.sleep(0, 8))

    assert background.run(asyncio.sleep(0, 8)) == 8
    with pytest.raises(ValueError, match="no"):
        background.run(fail())
    with pytest.raises(RuntimeError, match="cannot wait for them"):
        background.run(ask())

    background.stop()
    background.stop()
    assert background.run(asyncio.sleep(0, 9)) == 9


async def test_asyncio_waits_for_it_without_blocking_and_may_give_up(background: BackgroundLoop) -> None:
    waits = [background.wait_for(asyncio.sleep(0, number)) for number in range(3)]
    assert await asyncio.gather(*waits) == [0, 1, 2]
    with pytest.raises(ValueError, match="no"):
        await background.wait_for(fail())

    began, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait() -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    waiting = asyncio.create_task(background.wait_for(wait()))
    await began.wait()
    waiting.cancel()

    async with asyncio.timeout(60):
        await ended.wait()
