"""A node that takes a transaction and then does not know it: growing pauses, and few lines in the log."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from bridge_server.kit.testing.fake_node import FakeNode, open_fake_node
from bridge_server.wallet.models import TransactionId
from bridge_server.wallet.transactions.states import DropPauses
from tests.support.clock import ManualClock
from tests.wallet.rig import ALICE, BOB, Rig, open_rig


@pytest.fixture
async def forgetful() -> AsyncIterator[FakeNode]:
    """Takes every transaction, and knows none."""
    async with open_fake_node() as node:
        node.results["eth_getTransactionByHash"] = None
        yield node


@pytest.fixture
async def rig(forgetful: FakeNode, tmp_path: Path) -> AsyncIterator[Rig]:
    """The worker works when the test says so."""
    async with open_rig(tmp_path, forgetful.url, broadcasts=False) as rig:
        yield rig


async def work_for(rig: Rig, seconds: float) -> None:
    """Move the clock in steps of a tenth of a second, and let the worker work after each."""
    for _ in range(round(seconds * 10)):
        rig.clock.advance(0.1)
        await rig.wallet.worker.work()


async def test_pauses_before_a_dropped_transaction_is_broadcast_again_grow(
    rig: Rig, forgetful: FakeNode
) -> None:
    await rig.send()
    broadcasts = [0]
    for _ in range(6):
        await work_for(rig, 40)
        broadcasts.append(len(forgetful.sent()))

    assert len(set(forgetful.sent())) == 1
    at_first, later = broadcasts[1], broadcasts[-1] - broadcasts[1]
    assert 3 <= at_first <= 8
    assert 1 <= later <= 6


async def test_a_wake_up_does_not_shorten_the_pause(rig: Rig, forgetful: FakeNode) -> None:
    await rig.send()
    await work_for(rig, 20)
    broadcasts = len(forgetful.sent())

    for _ in range(50):
        rig.wallet.worker.wake()
        await work_for(rig, 0.1)

    assert len(forgetful.sent()) <= broadcasts + 1


async def test_a_dropped_transaction_is_a_log_line_a_minute(rig: Rig) -> None:
    await rig.send()

    with structlog.testing.capture_logs() as logs:
        for _ in range(4):
            await work_for(rig, 60)

    lines = [each for each in logs if each["event"] == "transactions_lost"]
    assert {each["account"] for each in lines} == {ALICE}
    assert 2 <= len(lines) <= 4


async def test_each_account_that_loses_transactions_has_a_log_line(rig: Rig) -> None:
    await rig.send()
    await rig.send(from_=BOB, to=ALICE)

    with structlog.testing.capture_logs() as logs:
        await work_for(rig, 5)

    lines = [each["account"] for each in logs if each["event"] == "transactions_lost"]
    assert sorted(lines) == sorted([ALICE, BOB])


async def test_a_node_that_was_restarted_gets_what_it_lost_at_once(rig: Rig, forgetful: FakeNode) -> None:
    answers = [None]
    forgetful.results["eth_getTransactionByHash"] = lambda of: answers.pop() if answers else {"hash": of}
    sent = await rig.send()

    await work_for(rig, 0.3)

    assert len(forgetful.sent()) == 2
    assert (await rig.queued(sent))["state"] == "sent"


async def test_a_new_transaction_does_not_wait_for_a_dropped_one(rig: Rig, forgetful: FakeNode) -> None:
    await rig.send()
    await work_for(rig, 20)

    later = await rig.send(value="0x2")

    found = await rig.queued(later)
    assert (found["state"], found["nonce"]) == ("sent", "0x1")


def test_pauses_double_up_to_a_minute() -> None:
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


def test_a_node_that_was_calm_for_ten_minutes_is_trusted_again() -> None:
    clock, transaction_id = ManualClock(), TransactionId("one")
    pauses = DropPauses(clock)
    for _ in range(5):
        clock.advance(pauses.add(transaction_id) / 1_000)
    assert pauses.add(transaction_id) == 16_000

    clock.advance(16 + 599)
    assert pauses.add(transaction_id) == 0
    assert pauses.add(transaction_id) == 60_000
    clock.advance(60 + 600)
    assert pauses.add(transaction_id) == 0
    assert pauses.add(transaction_id) == 1_000
