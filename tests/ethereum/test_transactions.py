"""Transactions: published vectors, another implementation's, and every field out of its range."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import (
    MAX_CHAIN_ID,
    AccessListEntry,
    AccessListTransaction,
    FeeMarketTransaction,
    LegacyTransaction,
    Transaction,
    TransactionError,
    read_raw_transaction,
    sign_transaction,
)
from tests.ethereum.vectors import key_of, raw_bytes, transaction_of, vectors
from tests.support.rows import each_row

KEY = SigningKey(b"\x46" * 32)
TO = "0x" + "35" * 20
LEGACY = LegacyTransaction(
    chain_id=1, nonce=9, gas_price=20 * 10**9, gas=21_000, to=TO, value=10**18, data=b""
)
WITH_LIST = AccessListTransaction(chain_id=1, nonce=0, gas_price=1, gas=21_000, to=None, data=b"\xfe")
FEE_MARKET = FeeMarketTransaction(
    chain_id=1, nonce=0, max_priority_fee_per_gas=1, max_fee_per_gas=2, gas=21_000, to=TO
)
TRANSACTIONS = [LEGACY, WITH_LIST, FEE_MARKET]

PUBLISHED = [vector for vector in vectors("published_transactions.json") if vector["key"]]

uint256 = st.integers(0, 2**256 - 1)
addresses = st.binary(min_size=20, max_size=20).map(lambda content: f"0x{content.hex()}")
any_fields: dict[str, st.SearchStrategy[Any]] = {
    "chain_id": st.integers(1, MAX_CHAIN_ID),
    "nonce": st.integers(0, 2**64 - 2),
    "gas": st.integers(0, 2**64 - 1),
    "to": st.none() | addresses,
    "value": uint256,
    "data": st.binary(max_size=100),
}
access_lists = st.lists(
    st.builds(
        AccessListEntry,
        addresses,
        st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple),
    ),
    max_size=3,
).map(tuple)
transactions = st.one_of(
    st.builds(LegacyTransaction, **any_fields, gas_price=uint256),
    st.builds(AccessListTransaction, **any_fields, gas_price=uint256, access_list=access_lists),
    st.tuples(uint256, uint256).flatmap(
        lambda fees: st.builds(
            FeeMarketTransaction,
            **any_fields,
            max_priority_fee_per_gas=st.just(min(fees)),
            max_fee_per_gas=st.just(max(fees)),
            access_list=access_lists,
        )
    ),
)


def changed(transaction: Transaction, field: str, value: Any) -> Transaction:
    """The transaction with another value in the field."""
    fields: dict[str, Any] = {field: value}
    return replace(transaction, **fields)


def signing_hash(transaction: Transaction) -> bytes:
    return sign_transaction(transaction, KEY)[2]


def test_the_example_of_eip_155() -> None:
    raw, *_ = sign_transaction(LEGACY, KEY)

    assert signing_hash(LEGACY).hex() == "daf5a779ae972f972197303d7b574746c7ef83eadac0f2791ad23db92e4c8e53"
    assert raw.hex() == (
        "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a0"
        "28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a0"
        "67cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"
    )


@each_row("vector", PUBLISHED, ids=lambda vector: vector["name"])
def test_published_transactions_get_their_signatures_and_hashes(vector: dict[str, Any]) -> None:
    expected = vector["transaction"]
    transaction = transaction_of(expected)

    r, s, parity = key_of(vector).sign_parity(signing_hash(transaction))
    _, transaction_hash, _ = sign_transaction(transaction, key_of(vector))

    v = parity if transaction.type else 35 + 2 * transaction.chain_id + parity
    assert [hex(number) for number in (v, r, s)] == [expected["v"], expected["r"], expected["s"]]
    assert expected["hash"] in (None, f"0x{transaction_hash.hex()}")


@each_row("vector", vectors("transactions.json"), ids=lambda vector: vector["name"])
def test_transactions_are_signed_as_another_implementation_signs_them(vector: dict[str, Any]) -> None:
    raw, transaction_hash, _ = sign_transaction(transaction_of(vector["transaction"]), key_of(vector))

    assert raw == raw_bytes(vector["raw"])
    assert transaction_hash == raw_bytes(vector["hash"])


@given(transactions)
def test_a_signed_transaction_is_read_with_its_fields(transaction: Transaction) -> None:
    raw, transaction_hash, _ = sign_transaction(transaction, KEY)

    read = read_raw_transaction(raw)

    assert (read.type, read.hash, read.sender) == (transaction.type, transaction_hash, KEY.address.lower())
    for field in ("chain_id", "nonce", "gas", "to", "value", "data"):
        assert getattr(read, field) == getattr(transaction, field)
    assert read.access_list == getattr(transaction, "access_list", ())
    if isinstance(transaction, FeeMarketTransaction):
        assert read.max_fee_per_gas == transaction.max_fee_per_gas
        assert read.max_priority_fee_per_gas == transaction.max_priority_fee_per_gas
    else:
        assert (read.max_fee_per_gas, read.max_priority_fee_per_gas) == (transaction.gas_price, None)


@given(transactions, st.integers(1, MAX_CHAIN_ID))
def test_another_chain_is_another_transaction(transaction: Transaction, chain_id: int) -> None:
    other = replace(transaction, chain_id=chain_id)

    assert (signing_hash(other) == signing_hash(transaction)) is (chain_id == transaction.chain_id)


@each_row("transaction", TRANSACTIONS, ids=lambda transaction: f"type {transaction.type}")
@each_row(
    ("field", "least", "greatest"),
    [
        ("chain_id", 1, MAX_CHAIN_ID),
        ("nonce", 0, 2**64 - 2),
        ("gas", 0, 2**64 - 1),
        ("value", 0, 2**256 - 1),
    ],
)
def test_numbers_have_their_ranges(transaction: Transaction, field: str, least: int, greatest: int) -> None:
    for number in (least, greatest):
        sign_transaction(changed(transaction, field, number), KEY)

    for number in (least - 1, greatest + 1):
        with pytest.raises(TransactionError, match=f"^{field} must lie between"):
            changed(transaction, field, number)


@each_row("transaction", [LEGACY, WITH_LIST], ids=["type 0", "type 1"])
def test_a_gas_price_has_its_range(transaction: LegacyTransaction | AccessListTransaction) -> None:
    for number in (0, 2**256 - 1):
        sign_transaction(replace(transaction, gas_price=number), KEY)

    for number in (-1, 2**256):
        with pytest.raises(TransactionError, match=r"^gas_price must lie between"):
            replace(transaction, gas_price=number)


@each_row(
    ("tip", "fee", "reason"),
    [
        (2, 1, r"max_priority_fee_per_gas \(2\) must not be greater than max_fee_per_gas \(1\)"),
        (0, 2**256, "^max_fee_per_gas must lie"),
        (2**256, 2**256 - 1, "^max_priority_fee_per_gas must lie"),
        (-1, 0, "^max_priority_fee_per_gas must lie"),
        (-1, -1, "^max_fee_per_gas must lie"),
    ],
)
def test_fees_have_their_ranges_and_their_order(tip: int, fee: int, reason: str) -> None:
    with pytest.raises(TransactionError, match=reason):
        replace(FEE_MARKET, max_priority_fee_per_gas=tip, max_fee_per_gas=fee)


@each_row("address", ["", "0x", "0x35", TO[2:], TO + "00", TO[:-1] + " ", TO[:-1] + "g"])
def test_an_address_has_20_bytes(address: str) -> None:
    with pytest.raises(TransactionError, match=r"^to must"):
        replace(LEGACY, to=address)
    with pytest.raises(TransactionError, match=r"^access_list\[1\]\.address must"):
        replace(WITH_LIST, access_list=(AccessListEntry(TO), AccessListEntry(address)))


@each_row("length", [0, 31, 33])
def test_a_storage_key_has_32_bytes(length: int) -> None:
    with pytest.raises(TransactionError, match=r"^access_list\[0\]\.storage_keys must have 32 bytes"):
        replace(FEE_MARKET, access_list=(AccessListEntry(TO, (bytes(32), bytes(length))),))
