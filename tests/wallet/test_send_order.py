"""An account's queue goes before its new transactions, and keeps its nonces while it may still be sent."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import structlog

from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, open_fake_node, says
from bridge_server.wallet.models import Address
from tests.wallet.anvil import needs_anvil, open_anvil
from tests.wallet.rig import ALICE, BOB, ZERO_HASH, Rig, open_rig, signed_elsewhere, transaction


@pytest.fixture
async def fake() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as fake:
        yield fake


@pytest.fixture
async def rig(fake: FakeNode, tmp_path: Path) -> AsyncIterator[Rig]:
    """Nothing is sent in the background."""
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        yield rig


async def nonces(rig: Rig, *values: str) -> list[str | None]:
    return [(await rig.queued(transaction(value=value)))["nonce"] for value in values]


async def queue(rig: Rig, fake: FakeNode, *values: str) -> None:
    """Ask for transactions while the node cannot be asked for the next nonce."""
    fake.results["eth_getTransactionCount"], count = "starting", fake.results["eth_getTransactionCount"]
    for value in values:
        assert await rig.send(value=value) == ZERO_HASH
    fake.results["eth_getTransactionCount"] = count


@needs_anvil
async def test_a_new_transaction_does_not_overtake_the_queue(tmp_path: Path) -> None:
    async with open_anvil(tmp_path) as anvil, open_rig(tmp_path, anvil.url, broadcasts=False) as rig:
        anvil.kill()
        for value in ("0x1", "0x2"):
            assert await rig.send(value=value) == ZERO_HASH
        await anvil.start()

        sent = await rig.send(value="0x3")

        assert sent != ZERO_HASH
        assert await nonces(rig, "0x1", "0x2", "0x3") == ["0x0", "0x1", "0x2"]
        await anvil.count(ALICE, 3)


async def test_the_queue_keeps_its_order_whichever_transaction_is_due(fake: FakeNode, tmp_path: Path) -> None:
    async with open_rig(tmp_path, fake.url, broadcasts=False) as rig:
        await queue(rig, fake, "0x1", "0x2")
        (oldest, *_) = await rig.wallet.transactions.queue(Address(ALICE))
        await rig.wallet.transactions.postpone({oldest: rig.clock.now_ms() + 60_000}, "no answer")

        await rig.wallet.worker.work()
        rig.clock.advance(1)
        await rig.wallet.worker.work()

        assert await nonces(rig, "0x1", "0x2") == ["0x0", "0x1"]


async def test_a_transaction_with_a_given_nonce_does_not_wait_for_the_queue(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1")

    await rig.send(value="0x2", nonce="0x0")
    await rig.send(value="0x3")

    assert (await rig.queued(transaction(value="0x2", nonce="0x0")))["nonce"] == "0x0"
    assert await nonces(rig, "0x1", "0x3") == ["0x1", "0x2"]


async def test_a_queued_transaction_that_cannot_be_sent_delays_no_new_one(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1")
    fake.results["eth_gasPrice"] = RpcFailure(-32601, "no such method")

    sent = await rig.send(value="0x2", gasPrice="0x1")

    assert (await rig.queued(sent))["nonce"] == "0x0"
    held_up = await rig.queued(transaction(value="0x1"))
    assert (held_up["state"], held_up["error"]) == ("queued", "no such method")


async def test_the_queue_of_one_account_delays_no_other_account(rig: Rig, fake: FakeNode) -> None:
    await queue(rig, fake, "0x1")

    await rig.send(from_=BOB, value="0x2")

    assert (await rig.queued(ALICE))["state"] == "queued"


PRICES = [
    "replacement transaction underpriced",
    "transaction underpriced: gas tip cap 1, minimum needed 2",
    "max fee per gas less than block base fee",
    "insufficient funds for gas * price + value: balance 0, tx cost 5, overshot 5",
    "FeeTooLow, MaxFeePerGas too low. MaxFeePerGas: 1, BaseFee: 2",
    "InsufficientFunds, Account balance: 0, cumulative cost: 1",
    "Upfront cost exceeds account balance",
    "Gas price below configured minimum gas price",
    "could not replace existing tx",
]


@pytest.mark.parametrize("message", PRICES)
async def test_a_transaction_whose_hash_was_given_out_keeps_its_nonce_while_its_price_may_do(
    rig: Rig, fake: FakeNode, message: str
) -> None:
    given_out = await rig.send(value="0x1")
    fake.taken.clear()  # it was dropped
    fake.at("eth_sendRawTransaction", says(-32000, message))

    with structlog.testing.capture_logs() as logs:
        later = await rig.send(value="0x2")

    stored = await rig.queued(given_out)
    assert (stored["state"], stored["nonce"], stored["error"]) == ("signed", "0x0", message)
    assert [each["reason"] for each in logs if each["event"] == "transaction_postponed"] == [message]
    assert (await rig.queued(later))["nonce"] == "0x1"

    rig.clock.advance(61)
    await rig.wallet.worker.work()
    assert [(await rig.queued(each))["state"] for each in (given_out, later)] == ["sent", "sent"]


@pytest.mark.parametrize("message", ["nonce too low", "intrinsic gas too low", "exceeds block gas limit"])
async def test_a_transaction_whose_hash_was_given_out_is_refused_when_it_can_never_be_valid(
    rig: Rig, fake: FakeNode, message: str
) -> None:
    given_out = await rig.send(value="0x1")
    fake.taken.clear()
    fake.at("eth_sendRawTransaction", says(-32000, message))

    later = await rig.send(value="0x2")

    assert [(await rig.queued(each))["state"] for each in (given_out, later)] == ["refused", "sent"]
    assert (await rig.queued(later))["nonce"] == "0x0"


async def test_transactions_behind_a_postponed_one_are_confirmed_too(rig: Rig, fake: FakeNode) -> None:
    first, second = await rig.send(value="0x1"), await rig.send(value="0x2")
    fake.taken.clear()
    fake.at("eth_sendRawTransaction", says(-32000, "transaction underpriced"))
    third = await rig.send(value="0x3")
    assert [(await rig.queued(each))["state"] for each in (first, second)] == ["signed", "sent"]
    fake.taken.clear()

    rig.clock.advance(61)
    for _ in range(2):
        await rig.wallet.worker.work()

    assert len(fake.taken) == 3
    assert [(await rig.queued(each))["state"] for each in (first, second, third)] == ["sent"] * 3


async def test_equal_requests_are_listed_oldest_first(rig: Rig, fake: FakeNode) -> None:
    await rig.send(value="0x9")
    await queue(rig, fake, "0x1", "0x2", "0x1")
    waiting = await rig.waiting(ALICE)
    assert [each["transaction"]["value"] for each in waiting] == ["0x1", "0x2", "0x1"]
    await rig.send(value="0x1")

    alike = await rig.waiting(transaction(value="0x1"))

    assert [(each["nonce"], each["state"]) for each in alike] == [
        ("0x1", "sent"),
        ("0x3", "sent"),
        ("0x4", "sent"),
    ]
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
