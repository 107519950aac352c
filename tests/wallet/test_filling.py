"""Open fields of a transaction are filled in from the node; given fields stay."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from bridge_server.ethereum.address import data_of
from bridge_server.ethereum.transactions import RawTransaction, read_raw_transaction
from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure, open_fake_node
from bridge_server.wallet.models import InvalidParamsError, NoChainError, NodeError, NoNodeError
from tests.support.rows import each_row
from tests.wallet.rig import ALICES_KEY, Rig, open_rig


@pytest.fixture
async def fake() -> AsyncIterator[FakeNode]:
    async with open_fake_node() as fake:
        fake.results |= {
            "eth_gasPrice": "0x64",
            "eth_maxPriorityFeePerGas": "0x5",
            "eth_getBlockByNumber": {"baseFeePerGas": "0x32"},
            "eth_getTransactionCount": "0x9",
        }
        yield fake


@pytest.fixture
async def rig(fake: FakeNode, tmp_path: Path) -> AsyncIterator[Rig]:
    async with open_rig(tmp_path, fake.url) as rig:
        yield rig


async def signed(rig: Rig, **fields: Any) -> RawTransaction:
    return read_raw_transaction(data_of(await rig.sign(**fields)))


async def test_a_legacy_transaction_has_the_nodes_gas_price(rig: Rig, fake: FakeNode) -> None:
    transaction = await signed(rig)

    assert (transaction.gas, transaction.max_fee_per_gas, transaction.nonce) == (90_000, 100, 9)
    assert transaction.chain_id == 31_337
    assert "eth_estimateGas" not in fake.methods


@each_row(
    ("fields", "tip", "most"),
    [
        ({"type": "0x2"}, 5, 2 * 50 + 5),
        ({"maxPriorityFeePerGas": "0x7"}, 7, 2 * 50 + 7),
        ({"maxFeePerGas": "0x63"}, 5, 99),
        ({"maxFeePerGas": "0x3"}, 3, 3),
        ({"maxFeePerGas": "0x63", "maxPriorityFeePerGas": "0x0"}, 0, 99),
    ],
)
async def test_the_fees_of_a_fee_market_transaction(
    rig: Rig, fields: dict[str, Any], tip: int, most: int
) -> None:
    transaction = await signed(rig, **fields)

    assert (transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas) == (tip, most)


async def test_a_given_field_is_not_asked_of_the_node(rig: Rig, fake: FakeNode) -> None:
    await signed(rig, gasPrice="0x1", nonce="0x2", gas="0x3")
    await signed(rig, maxFeePerGas="0x1", maxPriorityFeePerGas="0x1", nonce="0x2")

    assert set(fake.methods) <= {"eth_chainId"}


async def test_a_node_without_a_suggestion_gets_the_usual_tip(rig: Rig, fake: FakeNode) -> None:
    del fake.results["eth_maxPriorityFeePerGas"]

    assert (await signed(rig, type="0x2")).max_priority_fee_per_gas == 10**9


async def test_on_a_chain_without_a_base_fee_the_old_price_is_asked_for(rig: Rig, fake: FakeNode) -> None:
    fake.results["eth_getBlockByNumber"] = {"number": "0x1"}

    with pytest.raises(InvalidParamsError, match="no base fee"):
        await rig.sign(type="0x2")


@each_row(("method", "fields"), [("eth_gasPrice", {}), ("eth_getBlockByNumber", {"type": "0x2"})])
async def test_the_nodes_error_is_passed_on(
    rig: Rig, fake: FakeNode, method: str, fields: dict[str, Any]
) -> None:
    fake.results[method] = RpcFailure(-32000, "no such thing")

    for attempt in (rig.sign, rig.send):
        with pytest.raises(NodeError, match="no such thing"):
            await attempt(**fields)
    assert await rig.queued() is None


@each_row("answer", ["100", 100, None, "0x", {"a": 1}])
async def test_a_malformed_price_is_not_signed(rig: Rig, fake: FakeNode, answer: Any) -> None:
    fake.results["eth_gasPrice"] = answer

    with pytest.raises(NoNodeError, match="eth_gasPrice must be a QUANTITY"):
        await rig.sign()


async def test_an_impossible_transaction_count_is_refused(rig: Rig, fake: FakeNode) -> None:
    fake.results["eth_getTransactionCount"] = "0xffffffffffffffff"

    with pytest.raises(NoNodeError, match="eth_getTransactionCount must be at most 0x7fffffffffffffff"):
        await rig.sign()


async def test_without_a_node_and_a_chain_the_request_names_it(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, dev_accounts=False, private_keys=ALICES_KEY) as rig:
        with pytest.raises(NoChainError):
            await rig.sign(gasPrice="0x1", nonce="0x0")

        transaction = await signed(rig, gasPrice="0x1", nonce="0x0", chainId="0x5")

        assert transaction.chain_id == 5


async def test_signing_alone_skips_taken_nonces_and_reserves_none(rig: Rig, fake: FakeNode) -> None:
    await rig.send()

    assert [(await signed(rig)).nonce for _ in range(2)] == [10, 10]
