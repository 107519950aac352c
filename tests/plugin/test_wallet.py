"""The fixture `bridge_wallet` opposite dapps of every generation."""

from concurrent.futures import ThreadPoolExecutor

import pytest

from bridge_server.ethereum.signing_key import personal_message_hash, recover_address
from bridge_server.kit.client import CallFailedError, RejectedError, SessionEndedError
from bridge_server.kit.client.dapp_and_wallet import Generation
from bridge_server.kit.fixtures import Bridge, BridgeNode, BridgeProcess, BridgeProject, BridgeWallet
from bridge_server.kit.headless import Result

pytestmark = pytest.mark.usefixtures("forked_processes")

HELLO = "0x68656c6c6f"
GENERATIONS: list[Generation] = ["plain", "0.7", "1.x", "2.x"]


@pytest.mark.parametrize("generation", GENERATIONS)
def test_the_wallet_pairs_and_signs(
    bridge: Bridge, bridge_wallet: BridgeWallet, generation: Generation
) -> None:
    dapp = bridge.dapp("Example", generation=generation)
    session = bridge_wallet.pair(dapp.uri)
    dapp.approval()

    signature = dapp.call("personal_sign", [HELLO, dapp.accounts[0]])

    digest = personal_message_hash(b"hello")
    assert recover_address(digest, bytes.fromhex(signature[2:])) == bridge_wallet.accounts[0]
    assert [(call.method, call.text) for call in bridge_wallet.calls] == [("personal_sign", "hello")]
    assert (session.dapp.name, session.state) == ("Example", "approved")


def test_the_session_expires(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    dapp = bridge.dapp("Example")
    bridge_wallet.pair(dapp.uri)
    assert dapp.approval().accounts

    bridge.clock.advance(hours=25)

    with pytest.raises(SessionEndedError):
        dapp.call("personal_sign", [HELLO, dapp.accounts[0]])


def test_a_rule_rejects(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    bridge_wallet.on("personal_sign").reject()
    dapp = bridge.dapp("Example")
    bridge_wallet.pair(dapp.uri)
    dapp.approval()

    with pytest.raises(CallFailedError) as refused:
        dapp.call("personal_sign", [HELLO, dapp.accounts[0]])

    assert refused.value.code == 4001


def test_the_test_itself_decides(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    bridge_wallet.on("*").ask()
    dapp = bridge.dapp("Example")
    session = bridge_wallet.pair(dapp.uri)
    dapp.approval()
    with ThreadPoolExecutor() as pool:
        answer = pool.submit(dapp.call, "personal_sign", [HELLO, dapp.accounts[0]])

        call = bridge_wallet.next_call("personal_sign")
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


def test_transactions_go_to_the_tests_node(
    bridge: Bridge, bridge_wallet: BridgeWallet, bridge_node: BridgeNode
) -> None:
    dapp = bridge.dapp("Example")
    bridge_wallet.pair(dapp.uri)
    payment = {"from": dapp.approval().accounts[0], "to": bridge.accounts[1], "value": hex(10**18)}

    sent = dapp.call("eth_sendTransaction", [payment])

    assert [f"0x{each.hash.hex()}" for each in bridge_node.transactions] == [sent]


def test_a_pages_calls_follow_the_wallets_rules(bridge_wallet: BridgeWallet) -> None:
    found = bridge_wallet.request("eth_requestAccounts", origin="https://dapp.example")

    assert found == Result(bridge_wallet.accounts)


def test_a_crash_of_the_bridge_loses_nothing(
    bridge_process: BridgeProcess, bridge_wallet: BridgeWallet
) -> None:
    dapp = bridge_process.dapp("Example")
    bridge_wallet.pair(dapp.uri)
    dapp.approval()

    bridge_process.kill()
    bridge_process.restart()

    assert dapp.call("personal_sign", [HELLO, dapp.accounts[0]])


def test_its_accounts_have_inboxes(bridge_wallet: BridgeWallet, bridge_project: BridgeProject) -> None:
    inbox = bridge_project.inbox(bridge_wallet.accounts[0])
    inbox.subscribe()
    bridge_project.notify(bridge_wallet.accounts[0], title="Hello")

    assert inbox.next(wait=5).title == "Hello"


async def test_an_async_test_pairs(bridge: Bridge, bridge_wallet: BridgeWallet) -> None:
    bridge_wallet.on("personal_sign").ask()
    async with bridge.adapp("Example") as dapp:
        await bridge_wallet.apair(dapp.uri)
        await dapp.approval()
        call_id = await dapp.request("personal_sign", [HELLO, dapp.accounts[0]])
        call = await bridge_wallet.anext_call()
        call.reject()

        with pytest.raises(CallFailedError):
            await dapp.result(call_id)
