"""Transactions: published vectors, another implementation's, fields out of range, and signed ones."""

from contextlib import suppress
from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
from bridge_server.ethereum.transactions import (
    MAX_CHAIN_ID,
    AccessListEntry,
    AccessListTransaction,
    FeeMarketTransaction,
    LegacyTransaction,
    RawTransactionError,
    Transaction,
    TransactionError,
    read_raw_transaction,
    sign_transaction,
)
from tests.ethereum.vectors import (
    COMMITMENTS,
    FIELDS,
    SIGNER,
    TO_BYTES,
    items_of,
    key_of,
    published_raw,
    raw_bytes,
    refused,
    signed,
    signed_for_every_chain,
    transaction_of,
    vectors,
    with_items,
)
from tests.ethereum.vectors import changed as changed_raw
from tests.support.rows import each_row

TO = "0x" + "35" * 20
LEGACY = LegacyTransaction(chain_id=1, nonce=9, gas_price=20 * 10**9, gas=21_000, to=TO, value=10**18)
WITH_LIST = AccessListTransaction(chain_id=1, nonce=0, gas_price=1, gas=21_000, to=None, data=b"\xfe")
FEE_MARKET = FeeMarketTransaction(
    chain_id=1, nonce=0, max_priority_fee_per_gas=1, max_fee_per_gas=2, gas=21_000, to=TO
)
PUBLISHED = vectors("published_transactions.json")
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
storage_keys = st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple)
access_lists = st.lists(st.builds(AccessListEntry, addresses, storage_keys), max_size=3).map(tuple)
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
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
SIGNED = {kind: signed(kind, fields) for kind, fields in FIELDS.items()}


@each_row("vector", PUBLISHED, ids=lambda vector: vector["name"])
def test_published_transactions_are_read_and_signed(vector: dict[str, Any]) -> None:
    spelled = vector["transaction"]
    raw = published_raw(spelled)

    read = read_raw_transaction(raw)

    assert spelled["hash"] in (None, f"0x{read.hash.hex()}")
    assert spelled["from"] in (None, read.sender)
    assert (read.type, read.chain_id, read.nonce, read.gas, read.value) == tuple(
        int(spelled[name], 16) for name in ("type", "chainId", "nonce", "gas", "value")
    )
    assert (read.to, read.data) == (spelled["to"], raw_bytes(spelled["input"]))
    assert hex(read.max_fee_per_gas) == spelled.get("maxFeePerGas", spelled.get("gasPrice"))
    assert [(entry.address, len(entry.storage_keys)) for entry in read.access_list] == [
        (entry["address"], len(entry["storageKeys"])) for entry in spelled.get("accessList", [])
    ]
    if vector["key"]:
        assert read.sender == key_of(vector).address.lower()
        assert sign_transaction(transaction_of(spelled), key_of(vector))[:2] == (raw, read.hash)


def test_a_transaction_before_eip_155_is_good_for_every_chain() -> None:
    read = read_raw_transaction(signed_for_every_chain())
    assert (read.chain_id, read.sender) == (None, SIGNER.address.lower())


@each_row("vector", vectors("transactions.json"), ids=lambda vector: vector["name"])
def test_transactions_are_signed_as_another_implementation_signs_them(vector: dict[str, Any]) -> None:
    raw, transaction_hash, _ = sign_transaction(transaction_of(vector["transaction"]), key_of(vector))
    read = read_raw_transaction(raw)

    assert raw == raw_bytes(vector["raw"])
    assert transaction_hash == read.hash == raw_bytes(vector["hash"])
    assert read.sender == key_of(vector).address.lower()


@given(transactions, st.integers(1, MAX_CHAIN_ID))
def test_a_signed_transaction_is_read_with_its_fields(transaction: Transaction, chain_id: int) -> None:
    raw, transaction_hash, digest = sign_transaction(transaction, SIGNER)

    read = read_raw_transaction(raw)

    assert (read.type, read.hash, read.sender) == (transaction.type, transaction_hash, SIGNER.address.lower())
    for field in ("chain_id", "nonce", "gas", "to", "value", "data"):
        assert getattr(read, field) == getattr(transaction, field)
    assert read.access_list == getattr(transaction, "access_list", ())
    fees: tuple[int, int | None]
    if isinstance(transaction, FeeMarketTransaction):
        fees = (transaction.max_fee_per_gas, transaction.max_priority_fee_per_gas)
    else:
        fees = (transaction.gas_price, None)
    assert (read.max_fee_per_gas, read.max_priority_fee_per_gas) == fees
    _, _, of_the_other = sign_transaction(replace(transaction, chain_id=chain_id), SIGNER)
    assert (of_the_other == digest) is (chain_id == transaction.chain_id)


def changed(transaction: Transaction, field: str, value: Any) -> Transaction:
    """The transaction with another value in the field."""
    fields: dict[str, Any] = {field: value}
    return replace(transaction, **fields)


def test_numbers_have_their_ranges() -> None:
    ranges = {
        "chain_id": (1, MAX_CHAIN_ID),
        "nonce": (0, 2**64 - 2),
        "gas": (0, 2**64 - 1),
        "value": (0, 2**256 - 1),
        "gas_price": (0, 2**256 - 1),
    }
    transactions: list[Transaction] = [LEGACY, WITH_LIST, FEE_MARKET]
    for transaction, (field, (least, greatest)) in product(transactions, ranges.items()):
        if hasattr(transaction, field):
            for number in (least, greatest):
                sign_transaction(changed(transaction, field, number), SIGNER)
            for number in (least - 1, greatest + 1):
                with pytest.raises(TransactionError, match=f"^{field} must lie between"):
                    changed(transaction, field, number)


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


def test_an_address_has_20_bytes_and_a_storage_key_32() -> None:
    for address in ("", "0x", "0x35", TO[2:], TO + "00", TO[:-1] + " ", TO[:-1] + "g"):
        with pytest.raises(TransactionError, match=r"^to must"):
            replace(LEGACY, to=address)
        with pytest.raises(TransactionError, match=r"^access_list\[1\]\.address must"):
            replace(WITH_LIST, access_list=(AccessListEntry(TO), AccessListEntry(address)))
    for length in (0, 31, 33):
        with pytest.raises(TransactionError, match=r"^access_list\[0\]\.storage_keys must have 32 bytes"):
            replace(FEE_MARKET, access_list=(AccessListEntry(TO, (bytes(32), bytes(length))),))


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_any_changed_byte_makes_another_transaction_or_none(kind: int, draw: st.DataObject) -> None:
    raw = bytearray(SIGNED[kind])
    before = read_raw_transaction(bytes(raw))
    raw[draw.draw(st.integers(0, len(raw) - 1))] ^= draw.draw(st.integers(1, 255))

    with suppress(RawTransactionError):
        after = read_raw_transaction(bytes(raw))
        assert after.sender != before.sender


items = st.recursive(st.binary(max_size=40), lambda inner: st.lists(inner, max_size=14), max_leaves=30)


@given(st.binary(max_size=200) | items.map(rlp.encode), st.sampled_from([b"", b"\1", b"\2", b"\3", b"\4"]))
def test_any_bytes_and_any_lists_are_a_transaction_or_refused(content: bytes, prefix: bytes) -> None:
    with suppress(RawTransactionError):
        read_raw_transaction(prefix + content)


def test_another_type_and_another_number_of_items_are_refused() -> None:
    for raw in (b"", b"\x00", b"\x05\xc0", b"\x7f\xc0", b"\x80", b"\xb8\x38" + bytes(56)):
        refused(raw, "begins with its type")
    for kind, raw in SIGNED.items():
        items = items_of(raw)
        refused(with_items(raw, [*items, b""]), "must have .* items, and has")
        refused(with_items(raw, items[:-1]), "must have .* items, and has")
        refused(with_items(raw, []), "must have .* items, and has 0")
        refused(raw + b"\x00", "one item must be encoded, and there are 2")
        if kind:
            refused(bytes([kind]) + b"\x83dog", "must be a list")
            refused(bytes([kind]), "there are 0")


def test_a_list_in_place_of_a_string_the_reverse_and_wrong_numbers_are_refused() -> None:
    lists = {"access_list", "blob_versioned_hashes", "authorization_list"}
    for kind, names in FIELDS.items():
        for name in names:
            is_taken_for_blobs = (kind, name) == (3, "chain_id")
            reason = "must have 14 items" if is_taken_for_blobs else f"{name} must be"
            refused(changed_raw(kind, name, b"\x01" if name in lists else [b"\x01"]), reason)
            if "fee" in name or name in {"chain_id", "nonce", "value"}:
                for zeros in (b"\x00\x01", b"\x00"):
                    refused(changed_raw(kind, name, zeros), f"{name} must be a number without leading zero")
                refused(changed_raw(kind, name, b"\x01" + bytes(32)), f"{name} must lie between")


ACCESS_LISTS: list[tuple[Any, str]] = [
    ([b""], r"access_list\[0\] must be a list"),
    ([[TO_BYTES]], r"access_list\[0\] must have 2 items, and has 1"),
    ([[TO_BYTES, [], []]], r"access_list\[0\] must have 2 items, and has 3"),
    ([[TO_BYTES, []], [TO_BYTES[1:], []]], r"access_list\[1\].address must have 20 bytes"),
    ([[TO_BYTES, b""]], r"access_list\[0\].storage_keys must be a list"),
    ([[TO_BYTES, [bytes(32), b"\1"]]], r"access_list\[0\].storage_keys\[1\] must have 32 bytes"),
]
AUTHORIZATIONS: list[tuple[Any, str]] = [
    ([], "must not be empty"),
    ([[b"", TO_BYTES, b"", b"", b""]], r"authorization_list\[0\] must have 6 items"),
    ([[b"", b"", b"", b"", b"", b""]], r"authorization_list\[0\].address must have 20 bytes"),
    ([[b"", TO_BYTES, b"\1" * 9, b"", b"", b""]], r"authorization_list\[0\].nonce must lie"),
    ([[b"", TO_BYTES, b"", b"\1\1", b"", b""]], r"authorization_list\[0\].y_parity must lie"),
    ([[b"", TO_BYTES, b"", b"", b"\1" * 33, b""]], r"authorization_list\[0\].r must lie"),
    ([[b"", TO_BYTES, b"", b"", b"", b"\0"]], r"authorization_list\[0\].s must be a number without"),
]


@each_row(
    ("kinds", "name", "value", "reason"),
    [
        ("01234", "nonce", rlp.number(2**64 - 1), "nonce must lie between"),
        ("1234", "chain_id", b"", "chain_id must lie between 1"),
        *(("01234", "to", b"\1" * length, f"20 bytes, and has {length}") for length in (19, 21)),
        ("34", "to", b"", "to must have 20 bytes, and has 0"),
        ("234", "max_priority_fee_per_gas", b"\5", "must not be greater"),
        *(("1234", "access_list", value, reason) for value, reason in ACCESS_LISTS),
        ("3", "blob_versioned_hashes", [], "a blob or more"),
        ("3", "blob_versioned_hashes", [b"\2" + bytes(31)], "version 1"),
        ("3", "blob_versioned_hashes", [b"\1" * 31], r"blob_versioned_hashes\[0\] must have 32 bytes"),
        *(("4", "authorization_list", value, reason) for value, reason in AUTHORIZATIONS),
    ],
)
def test_a_field_that_no_node_takes_is_refused(kinds: str, name: str, value: Any, reason: str) -> None:
    for kind in map(int, kinds):
        refused(changed_raw(kind, name, value), reason)
        assert read_raw_transaction(changed_raw(kind, "nonce", rlp.number(2**64 - 2))).nonce == 2**64 - 2


def test_a_signature_in_another_spelling_or_out_of_range_is_refused() -> None:
    for kind, raw in SIGNED.items():
        *fields, v, r, s = items_of(raw)
        number = int.from_bytes(v)
        other_v = number + 1 if number % 2 == (0 if kind else 1) else number - 1
        faults: list[tuple[list[bytes], str]] = [
            ([rlp.number(other_v), r, rlp.number(ORDER - int.from_bytes(s))], "lower half"),
            ([v, b"\0" + r, s], "r must be a number"),
            ([v, r, b"\0" + s], "s must be a number"),
            ([v, r, b""], "between 0 and the order"),
            ([v, r, b"\xff" * 33], "s must lie between"),
        ]
        if kind:
            faults.append(([b"\x02", r, s], "y_parity must lie"))
        else:
            without_chain = (0, 1, 26, 29, 34, 35, 36, 2**64)
            faults += [([rlp.number(wrong), r, s], "v must") for wrong in without_chain]
        for signature, reason in faults:
            refused(with_items(raw, [*fields, *signature]), reason)


BLOBS = [bytes(131_072), b"\1" * 131_072]


def wrapped(*sidecar: Any) -> bytes:
    return b"\x03" + rlp.encode([rlp.decode(SIGNED[3][1:]), *sidecar])


def test_a_sidecar_has_a_proof_for_each_blob_or_for_each_cell() -> None:
    for sidecar in ([BLOBS, COMMITMENTS, [bytes(48)] * 2], [b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 256]):
        assert read_raw_transaction(wrapped(*sidecar)) == read_raw_transaction(SIGNED[3])


@each_row(
    ("sidecar", "reason"),
    [
        ([BLOBS, COMMITMENTS], "must have 3 or 4 items, and has 2"),
        ([BLOBS, COMMITMENTS, [bytes(48)]], r"there are 1\)"),
        ([BLOBS, COMMITMENTS, [bytes(48)] * 3], r"there are 3\)"),
        ([BLOBS[:1], COMMITMENTS, [bytes(48)]], r"\(2, and there are 1\)"),
        ([BLOBS, COMMITMENTS[::-1], [bytes(48)] * 2], "whose hashes"),
        ([[b"\1"] * 2, COMMITMENTS, [bytes(48)] * 2], r"blobs\[0\] must have 131072 bytes"),
        ([BLOBS, [b"\1"] * 2, [bytes(48)] * 2], r"commitments\[0\] must have 48 bytes"),
        ([BLOBS, COMMITMENTS, [bytes(48), b""]], r"proofs\[1\] must have 48 bytes"),
        ([b"", BLOBS, COMMITMENTS, [bytes(48)] * 256], "wrapper_version must lie between 1"),
        ([b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 2], "128 of the proofs each"),
        ([BLOBS, COMMITMENTS, b""], "proofs must be a list"),
    ],
)
def test_a_wrapper_of_another_shape_is_refused(sidecar: Any, reason: str) -> None:
    refused(wrapped(*sidecar), reason)
