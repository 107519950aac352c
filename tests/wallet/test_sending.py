"""Transactions through a real node: sent, created, replaced, refused, many at once."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge_server.wallet.models import (
    InvalidParamsError,
    LockedError,
    NoNodeError,
    TransactionRefusedError,
    UnknownAccountError,
)
from tests.support.rows import each_row
from tests.wallet.anvil import CHAIN_ID, Anvil, needs_anvil, open_anvil
from tests.wallet.rig import ALICE, BOB, Rig, open_rig, signed_elsewhere, transaction

pytestmark = needs_anvil

# Copies the byte that follows into memory and returns it: the contract's code is one STOP.
CREATION = "0x6001600c60003960016000f300"


@pytest.fixture
async def anvil(tmp_path: Path) -> AsyncIterator[Anvil]:
    async with open_anvil(tmp_path) as anvil:
        yield anvil


@pytest.fixture
async def rig(anvil: Anvil, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, anvil.url) as rig:
        yield rig


async def pause_mining(anvil: Anvil) -> None:
    await anvil.call("evm_setAutomine", False)


async def test_a_transfer_arrives(rig: Rig, anvil: Anvil) -> None:
    before = int(await anvil.call("eth_getBalance", BOB, "latest"), 16)

    sent = await rig.send(value="0x2a")

    receipt = await anvil.receipt(sent)
    assert (receipt["status"], receipt["from"], receipt["to"]) == ("0x1", ALICE, BOB)
    assert int(await anvil.call("eth_getBalance", BOB, "latest"), 16) == before + 42


async def test_open_fields_are_filled_in(rig: Rig, anvil: Anvil) -> None:
    price = await anvil.call("eth_gasPrice")

    sent = await rig.send()

    found = await anvil.call("eth_getTransactionByHash", sent)
    assert (found["gas"], found["gasPrice"], found["nonce"], found["chainId"]) == (
        hex(90_000),
        price,
        "0x0",
        hex(CHAIN_ID),
    )


@each_row(
    ("fields", "kind"),
    [
        ({"gasPrice": "0xb2d05e00"}, "0x0"),
        ({"accessList": [{"address": BOB, "storageKeys": ["0x" + "01" * 32]}]}, "0x1"),
        ({"maxFeePerGas": "0xb2d05e00"}, "0x2"),
        ({"maxPriorityFeePerGas": "0x1"}, "0x2"),
        ({"type": "0x2"}, "0x2"),
    ],
    ids=["legacy", "access list", "its maximum", "its tip", "its type alone"],
)
async def test_a_transaction_of_each_type_is_sent(
    rig: Rig, anvil: Anvil, fields: dict[str, object], kind: str
) -> None:
    sent = await rig.send(**fields)

    assert (await anvil.call("eth_getTransactionByHash", sent))["type"] == kind


async def test_the_receipt_of_a_contract_creation_has_the_address(rig: Rig, anvil: Anvil) -> None:
    sent = await rig.send(to=None, value=None, data=CREATION)

    address = (await anvil.receipt(sent))["contractAddress"]
    assert await anvil.call("eth_getCode", address, "latest") == "0x00"


async def test_a_signed_transaction_can_be_sent_later(rig: Rig, anvil: Anvil) -> None:
    raw = await rig.sign()
    assert await anvil.call("eth_getTransactionCount", ALICE, "pending") == "0x0"

    sent = await rig.send_raw(raw)

    assert (await anvil.receipt(sent))["from"] == ALICE
    assert (await rig.queued(raw))["hash"] == sent


async def test_sending_bytes_again_is_one_transaction(rig: Rig) -> None:
    raw = await rig.sign()
    first = await rig.send_raw(raw)

    assert await rig.send_raw(raw) == first


async def test_a_known_nonce_replaces_for_a_higher_price(rig: Rig, anvil: Anvil) -> None:
    await pause_mining(anvil)
    first = await rig.send(gasPrice="0xb2d05e00")

    second = await rig.send(gasPrice="0x165a0bc00", nonce="0x0")

    await anvil.call("evm_mine")
    await anvil.receipt(second)
    assert await anvil.call("eth_getTransactionReceipt", first) is None
    assert (await rig.queued(first))["state"] == "replaced"
    await rig.until("arrived", second)


async def test_an_underpriced_replacement_is_refused_and_the_first_stays(rig: Rig, anvil: Anvil) -> None:
    await pause_mining(anvil)
    first = await rig.send(gasPrice="0xb2d05e00")

    with pytest.raises(TransactionRefusedError, match="underpriced"):
        await rig.send(gasPrice="0xb2d05e00", nonce="0x0", value="0x2")

    assert (await rig.queued())["state"] == "refused"
    assert (await rig.queued(first))["state"] == "sent"
    assert (await rig.queued(await rig.send()))["nonce"] == "0x1"


async def test_a_used_nonce_is_refused(rig: Rig, anvil: Anvil) -> None:
    await anvil.receipt(await rig.send())

    with pytest.raises(TransactionRefusedError, match="nonce too low"):
        await rig.send(nonce="0x0", value="0x5")


async def test_a_transaction_without_funds_is_refused_and_frees_its_nonce(rig: Rig) -> None:
    with pytest.raises(TransactionRefusedError, match=r"(?i)insufficient funds"):
        await rig.send(value=hex(10**30))

    refused = await rig.queued()
    assert (refused["state"], refused["nonce"], refused["error"][:12].lower()) == (
        "refused",
        "0x0",
        "insufficient",
    )
    assert (await rig.queued(await rig.send()))["nonce"] == "0x0"


async def test_two_hundred_concurrent_sends_have_consecutive_nonces(rig: Rig, anvil: Anvil) -> None:
    sent = await asyncio.gather(*(rig.send(value=hex(number)) for number in range(200)))

    assert len(set(sent)) == 200
    nonces = sorted([int((await rig.queued(each))["nonce"], 16) for each in sent])
    assert nonces == list(range(200))
    await anvil.count(ALICE, 200)


async def test_reserved_nonces_and_given_nonces_do_not_collide(rig: Rig, anvil: Anvil) -> None:
    await pause_mining(anvil)
    await asyncio.gather(*(rig.send(nonce=hex(number)) for number in range(10, 20)))

    sent = await asyncio.gather(*(rig.send() for _ in range(30)))

    nonces = sorted([int((await rig.queued(each))["nonce"], 16) for each in sent])
    assert nonces == [*range(10), *range(20, 40)]
    await anvil.call("evm_mine")
    await anvil.count(ALICE, 40)


async def test_transactions_of_one_account_are_sent_in_the_order_of_the_requests(rig: Rig) -> None:
    prices = [None, "0xb2d05e00", None, "0xb2d05e01"]  # some are asked for, and some are not

    sent = await asyncio.gather(*(rig.send(gasPrice=price) for price in prices * 10))

    nonces = [int((await rig.queued(each))["nonce"], 16) for each in sent]
    assert nonces == list(range(40))


async def test_accounts_do_not_wait_for_one_another(rig: Rig, anvil: Anvil) -> None:
    senders = rig.wallet.accounts.addresses()

    sent = await asyncio.gather(*(rig.send(from_=sender) for sender in senders for _ in range(3)))

    assert len(set(sent)) == 30
    for sender in senders:
        await anvil.count(sender, 3)


async def test_another_chain_is_not_signed_for(rig: Rig) -> None:
    for attempt in (rig.send, rig.sign):
        with pytest.raises(InvalidParamsError, match="chainId is 0x1, and the wallet is on chain 0x7a69"):
            await attempt(chainId="0x1")

    assert await rig.queued() is None
    assert rig.audited() == []


async def test_a_transaction_signed_for_another_chain_is_not_sent(
    rig: Rig, anvil: Anvil, tmp_path: Path
) -> None:
    (tmp_path / "other").mkdir()
    async with open_rig(tmp_path / "other", None, chain_id=5) as other:
        raw = await other.sign(nonce="0x0", gasPrice="0xb2d05e00")

    with pytest.raises(InvalidParamsError, match="is for chain 5, and the wallet is on chain 31337"):
        await rig.send_raw(raw)


@each_row(
    ("raw", "fault"),
    [
        ("0x", "is not a signed transaction"),
        ("0x05", "is not a signed transaction"),
        ("f86180", "must be DATA"),
        (7, "must be DATA"),
        (signed_elsewhere(nonce=2**63), "has a nonce above 0x7fffffffffffffff"),
    ],
    ids=["nothing", "a type", "no DATA", "a number", "a nonce"],
)
async def test_malformed_signed_bytes_are_not_sent(rig: Rig, raw: Any, fault: str) -> None:
    with pytest.raises(InvalidParamsError, match=rf"params\[0\] {fault}"):
        await rig.send_raw(raw)

    assert await rig.queued() is None


@each_row("which", [7, True, ["0x"], "0x12", "0x" + "ab" * 50, {"from": ALICE}])
async def test_a_lookup_by_a_malformed_parameter_is_refused(rig: Rig, which: Any) -> None:
    with pytest.raises(InvalidParamsError, match=r"params\[0\]"):
        await rig.queued(which)


async def test_each_signed_transaction_is_in_the_audit_log(rig: Rig) -> None:
    await rig.send()
    await rig.sign()

    assert [(line["method"], line["account"]) for line in rig.audited()] == [
        ("eth_sendTransaction", ALICE),
        ("eth_signTransaction", ALICE),
    ]


async def test_transactions_of_unknown_accounts_are_refused(rig: Rig) -> None:
    with pytest.raises(UnknownAccountError):
        await rig.send(from_="0x" + "12" * 20)


async def test_locked_accounts_send_nothing(anvil: Anvil, tmp_path: Path) -> None:
    async with open_rig(tmp_path, anvil.url, light_kdf=True) as rig:
        address = await rig.wallet.accounts.create("secret")

        with pytest.raises(LockedError):
            await rig.send(from_=address)

        assert await rig.queued() is None


async def test_the_parameter_of_the_send_finds_the_transaction(rig: Rig) -> None:
    sent = await rig.send(value="0x7")
    await rig.send(value="0x8")

    for which in (transaction(value="0x7"), dict(reversed(transaction(value="0x7").items())), sent):
        assert (await rig.queued(which))["hash"] == sent
    assert (await rig.queued(ALICE))["transaction"] == transaction(value="0x8")
    assert await rig.queued(BOB) is None


async def test_without_a_node_nothing_is_sent(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, chain_id=1) as rig:
        raw = await rig.sign(nonce="0x0", gasPrice="0x1")
        with pytest.raises(NoNodeError, match="set node_url"):
            await rig.send(gasPrice="0x1")
        with pytest.raises(NoNodeError, match="set node_url"):
            await rig.send_raw(raw)
        with pytest.raises(NoNodeError, match="no node to ask for gasPrice"):
            await rig.sign(nonce="0x0")
        with pytest.raises(NoNodeError, match="no node to ask for the nonce"):
            await rig.sign(gasPrice="0x1")

        assert await rig.queued() is None
