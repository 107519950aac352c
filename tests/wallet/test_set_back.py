"""Chains that are set back, by snapshots, resets, and nodes that lose their state: no gaps, no replays."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import structlog

from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, drop, open_fake_node
from bridge_server.wallet.models import NoNodeError, RpcCall
from tests.wallet.anvil import Anvil, needs_anvil, open_anvil
from tests.wallet.rig import ALICE, BOB, Rig, open_rig, signed_elsewhere


@pytest.fixture
async def anvil(tmp_path: Path) -> AsyncIterator[Anvil]:
    async with open_anvil(tmp_path) as anvil:
        yield anvil


@pytest.fixture
async def rig(anvil: Anvil, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, anvil.url) as rig:
        yield rig


@pytest.fixture
async def idle_rig(anvil: Anvil, tmp_path: Path) -> AsyncIterator[Rig]:
    """Nothing is looked at but by a send."""
    async with open_rig(tmp_path, anvil.url, broadcasts=False) as rig:
        yield rig


@pytest.fixture
async def fake() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as fake:
        yield fake


async def pass_on(rig: Rig, method: str, *params: Any) -> Any:
    """Ask the node through the wallet."""
    (answer,) = await rig.wallet.node.forward([RpcCall(method, list(params))])
    return answer


async def states(rig: Rig, *transactions: str) -> list[tuple[str, str]]:
    found = [await rig.queued(each) for each in transactions]
    return [(each["nonce"], each["state"]) for each in found]


def mine(fake: FakeNode, count: str) -> None:
    """Say that everything is in a block, and so many of each account."""
    fake.results["eth_getTransactionCount"] = count
    fake.results["eth_getTransactionByHash"] = lambda sent: {"hash": sent, "blockNumber": "0x1"}


async def mined(rig: Rig, anvil: Anvil, value: str) -> str:
    sent = await rig.send(value=value)
    await see_mined(rig, anvil, sent)
    return sent


async def see_mined(rig: Rig, anvil: Anvil, sent: str) -> None:
    """Have the wallet look once the block is there: the node answers a send before it mines, and on a clock
    that stands still the wallet does not look again.
    """
    await anvil.receipt(sent)
    rig.clock.advance(61)
    await rig.until("mined", sent)


@needs_anvil
async def test_transactions_that_the_node_has_lost_go_before_new_ones(idle_rig: Rig, anvil: Anvil) -> None:
    rig = idle_rig
    snapshot = await anvil.call("evm_snapshot")
    lost = [await rig.send(value="0x1"), await rig.send(value="0x2")]
    await anvil.call("evm_revert", snapshot)

    sent = await rig.send(value="0x3")

    assert await states(rig, *lost, sent) == [("0x0", "sent"), ("0x1", "sent"), ("0x2", "sent")]
    await anvil.count(ALICE, 3)


@needs_anvil
async def test_a_chain_that_is_set_back_through_the_wallet_gets_no_transaction_again(
    rig: Rig, anvil: Anvil
) -> None:
    kept = await rig.send(value="0x1")
    await anvil.receipt(kept)
    snapshot = await anvil.call("evm_snapshot")
    undone = [await mined(rig, anvil, "0x2"), await rig.send(value="0x3")]
    await anvil.receipt(undone[1])  # a transaction that waits for its block outlives the revert

    await pass_on(rig, "evm_revert", snapshot)

    assert await states(rig, kept, *undone) == [("0x0", "mined"), ("0x1", "forgotten"), ("0x2", "forgotten")]
    sent = await rig.send(value="0x4")
    assert (await rig.queued(sent))["nonce"] == "0x1"
    await see_mined(rig, anvil, sent)
    await anvil.count(ALICE, 2)
    assert (await rig.queued(undone[0]))["error"] == "The node's chain was set back."


@needs_anvil
async def test_a_transaction_that_is_dropped_through_the_wallet_stays_dropped(rig: Rig, anvil: Anvil) -> None:
    await anvil.call("evm_setAutomine", False)
    other, dropped = await rig.send(value="0x1"), await rig.send(value="0x2")

    await pass_on(rig, "anvil_dropTransaction", dropped)

    assert await states(rig, other, dropped) == [("0x0", "sent"), ("0x1", "forgotten")]
    assert (await rig.queued(await rig.send(value="0x3")))["nonce"] == "0x1"


@needs_anvil
async def test_a_queued_transaction_outlives_a_reset(anvil: Anvil, tmp_path: Path) -> None:
    anvil.kill()
    async with open_rig(tmp_path, anvil.url, broadcasts=False) as rig:
        await rig.send(value="0x1")
        await anvil.start()

        await pass_on(rig, "anvil_reset")

        assert (await rig.queued())["state"] == "queued"


@needs_anvil
async def test_an_account_whose_count_is_set_goes_on_from_there(rig: Rig, anvil: Anvil) -> None:
    first = await mined(rig, anvil, "0x1")

    await pass_on(rig, "anvil_setNonce", ALICE, "0x9")
    second = await rig.send(value="0x2")
    assert (await rig.queued(second))["nonce"] == "0x9"
    await anvil.receipt(second)
    await pass_on(rig, "anvil_setNonce", ALICE, "0x4")

    assert (await rig.queued(await rig.send(value="0x3")))["nonce"] == "0x4"
    assert (await rig.queued(first))["state"] == "mined"


@needs_anvil
async def test_a_chain_that_was_set_back_is_found_out_by_a_send(rig: Rig, anvil: Anvil) -> None:
    snapshot = await anvil.call("evm_snapshot")
    undone = [await mined(rig, anvil, "0x1"), await mined(rig, anvil, "0x2"), await rig.send(value="0x3")]
    await anvil.receipt(undone[2])
    await anvil.call("evm_revert", snapshot)

    with structlog.testing.capture_logs() as logs:
        sent = await rig.send(value="0x4")

    assert (await rig.until("arrived", sent))["nonce"] == "0x0"
    assert await states(rig, *undone) == [("0x0", "forgotten"), ("0x1", "forgotten"), ("0x2", "forgotten")]
    warnings = [each for each in logs if each["event"] == "transactions_lost"]
    assert [(each["account"], each["count"]) for each in warnings] == [(ALICE, 3)]
    await anvil.count(ALICE, 1)


@needs_anvil
async def test_a_chain_that_was_set_back_is_found_out_without_a_send(rig: Rig, anvil: Anvil) -> None:
    snapshot = await anvil.call("evm_snapshot")
    undone = await mined(rig, anvil, "0x1")
    await anvil.call("evm_revert", snapshot)

    rig.clock.advance(61)

    await rig.until("forgotten", undone)


@needs_anvil
async def test_a_node_that_is_started_anew_gets_no_transaction_of_its_former_chain(
    rig: Rig, anvil: Anvil
) -> None:
    first = await mined(rig, anvil, "0x1")
    await anvil.call("evm_setAutomine", False)
    second = await rig.send(value="0x2")
    anvil.kill()
    await anvil.start(keeps_state=False)

    rig.clock.advance(61)
    await rig.until("forgotten", first)

    assert await states(rig, second) == [("0x1", "forgotten")]
    assert (await rig.queued(await rig.send(value="0x3")))["nonce"] == "0x0"


@needs_anvil
async def test_a_nonce_that_was_used_outside_the_wallet_replaces_the_transaction(
    idle_rig: Rig, anvil: Anvil
) -> None:
    await anvil.call("evm_setAutomine", False)
    sent = await idle_rig.send()
    await anvil.call("anvil_dropTransaction", sent)
    await anvil.call("eth_sendRawTransaction", signed_elsewhere())
    await anvil.call("evm_mine")

    await idle_rig.wallet.worker.work()

    replaced = await idle_rig.queued(sent)
    assert replaced["state"] == "replaced"
    assert replaced["error"] == "Its nonce is used on the chain, and the node does not know it."


async def test_a_chain_that_is_set_back_in_the_middle_of_a_check_replaces_nothing(
    fake: FakeNode, tmp_path: Path
) -> None:
    def set_back(_: str) -> None:
        fake.results["eth_getTransactionCount"] = "0x0"

    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        sent = await rig.send()
        fake.results |= {"eth_getTransactionCount": "0x1", "eth_getTransactionByHash": set_back}

        await rig.wallet.worker.work()

        assert (await rig.queued(sent))["state"] == "sent"


@needs_anvil
async def test_a_mined_transaction_is_confirmed_soon(rig: Rig, anvil: Anvil) -> None:
    for value in ("0x1", "0x2"):
        sent = await rig.send(value=value)
        await anvil.receipt(sent)

        rig.clock.advance(1)

        await rig.until("mined", sent)


async def test_a_receipt_for_a_client_confirms_the_transaction(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url) as rig:
        sent = await rig.send()
        mine(fake, "0x0")  # which is not enough for a check
        fake.results["eth_getTransactionReceipt"] = {"blockNumber": None}
        await pass_on(rig, "eth_getTransactionReceipt", sent)
        assert (await rig.queued(sent))["state"] == "sent"

        fake.results["eth_getTransactionReceipt"] = {"blockNumber": "0x1"}
        await pass_on(rig, "eth_getTransactionReceipt", sent)

        await rig.until("mined", sent)


async def test_a_lost_answer_to_a_revert_counts_as_a_revert(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        sent = await rig.send()
        fake.taken.clear()
        fake.at("evm_revert", drop)

        with pytest.raises(NoNodeError):
            await pass_on(rig, "evm_revert", "0x1")

        assert (await rig.queued(sent))["state"] == "forgotten"


async def test_a_possible_revert_is_remembered_while_the_node_is_away(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        sent = await rig.send()
        fake.taken.clear()
        fake.at("evm_revert", drop)
        fake.at("eth_getTransactionCount", drop, drop)
        with pytest.raises(NoNodeError):
            await pass_on(rig, "evm_revert", "0x1")

        await rig.send(value="0x2")

        assert (await rig.queued(sent))["state"] == "forgotten"


@needs_anvil
async def test_a_chain_set_back_for_one_account_is_set_back_for_all(rig: Rig, anvil: Anvil) -> None:
    snapshot = await anvil.call("evm_snapshot")
    await mined(rig, anvil, "0x1")
    others = await rig.send(from_=BOB, to=ALICE)
    await anvil.receipt(others)
    await anvil.call("evm_revert", snapshot)
    await rig.send(value="0x2")

    rig.clock.advance(1)

    await rig.until("forgotten", others)
    await anvil.count(BOB, 0)


@needs_anvil
async def test_a_replaced_transaction_names_its_replacement(idle_rig: Rig, anvil: Anvil) -> None:
    await anvil.call("evm_setAutomine", False)
    replaced = await idle_rig.send(gasPrice=hex(10**10))

    sent = await idle_rig.send(gasPrice=hex(2 * 10**10), nonce="0x0")

    assert (await idle_rig.queued(replaced))["error"] == f"Transaction {sent} has its nonce."


async def test_checks_of_a_sent_transaction_become_less_frequent(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        await rig.wallet.worker.work()
        await rig.send()
        await rig.wallet.worker.work()  # the connection is new
        known = fake.methods.count("eth_getTransactionByHash")

        for looks, seconds in enumerate([0.1, 0.5, 1, 2, 4, 8, 16, 32, 60, 60], known):
            rig.clock.advance(seconds - 0.001)
            await rig.wallet.worker.work()
            assert fake.methods.count("eth_getTransactionByHash") == looks
            rig.clock.advance(0.001)
            await rig.wallet.worker.work()
            assert fake.methods.count("eth_getTransactionByHash") == looks + 1


async def test_setting_the_clock_back_delays_no_check(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        await rig.wallet.worker.work()
        await rig.send()
        await rig.wallet.worker.work()  # the connection is new
        known = fake.methods.count("eth_getTransactionByHash")

        rig.clock.set_by(-86_400)
        rig.clock.advance(0.1)
        await rig.wallet.worker.work()

        assert fake.methods.count("eth_getTransactionByHash") == known + 1


async def test_the_first_check_comes_later_where_checks_take_long(fake: FakeNode, tmp_path: Path) -> None:
    """While there are sends all the time, looks take no more than a tenth of it."""
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:

        def slow(sent: str) -> dict[str, str]:
            rig.clock.advance(0.08)
            return {"hash": sent}

        fake.results["eth_getTransactionByHash"] = slow
        await rig.wallet.worker.work()
        await rig.send()
        for seconds in (0, 0.02, 0.42):
            rig.clock.advance(seconds)
            await rig.wallet.worker.work()
        assert fake.methods.count("eth_getTransactionByHash") == 3

        await rig.send(value="0x2")

        known = fake.methods.count("eth_getTransactionByHash")
        for seconds, looks in [(0.799, 0), (0.001, 2)]:
            rig.clock.advance(seconds)
            await rig.wallet.worker.work()
            assert fake.methods.count("eth_getTransactionByHash") == known + looks


async def test_a_transaction_back_in_the_pool_after_a_reorganisation_is_not_lost(
    fake: FakeNode, tmp_path: Path
) -> None:
    before = dict(fake.results)
    async with open_rig(tmp_path, fake.url) as rig:
        sent = await rig.send(value="0x1")
        mine(fake, "0x1")
        rig.clock.advance(61)
        await rig.until("mined", sent)
        fake.results |= before

        await rig.send(value="0x2")

        assert (await rig.queued(sent))["state"] == "sent"
        mine(fake, "0x1")
        rig.clock.advance(61)
        await rig.until("mined", sent)


async def test_a_node_that_lags_behind_gets_no_nonce_twice(fake: FakeNode, tmp_path: Path) -> None:
    """Behind one address there may be several nodes: one counts less than another has mined."""
    async with open_rig(tmp_path, fake.url) as rig:
        await rig.send(value="0x1")
        mine(fake, "0x0")

        assert (await rig.queued(await rig.send(value="0x2")))["nonce"] == "0x1"


async def test_a_node_that_does_not_know_hashes_changes_nothing(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url) as rig:
        sent = await rig.send()
        fake.results["eth_getTransactionByHash"] = RpcFailure(-32000, "not indexed")
        fake.results["eth_getTransactionCount"] = "0x1"
        asked = fake.methods.count("eth_getTransactionByHash")

        rig.clock.advance(61)
        await fake.asked("eth_getTransactionByHash", asked + 1)
        rig.clock.advance(61)
        await fake.asked("eth_getTransactionByHash", asked + 2)

        assert (await rig.queued(sent))["state"] == "sent"
