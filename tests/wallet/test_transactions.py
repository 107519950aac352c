"""Transactions: their fields are read strictly and filled in, and refused; their states and lists.

The pages of rows are read from the store, which has SQL for two engines.
"""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.address import data_of
from bridge_server.ethereum.transactions import RawTransaction, read_raw_transaction
from bridge_server.kernel.events import Events
from bridge_server.kit.testing.fake_node import FakeNode, RpcFailure
from bridge_server.storage.database import Database, Statement, Transaction
from bridge_server.wallet import models
from bridge_server.wallet.models import TransactionState as State
from bridge_server.wallet.transactions.requests import read_transaction, write_transaction
from bridge_server.wallet.transactions.states import (
    FOLLOWED,
    LIVE,
    SETTLED,
    TRANSITIONS,
    WAITING,
    TransactionEvent,
)
from bridge_server.wallet.transactions.store import ListedTransaction, TransactionListing, TransactionStore
from tests.support.engines import ENGINES, schema_database
from tests.support.rows import each_row
from tests.wallet.rig import ALICE, ALICES_KEY, BOB, Rig, open_rig, signed_elsewhere, transaction

CHECKSUMMED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
KEY = "0x" + "07" * 32
PAGE = Path(__file__).parents[2] / "docs" / "wallet.md"
SENDER = models.Address("0x" + "11" * 20)
COUNT = 23


def faults_of(value: Any) -> models.InvalidParamsError:
    with pytest.raises(models.InvalidParamsError) as refused:
        read_transaction(value)
    return refused.value


def test_the_contracts_fields_are_read_and_others_are_open() -> None:
    request = read_transaction({
        "from": ALICE, "to": CHECKSUMMED, "gas": "0x76c0", "gasPrice": "0x9184e72a000", "nonce": "0x5",
        "value": "0x9184e72a", "data": "0xd46e", "chainId": "0x1",
    })  # fmt: skip
    bare = read_transaction(
        transaction(value=None) | dict.fromkeys(["gas", "gasPrice", "nonce", "data", "accessList", "type"])
    )

    assert (request.sender, request.to, request.data) == (ALICE, BOB, b"\xd4\x6e")
    assert (request.gas, request.gas_price, request.value) == (0x76C0, 0x9184E72A000, 0x9184E72A)
    assert (request.nonce, request.chain_id, request.type) == (5, 1, 0)
    assert (bare.gas, bare.gas_price, bare.nonce, bare.chain_id) == (None, None, None, None)
    assert (bare.value, bare.data, bare.type) == (0, b"", 0)


@each_row(("fields", "fault"), [
    ({"from_": None}, "params[0].from is missing"),
    *(({"to": value}, "params[0].to must be an address") for value in ("0x", "0x12", 7)),
    *(({"value": value}, "params[0].value must be a QUANTITY") for value in (5, "0x01", "0x1" + "0" * 64)),
    *(({name: 1}, f"params[0].{name} must be a QUANTITY") for name in ("gas", "gasPrice", "chainId")),
    *(({"type": value}, "params[0].type must be a QUANTITY") for value in (True, "2")),
    *(({"type": value}, "params[0].type must be 0x0, 0x1 or 0x2") for value in ("0x3", 3, -1)),
    *(({"data": value}, "params[0].data must be DATA") for value in ("0x1", "d46e", ["0x"])),
    ({"input": ["0x"]}, "params[0].input must be DATA"),
    ({"from_": ALICE.replace("f39f", "F39F")}, "params[0].from has a wrong checksum"),
    ({"gas": "0x10000000000000000"}, "params[0].gas must be at most 0xffffffffffffffff"),
    ({"nonce": "0x8000000000000000"}, "params[0].nonce must be at most 0x7fffffffffffffff"),
    ({"chainId": "0x0"}, "params[0].chainId must not be 0x0"),
    ({"data": "0x01", "input": "0x02"}, "params[0].input must be the same as data"),
    ({"to": None}, "params[0].data is missing: without to"),
    ({"to": None, "data": "0x"}, "params[0].data is empty: without to"),
    ({"to": None, "input": "0x"}, "params[0].input is empty: without to"),
    ({"gasLimit": "0x5208"}, "params[0].gasLimit is called gas"),
    ({"gasLimit": "0x5208", "gas": "0x5209"}, "params[0].gasLimit is called gas"),
    ({"gasPrice": "0x1", "maxFeePerGas": "0x1"}, "params[0].gasPrice does not belong to a fee market"),
    ({"gasPrice": "0x1", "type": "0x2"}, "params[0].gasPrice does not belong to a fee market"),
    ({"maxFeePerGas": "0x1", "type": "0x0"}, "params[0].maxFeePerGas does not belong to a legacy"),
    ({"maxPriorityFeePerGas": "0x1", "type": "0x1"}, "does not belong to a transaction with an access"),
    ({"accessList": [], "type": "0x0"}, "params[0].accessList does not belong to a legacy"),
    ({"maxFeePerGas": "0x1", "maxPriorityFeePerGas": "0x2"}, "must not be greater than maxFeePerGas"),
    ({"accessList": {}}, "params[0].accessList must be an array"),
    ({"accessList": [7]}, "params[0].accessList[0] must be an object"),
    ({"accessList": [{"storageKeys": []}]}, "params[0].accessList[0].address must be an address"),
    (
        {"accessList": [{"address": BOB}, {"address": BOB, "storageKeys": 1}]},
        "params[0].accessList[1].storageKeys must be an array",
    ),
    (
        {"accessList": [{"address": BOB, "storageKeys": [KEY, "0x01"]}]},
        "params[0].accessList[0].storageKeys[1] must have 32 bytes",
    ),
    ({"blobVersionedHashes": []}, "params[0].blobVersionedHashes belongs to a blob transaction"),
    ({"maxFeePerBlobGas": "0x1"}, "params[0].maxFeePerBlobGas belongs to a blob transaction"),
    ({"authorizationList": []}, "params[0].authorizationList hands an account"),
    ({"privateFor": ["x"]}, "params[0].privateFor asks for a private transaction"),
    ({"feeCurrency": BOB}, "params[0].feeCurrency belongs to a chain"),
])  # fmt: skip
def test_faults_are_named_with_their_place(fields: dict[str, Any], fault: str) -> None:
    assert fault in faults_of(transaction(**fields)).detail


@each_row(("value", "pointers"), [
    *(
        (transaction(type=kind, maxFeePerGas="0x1", accessList=[]), ["type"])
        for kind in ("0x02", 2.0, "0x3", True)
    ),
    ({"to": "x", "value": 1, "blobs": []}, ["blobs", "to", "value", "from"]),
])  # fmt: skip
def test_every_fault_is_named_and_none_of_an_unknown_type(value: dict[str, Any], pointers: list[str]) -> None:
    assert [fault.pointer for fault in faults_of(value).faults] == [f"params[0].{name}" for name in pointers]


def test_a_transaction_that_is_no_object_is_refused() -> None:
    others: list[Any] = [None, [], "0x"]
    for value in others:
        assert "params[0] must be a transaction object" in faults_of(value).detail


@each_row(("fields", "kind"), [
    ({}, 0), ({"gasPrice": "0x1"}, 0), ({"accessList": []}, 1), ({"type": "0x1"}, 1),
    ({"maxFeePerGas": "0x1"}, 2),
    ({"maxPriorityFeePerGas": "0x1", "accessList": []}, 2),
    ({"type": "0x2"}, 2), ({"type": "0x0", "gasPrice": "0x1"}, 0), ({"type": 0, "gasPrice": "0x1"}, 0),
    ({"type": 1, "accessList": []}, 1), ({"type": 2, "maxFeePerGas": "0x1"}, 2),
])  # fmt: skip
def test_the_type_follows_from_the_fields(fields: dict[str, Any], kind: int) -> None:
    assert read_transaction(transaction(**fields)).type == kind


def test_data_and_input_are_one_field_and_unknown_fields_are_no_faults() -> None:
    for fields in ({"data": "0x0102"}, {"input": "0x0102"}, {"data": "0x0102", "input": "0x0102"}):
        request = transaction(gas="0x5208", gasLimit="0x5208", memo="hello", hash=None, **fields)
        assert (read_transaction(request).data, read_transaction(request).gas) == (b"\1\2", 0x5208)


@each_row("fields", [
    {"gas": "0x1", "gasPrice": "0x2", "nonce": "0x3", "chainId": "0x4", "data": "0x05"},
    {"to": None, "data": "0x6001", "accessList": [{"address": BOB, "storageKeys": [KEY]}]},
    {"maxFeePerGas": "0x7", "maxPriorityFeePerGas": "0x6", "accessList": []},
])  # fmt: skip
def test_a_written_transaction_is_read_as_the_same(fields: dict[str, Any]) -> None:
    request = read_transaction(transaction(**fields))
    assert read_transaction(write_transaction(request)) == request


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.just(ALICE),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
NAMES = ("from", "to", "gas", "gasPrice", "maxFeePerGas", "value", "data", "nonce", "type", "accessList")


@given(st.dictionaries(st.sampled_from(NAMES), JSON) | JSON)
def test_any_json_is_a_request_or_an_invalid_params_error(value: Any) -> None:
    with suppress(models.InvalidParamsError):
        assert read_transaction(value).sender == ALICE


@pytest.fixture
def fake(fake: FakeNode) -> FakeNode:
    fake.results |= {"eth_gasPrice": "0x64", "eth_maxPriorityFeePerGas": "0x5"}
    fake.results |= {"eth_getBlockByNumber": {"baseFeePerGas": "0x32"}, "eth_getTransactionCount": "0x9"}
    return fake


async def signed(rig: Rig, **fields: Any) -> RawTransaction:
    return read_raw_transaction(data_of(await rig.sign(**fields)))


@each_row(("fields", "tip", "most"), [
    ({"type": "0x2"}, 5, 2 * 50 + 5), ({"maxPriorityFeePerGas": "0x7"}, 7, 2 * 50 + 7),
    ({"maxFeePerGas": "0x63"}, 5, 99), ({"maxFeePerGas": "0x3"}, 3, 3),
    ({"maxFeePerGas": "0x63", "maxPriorityFeePerGas": "0x0"}, 0, 99),
])  # fmt: skip
async def test_fees_of_the_fee_market(rig: Rig, fields: dict[str, Any], tip: int, most: int) -> None:
    transaction = await signed(rig, **fields)
    assert (transaction.max_priority_fee_per_gas, transaction.max_fee_per_gas) == (tip, most)


async def test_a_node_is_asked_for_missing_fields_and_may_not_know_fees(rig: Rig, fake: FakeNode) -> None:
    await signed(rig, gasPrice="0x1", nonce="0x2", gas="0x3")
    await signed(rig, maxFeePerGas="0x1", maxPriorityFeePerGas="0x1", nonce="0x2")
    assert set(fake.methods) <= {"eth_chainId"}

    filled = await signed(rig)
    assert (filled.gas, filled.max_fee_per_gas, filled.nonce, filled.chain_id) == (90_000, 100, 9, 31_337)
    assert "eth_estimateGas" not in fake.methods
    del fake.results["eth_maxPriorityFeePerGas"]
    assert (await signed(rig, type="0x2")).max_priority_fee_per_gas == 10**9
    fake.results["eth_getBlockByNumber"] = {"number": "0x1"}
    with pytest.raises(models.InvalidParamsError, match="no base fee"):
        await rig.sign(type="0x2")
    for answer in ("100", None):
        fake.results["eth_gasPrice"] = answer
        with pytest.raises(models.NoNodeError, match="eth_gasPrice must be a QUANTITY"):
            await rig.sign()


@each_row(("method", "fields"), [("eth_gasPrice", {}), ("eth_getBlockByNumber", {"type": "0x2"})])
async def test_errors_are_passed_on(rig: Rig, fake: FakeNode, method: str, fields: dict[str, Any]) -> None:
    fake.results[method] = RpcFailure(-32000, "no such thing")
    for attempt in (rig.sign, rig.send):
        with pytest.raises(models.NodeError, match="no such thing"):
            await attempt(**fields)
    assert await rig.queued() is None


async def test_nonces_do_not_collide_with_given_ones_and_signing_alone_reserves_none(rig: Rig) -> None:
    await asyncio.gather(*(rig.send(nonce=hex(number)) for number in range(19, 29)))
    sent = await asyncio.gather(*(rig.send() for _ in range(30)))
    nonces = sorted([int((await rig.queued(each))["nonce"], 16) for each in sent])
    assert nonces == [*range(9, 19), *range(29, 49)]
    assert [(await signed(rig)).nonce for _ in range(2)] == [49, 49]


async def test_transactions_of_one_account_are_sent_in_the_order_of_the_requests(rig: Rig) -> None:
    prices = [None, "0xb2d05e00", None, "0xb2d05e01"]  # some are asked for, and some are not
    sent = await asyncio.gather(*(rig.send(gasPrice=price) for price in prices * 10))
    nonces = [int((await rig.queued(each))["nonce"], 16) for each in sent]
    assert nonces == list(range(9, 49))


async def test_nothing_is_sent_for_other_chains_accounts_or_malformed_bytes(rig: Rig, fake: FakeNode) -> None:
    for attempt in (rig.send, rig.sign):
        with pytest.raises(
            models.InvalidParamsError, match="chainId is 0x1, and the wallet is on chain 0x7a69"
        ):
            await attempt(chainId="0x1")
        with pytest.raises(models.UnknownAccountError):
            await attempt(from_="0x" + "12" * 20)
    for raw, fault in (
        (signed_elsewhere(chain_id=5), "is for chain 5, and the wallet is on chain 31337"),
        *((each, "is not a signed transaction") for each in ("0x", "0x05")),
        ("f86180", "must be DATA"),
        (signed_elsewhere(nonce=2**63), "has a nonce above 0x7fffffffffffffff"),
    ):
        with pytest.raises(models.InvalidParamsError, match=rf"params\[0\] {fault}"):
            await rig.send_raw(raw)

    assert (await rig.queued(), rig.audited(), fake.sent()) == (None, [], [])


async def test_the_parameter_of_the_send_finds_the_transaction(rig: Rig) -> None:
    sent = await rig.send(value="0x7")
    await rig.send(value="0x8")
    for which in (transaction(value="0x7"), dict(reversed(transaction(value="0x7").items())), sent):
        assert (await rig.queued(which))["hash"] == sent
    assert (await rig.queued(ALICE))["transaction"] == transaction(value="0x8")
    assert await rig.queued(BOB) is None
    for malformed in (7, "0x12", "0x" + "ab" * 50, {"from": ALICE}):
        with pytest.raises(models.InvalidParamsError, match=r"params\[0\]"):
            await rig.queued(malformed)


async def test_without_a_node_nothing_is_sent_and_a_request_names_its_chain(tmp_path: Path) -> None:
    async with open_rig(tmp_path, None, chain_id=1) as rig:
        raw = await rig.sign(nonce="0x0", gasPrice="0x1")
        for attempt, missing in (
            (rig.send(gasPrice="0x1"), "set node_url"),
            (rig.send_raw(raw), "set node_url"),
            (rig.sign(nonce="0x0"), "no node to ask for gasPrice"),
            (rig.sign(gasPrice="0x1"), "no node to ask for the nonce"),
        ):
            with pytest.raises(models.NoNodeError, match=missing):
                await attempt
        assert await rig.queued() is None

    async with open_rig(tmp_path, None, dev_accounts=False, private_keys=ALICES_KEY) as rig:
        with pytest.raises(models.NoChainError):
            await rig.sign(gasPrice="0x1", nonce="0x0")
        assert (await signed(rig, gasPrice="0x1", nonce="0x0", chainId="0x5")).chain_id == 5


def test_the_documentation_has_the_table_of_states() -> None:
    _, _, table = PAGE.read_text("utf-8").partition("States of a transaction, and what each becomes:\n\n")
    listed: list[tuple[str, set[str]]] = []
    for item in table.split("\n\n")[0].replace("\n  ", " ").splitlines():
        states, _, becomes = item.rpartition(": ")
        after = set(re.findall(r"`(\w+)`", becomes)) & set(State)
        listed += [(state, after) for state in re.findall(r"`(\w+)`", states)]
    assert listed == [
        (state, {after for after in TRANSITIONS[state].values() if after is not state}) for state in State
    ]


def test_the_table_has_every_state_and_event_and_each_state_is_reached() -> None:
    reached = {State.QUEUED, State.SIGNED}  # a request begins in one of them
    for _ in State:
        reached |= {after for state in reached for after in TRANSITIONS[state].values()}
    final = {state for state, row in TRANSITIONS.items() if not row}

    assert list(TRANSITIONS) == list(State)
    assert {event for row in TRANSITIONS.values() for event in row} == set(TransactionEvent)
    assert reached == set(State)
    assert final == {State.REPLACED, State.REFUSED, State.FORGOTTEN}
    assert set(SETTLED) == final | {State.MINED}
    assert set(WAITING) | set(FOLLOWED) | final == set(State)
    assert set(LIVE) == set(FOLLOWED) - {State.MINED}


@pytest.fixture(params=ENGINES)
async def engine_database(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Database]:
    async with schema_database(request, tmp_path, Events()) as engine_database:
        yield engine_database


async def keep(engine_database: Database, *params: bytes) -> None:
    for number, each in enumerate(params):
        request = models.SendRequest(
            models.TransactionId(f"t{number}"), SENDER, each, number, models.Caller("192.0.2.1")
        )
        await TransactionStore(engine_database).keep(request, 1, None, number)


async def all_pages(listing: TransactionListing, state: State | None, limit: int) -> list[ListedTransaction]:
    found: list[ListedTransaction] = []
    before = None
    while True:
        page = await listing.page(state, before, limit)
        assert len(page.transactions) <= limit
        found += page.transactions
        if page.rest is None:
            return found
        before = page.rest


@each_row("rows_per_page", [1, 4, 10_000])
@each_row("limit", [1, 100])
@each_row("state", [None, State.MINED, State.QUEUED, State.SENT])
async def test_pages_have_every_wanted_transaction_once_newest_first(
    engine_database: Database, state: State | None, limit: int, rows_per_page: int
) -> None:
    await keep(engine_database, *[b'{"to":"0x"}'] * COUNT)

    def mine() -> Transaction[None]:
        yield Statement("UPDATE wallet_transactions SET state = 'mined' WHERE id % 5 = 0")

    await engine_database.transaction(mine)

    found = await all_pages(TransactionListing(engine_database, rows_per_page), state, limit)

    every = set(range(1, COUNT + 1))
    mined = {number for number in every if number % 5 == 0}
    wanted = {State.MINED: mined, State.QUEUED: every - mined, None: every}
    assert [each.number for each in found] == sorted(wanted.get(state, set()), reverse=True)


async def test_large_data_stays_in_the_database(engine_database: Database) -> None:
    large = b'"0x' + b"00" * 10_000 + b'"'
    with_data = b'{"to":"0xab","value":"0x1","data":' + large + b"}"
    await keep(engine_database, large, b'"0x00"', with_data, b'{"to":"0xab"}')

    found = await all_pages(TransactionListing(engine_database), None, 10)

    assert [(each.to, each.value, each.raw) for each in found] == [
        ("0xab", "0x0", None),
        ("0xab", "0x1", None),
        (None, None, b'"0x00"'),
        (None, None, None),
    ]
