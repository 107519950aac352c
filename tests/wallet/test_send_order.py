"""An account's transactions keep their order and nonces: queues, nodes that forget or are set back, checks.

The worker works when a test says so: no client sees in which look a transaction is sent.
"""

from pathlib import Path

import pytest
import structlog

from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, drop, says
from bridge_server.wallet.models import Address, NodeError, NoNodeError, TransactionId
from bridge_server.wallet.transactions.broadcasting import says_not_at_this_price
from bridge_server.wallet.transactions.states import DropPauses
from tests.support.clock import ManualClock
from tests.support.rows import each_row
from tests.wallet.rig import ALICE, BOB, ZERO_HASH, Rig, open_rig, signed_elsewhere, transaction


@pytest.fixture
def rig(idle_rig: Rig) -> Rig:
    """Nothing is sent in the background."""
    return idle_rig


async def nonces(rig: Rig, *values: str) -> list[str | None]:
    return [(await rig.queued(transaction(value=value)))["nonce"] for value in values]


async def states(rig: Rig, *hashes: str) -> list[str]:
    return [(await rig.queued(each))["state"] for each in hashes]


async def queue(rig: Rig, fake: FakeNode, *values: str) -> None:
    """Ask for transactions while the node cannot be asked for the next nonce."""
    fake.results["eth_getTransactionCount"], count = "starting", fake.results["eth_getTransactionCount"]
    for value in values:
        assert await rig.send(value=value) == ZERO_HASH
    fake.results["eth_getTransactionCount"] = count


async def test_the_queue_keeps_its_order_whichever_transaction_is_due(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1", "0x2")
    (oldest, *_) = await rig.wallet.transactions.queue(Address(ALICE))
    await rig.wallet.transactions.postpone({oldest: rig.clock.now_ms() + 60_000}, "no answer")
    for _ in range(2):
        await rig.wallet.worker.work()
        rig.clock.advance(1)
    assert await nonces(rig, "0x1", "0x2") == ["0x0", "0x1"]


async def test_a_transaction_with_a_given_nonce_does_not_wait_for_the_queue(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1")
    await rig.send(value="0x2", nonce="0x0")
    await rig.send(value="0x3")
    assert (await rig.queued(transaction(value="0x2", nonce="0x0")))["nonce"] == "0x0"
    assert await nonces(rig, "0x1", "0x3") == ["0x1", "0x2"]


async def test_a_queue_delays_no_other_account_and_no_new_transaction(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1")
    await rig.send(from_=BOB, value="0x2")
    assert (await rig.queued(ALICE))["state"] == "queued"
    fake.results["eth_gasPrice"] = RpcFailure(-32601, "no such method")
    sent = await rig.send(value="0x2", gasPrice="0x1")
    assert (await rig.queued(sent))["nonce"] == "0x0"
    held_up = await rig.queued(transaction(value="0x1"))
    assert (held_up["state"], held_up["error"]) == ("queued", "no such method")


@each_row(("message", "may_pass"), [
    ("replacement transaction underpriced", True),
    ("transaction underpriced: gas tip cap 1, minimum needed 2", True),
    ("insufficient funds for gas * price + value: balance 0, tx cost 5, overshot 5", True),
    ("FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 2", True),
    ("Upfront cost exceeds account balance", True),
    ("Gas price below configured minimum gas price", True),
    ("could not replace existing tx", True), ("nonce too low", False), ("exceeds block gas limit", False),
])  # fmt: skip
def test_a_refusal_may_pass_when_it_is_for_the_price_or_the_funds(message: str, may_pass: bool) -> None:
    assert says_not_at_this_price(NodeError(-32000, message)) is may_pass


async def test_a_given_out_hash_keeps_its_nonce_while_its_price_may_do(rig: Rig, fake: FakeNode) -> None:
    given_out = await rig.send(value="0x1")
    fake.taken.clear()  # it was dropped
    fake.at("eth_sendRawTransaction", says(-32000, "transaction underpriced"))

    with structlog.testing.capture_logs() as logs:
        later = await rig.send(value="0x2")

    stored = await rig.queued(given_out)
    assert (stored["state"], stored["nonce"], stored["error"]) == ("signed", "0x0", "transaction underpriced")
    assert [each["reason"] for each in logs if each["event"] == "transaction_postponed"] == [stored["error"]]
    assert (await rig.queued(later))["nonce"] == "0x1"

    rig.clock.advance(61)
    await rig.wallet.worker.work()
    assert await states(rig, given_out, later) == ["sent", "sent"]


async def test_a_given_out_hash_is_refused_when_it_can_never_be_valid(rig: Rig, fake: FakeNode) -> None:
    given_out = await rig.send(value="0x1")
    fake.taken.clear()
    fake.at("eth_sendRawTransaction", says(-32000, "nonce too low"))
    later = await rig.send(value="0x2")
    assert await states(rig, given_out, later) == ["refused", "sent"]
    assert (await rig.queued(later))["nonce"] == "0x0"


async def test_transactions_behind_a_postponed_one_are_confirmed_too(rig: Rig, fake: FakeNode) -> None:
    first, second = await rig.send(value="0x1"), await rig.send(value="0x2")
    fake.taken.clear()
    fake.at("eth_sendRawTransaction", says(-32000, "transaction underpriced"))
    third = await rig.send(value="0x3")
    assert await states(rig, first, second) == ["signed", "sent"]
    fake.taken.clear()

    rig.clock.advance(61)
    for _ in range(2):
        await rig.wallet.worker.work()

    assert len(fake.taken) == 3
    assert await states(rig, first, second, third) == ["sent"] * 3


async def test_equal_requests_are_listed_oldest_first(rig: Rig, fake: FakeNode) -> None:
    await rig.send(value="0x9")
    await queue(rig, fake, "0x1", "0x2", "0x1")
    waiting = await rig.waiting(ALICE)
    assert [each["transaction"]["value"] for each in waiting] == ["0x1", "0x2", "0x1"]
    await rig.send(value="0x1")

    alike = await rig.waiting(transaction(value="0x1"))

    assert [(each["nonce"], each["state"]) for each in alike] == [(f"0x{n}", "sent") for n in (1, 3, 4)]
    assert await rig.queued(transaction(value="0x1")) == alike[-1]
    assert await rig.waiting(alike[0]["id"]) == await rig.waiting(alike[0]["hash"]) == alike[:1]
    assert await rig.waiting(transaction(value="0x8")) == await rig.waiting("no-such-id") == []
    assert await rig.waiting() == await rig.waiting(ALICE) == []


async def test_signed_bytes_are_found_in_any_letter_case(rig: Rig) -> None:
    raw = signed_elsewhere()
    for each in (raw, f"0x{raw[2:].upper()}"):
        await rig.send_raw(each)
    found = await rig.waiting(f"0x{raw[2:].upper()}")
    assert [each["transaction"][2:].lower() for each in found] == [raw[2:]] * 2
    assert await rig.queued(raw) == found[-1]


@pytest.fixture
def forgetful(fake: FakeNode) -> FakeNode:
    """The node takes every transaction, and knows none."""
    fake.results["eth_getTransactionByHash"] = None
    return fake


async def work_for(rig: Rig, seconds: float) -> None:
    """Move the clock in steps of a tenth of a second, and let the worker work after each."""
    for _ in range(round(seconds * 10)):
        rig.clock.advance(0.1)
        await rig.wallet.worker.work()


async def test_a_pause_is_not_shortened_and_delays_no_new_transaction(rig: Rig, forgetful: FakeNode) -> None:
    with structlog.testing.capture_logs() as logs:
        await rig.send()
        await work_for(rig, 20)
        broadcasts = len(forgetful.sent())

        for _ in range(50):
            rig.wallet.worker.wake()
            await work_for(rig, 0.1)
        assert len(forgetful.sent()) <= broadcasts + 1
        await work_for(rig, 60)

    assert [each["account"] for each in logs if each["event"] == "transactions_lost"] == [ALICE] * 2
    assert len(set(forgetful.sent())) == 1
    later = await rig.queued(await rig.send(value="0x2"))
    assert (later["state"], later["nonce"]) == ("sent", "0x1")


async def test_a_node_that_was_restarted_gets_what_it_lost_at_once(rig: Rig, forgetful: FakeNode) -> None:
    answers = [None]
    forgetful.results["eth_getTransactionByHash"] = lambda of: answers.pop() if answers else {"hash": of}
    sent = await rig.send()
    await work_for(rig, 0.3)
    assert len(forgetful.sent()) == 2
    assert await states(rig, sent) == ["sent"]


def test_pauses_double_up_to_a_minute_and_a_node_that_was_calm_is_trusted_again() -> None:
    clock, transaction_id = ManualClock(), TransactionId("one")
    pauses = DropPauses(clock)
    found = []
    for _ in range(10):
        pause_ms = pauses.add(transaction_id)
        found.append(pause_ms)
        assert pauses.is_paused(transaction_id) == bool(pause_ms)
        clock.advance(pause_ms / 1_000)
        assert not pauses.is_paused(transaction_id)
    assert found == [0, 1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 60_000, 60_000, 60_000]

    for seconds, pauses_ms in [(599, [0, 60_000]), (660, [0, 1_000])]:  # it was calm for ten minutes
        clock.advance(seconds)
        assert [pauses.add(transaction_id) for _ in pauses_ms] == pauses_ms


def mine(fake: FakeNode, count: str) -> None:
    """Say that everything is in a block, and so many of each account."""
    fake.results["eth_getTransactionCount"] = count
    fake.results["eth_getTransactionByHash"] = lambda sent: {"hash": sent, "blockNumber": "0x1"}


async def test_a_chain_that_is_set_back_during_a_check_replaces_nothing(rig: Rig, fake: FakeNode) -> None:
    def set_back(_: str) -> None:
        fake.results["eth_getTransactionCount"] = "0x0"

    sent = await rig.send()
    fake.results |= {"eth_getTransactionCount": "0x1", "eth_getTransactionByHash": set_back}

    await rig.wallet.worker.work()

    assert await states(rig, sent) == ["sent"]


async def test_a_receipt_confirms_and_a_return_to_the_pool_loses_nothing(
    fake: FakeNode, tmp_path: Path
) -> None:
    before = dict(fake.results)
    async with open_rig(tmp_path, fake.url) as rig:
        sent = await rig.send(value="0x1")
        mine(fake, "0x0")  # which is not enough for a check
        fake.results["eth_getTransactionReceipt"] = {"blockNumber": None}
        await rig.pass_on("eth_getTransactionReceipt", sent)
        assert await states(rig, sent) == ["sent"]
        fake.results["eth_getTransactionReceipt"] = {"blockNumber": "0x1"}
        await rig.pass_on("eth_getTransactionReceipt", sent)
        await rig.until("mined", sent)

        fake.results |= before
        await rig.send(value="0x2")
        assert await states(rig, sent) == ["sent"]
        mine(fake, "0x1")
        rig.clock.advance(61)
        await rig.until("mined", sent)


async def test_a_possible_revert_is_remembered_while_the_node_is_away(rig: Rig, fake: FakeNode) -> None:
    sent = await rig.send()
    fake.taken.clear()
    fake.at("evm_revert", drop)
    fake.at("eth_getTransactionCount", drop, drop)
    with pytest.raises(NoNodeError):
        await rig.pass_on("evm_revert", "0x1")
    await rig.send(value="0x2")
    assert (await rig.queued(sent))["state"] == "forgotten"


async def test_checks_become_less_frequent_whatever_the_wall_clock_says(rig: Rig, fake: FakeNode) -> None:
    await rig.wallet.worker.work()
    await rig.send()
    await rig.wallet.worker.work()  # the connection is new
    known = fake.methods.count("eth_getTransactionByHash")

    for looks, seconds in enumerate([0.1, 0.5, 1, 2, 4, 8, 16, 32, 60, 60], known):
        rig.clock.set_by(-86_400)
        rig.clock.advance(seconds - 0.001)
        await rig.wallet.worker.work()
        assert fake.methods.count("eth_getTransactionByHash") == looks
        rig.clock.advance(0.001)
        await rig.wallet.worker.work()
        assert fake.methods.count("eth_getTransactionByHash") == looks + 1


async def test_a_node_that_lags_behind_gets_no_nonce_twice(rig: Rig, fake: FakeNode) -> None:
    await rig.send(value="0x1")
    mine(fake, "0x0")  # one of several nodes behind an address counts less than another has mined
    assert (await rig.queued(await rig.send(value="0x2")))["nonce"] == "0x1"
