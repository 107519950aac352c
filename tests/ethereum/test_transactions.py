"""Transactions: published vectors, another implementation's, fields out of range, and signed ones."""

from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
from bridge_server.ethereum.signing_key import SigningKey
from bridge_server.ethereum.transactions import (
    MAX_CHAIN_ID,
    AccessListEntry,
    AccessListTransaction,
    Authorization,
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
    NAMES,
    SIGNER,
    TO_BYTES,
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
        AccessListEntry, addresses, st.lists(st.binary(min_size=32, max_size=32), max_size=3).map(tuple)
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
ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
EVERY_FIELD = [(kind, name) for kind, names in NAMES.items() for name in names]
NUMBERS = [field for field in EVERY_FIELD if "fee" in field[1] or field[1] in {"chain_id", "nonce", "value"}]
LISTS = {"access_list", "blob_versioned_hashes", "authorization_list"}
BLOBS = [bytes(131_072), b"\1" * 131_072]
BARE = signed(3, FIELDS[3])


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
    read = read_raw_transaction(raw)

    assert raw == raw_bytes(vector["raw"])
    assert transaction_hash == read.hash == raw_bytes(vector["hash"])
    assert read.sender == key_of(vector).address.lower()


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


@each_row(
    ("transaction", "field", "least", "greatest"),
    [
        *(
            row
            for each in TRANSACTIONS
            for row in (
                (each, "chain_id", 1, MAX_CHAIN_ID),
                (each, "nonce", 0, 2**64 - 2),
                (each, "gas", 0, 2**64 - 1),
                (each, "value", 0, 2**256 - 1),
            )
        ),
        (LEGACY, "gas_price", 0, 2**256 - 1),
        (WITH_LIST, "gas_price", 0, 2**256 - 1),
    ],
)
def test_numbers_have_their_ranges(transaction: Transaction, field: str, least: int, greatest: int) -> None:
    for number in (least, greatest):
        sign_transaction(changed(transaction, field, number), KEY)

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


@each_row("vector", vectors("published_transactions.json"), ids=lambda vector: vector["name"])
def test_published_transactions_are_read(vector: dict[str, Any]) -> None:
    spelled = vector["transaction"]

    read = read_raw_transaction(published_raw(spelled))

    assert spelled["hash"] in (None, f"0x{read.hash.hex()}")
    assert spelled["from"] in (None, read.sender)
    assert vector["key"] is None or key_of(vector).address.lower() == read.sender
    assert (read.type, read.chain_id, read.nonce, read.gas, read.value) == tuple(
        int(spelled[name], 16) for name in ("type", "chainId", "nonce", "gas", "value")
    )
    assert (read.to, read.data) == (spelled["to"], raw_bytes(spelled["input"]))
    assert hex(read.max_fee_per_gas) == spelled.get("maxFeePerGas", spelled.get("gasPrice"))
    assert [(entry.address, len(entry.storage_keys)) for entry in read.access_list] == [
        (entry["address"], len(entry["storageKeys"])) for entry in spelled.get("accessList", [])
    ]


def test_fields_of_blobs_and_authorizations_are_read() -> None:
    by_name = {vector["name"]: vector for vector in vectors("published_transactions.json")}

    blobs = read_raw_transaction(published_raw(by_name["blobs"]["transaction"]))
    set_code = read_raw_transaction(published_raw(by_name["set code"]["transaction"]))

    assert blobs.max_fee_per_blob_gas == 0x20000
    assert [named.hex()[:8] for named in blobs.blob_hashes] == ["015a4cab"]
    assert set_code.authorizations == (
        Authorization(0xC72DD9D5E883E, "0x58f8fe237b593c19546e1e758a2544561d04bfe0", 0),
    )


def test_a_transaction_before_eip_155_is_good_for_every_chain() -> None:
    read = read_raw_transaction(signed_for_every_chain())

    assert (read.chain_id, read.sender) == (None, SIGNER.address.lower())


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_any_changed_byte_makes_another_transaction_or_none(kind: int, draw: st.DataObject) -> None:
    raw = bytearray(signed(kind, FIELDS[kind]))
    before = read_raw_transaction(bytes(raw))
    raw[draw.draw(st.integers(0, len(raw) - 1))] ^= draw.draw(st.integers(1, 255))

    with suppress(RawTransactionError):
        after = read_raw_transaction(bytes(raw))
        assert after.sender != before.sender


@given(
    st.binary(max_size=200)
    | st.recursive(st.binary(max_size=40), lambda inner: st.lists(inner, max_size=14), max_leaves=30).map(
        rlp.encode
    ),
    st.sampled_from([b"", b"\x01", b"\x02", b"\x03", b"\x04"]),
)
def test_any_bytes_and_any_lists_are_a_transaction_or_refused(content: bytes, prefix: bytes) -> None:
    with suppress(RawTransactionError):
        read_raw_transaction(prefix + content)


@each_row("raw", [b"", b"\x00", b"\x05\xc0", b"\x7f\xc0", b"\x80", b"\xb8\x38" + bytes(56)])
def test_an_unknown_type_is_refused(raw: bytes) -> None:
    refused(raw, "begins with its type")


@each_row("kind", FIELDS)
def test_too_many_or_too_few_fields_or_bytes_are_refused(kind: int) -> None:
    raw = signed(kind, FIELDS[kind])

    refused(with_items(raw, lambda items: [*items, b""]), "must have .* items, and has")
    refused(with_items(raw, lambda items: items[:-1]), "must have .* items, and has")
    refused(with_items(raw, lambda items: []), "must have .* items, and has 0")
    refused(raw + b"\x00", "one item must be encoded, and there are 2")


@each_row("kind", [1, 2, 3, 4])
def test_a_string_or_nothing_in_place_of_the_list_is_refused(kind: int) -> None:
    refused(bytes([kind]) + b"\x83dog", "must be a list")
    refused(bytes([kind]), "there are 0")


@each_row(("kind", "name"), EVERY_FIELD)
def test_a_list_in_place_of_a_string_and_the_reverse_are_refused(kind: int, name: str) -> None:
    is_taken_for_blobs = (kind, name) == (3, "chain_id")
    reason = "must have 14 items" if is_taken_for_blobs else f"{name} must be"

    refused(changed_raw(kind, name, b"\x01" if name in LISTS else [b"\x01"]), reason)


@each_row(("kind", "name"), NUMBERS)
def test_leading_zeros_and_numbers_out_of_range_are_refused(kind: int, name: str) -> None:
    refused(changed_raw(kind, name, b"\x00\x01"), f"{name} must be a number without leading zero")
    refused(changed_raw(kind, name, b"\x00"), f"{name} must be a number without leading zero")
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
    ("kind", "name", "value", "reason"),
    [
        *((kind, "nonce", rlp.number(2**64 - 1), "nonce must lie between") for kind in FIELDS),
        *((kind, "chain_id", b"", "chain_id must lie between 1") for kind in (1, 2, 3, 4)),
        *(
            (kind, "to", b"\1" * length, f"to must have 20 bytes, and has {length}")
            for kind in FIELDS
            for length in (19, 21)
        ),
        *((kind, "to", b"", "to must have 20 bytes, and has 0") for kind in (3, 4)),
        *((kind, "max_priority_fee_per_gas", b"\5", "must not be greater") for kind in (2, 3, 4)),
        *((kind, "access_list", value, reason) for kind in (1, 2, 3, 4) for value, reason in ACCESS_LISTS),
        (3, "blob_versioned_hashes", [], "a blob or more"),
        (3, "blob_versioned_hashes", [b"\2" + bytes(31)], "version 1"),
        (3, "blob_versioned_hashes", [b"\1" * 31], r"blob_versioned_hashes\[0\] must have 32 bytes"),
        *((4, "authorization_list", value, reason) for value, reason in AUTHORIZATIONS),
    ],
)
def test_a_field_that_no_node_takes_is_refused(kind: int, name: str, value: Any, reason: str) -> None:
    refused(changed_raw(kind, name, value), reason)


@each_row("kind", FIELDS)
def test_the_greatest_nonce_is_taken(kind: int) -> None:
    assert read_raw_transaction(changed_raw(kind, "nonce", rlp.number(2**64 - 2))).nonce == 2**64 - 2


@each_row("v", [0, 1, 26, 29, 34, 35, 36, 2**64])
def test_a_legacy_v_without_a_chain_is_refused(v: int) -> None:
    raw = signed(0, FIELDS[0])

    refused(with_items(raw, lambda items: [*items[:-3], rlp.number(v), *items[-2:]]), "v must")


@each_row("kind", FIELDS)
def test_a_signature_with_leading_zeros_or_out_of_range_is_refused(kind: int) -> None:
    raw = signed(kind, FIELDS[kind])

    refused(with_items(raw, lambda items: [*items[:-2], b"\0" + items[-2], items[-1]]), "r must be a number")
    refused(with_items(raw, lambda items: [*items[:-1], b"\0" + items[-1]]), "s must be a number")
    refused(with_items(raw, lambda items: [*items[:-1], b""]), "between 0 and the order")
    refused(with_items(raw, lambda items: [*items[:-1], b"\xff" * 33]), "s must lie between")
    if kind:
        refused(with_items(raw, lambda items: [*items[:-3], b"\x02", *items[-2:]]), "y_parity must lie")


@each_row("kind", FIELDS)
def test_a_signature_with_a_high_s_is_refused(kind: int) -> None:
    def twin(items: list[Any]) -> list[rlp.Item]:
        v, s = int.from_bytes(items[-3]), ORDER - int.from_bytes(items[-1])
        other = v + 1 if v % 2 == (0 if kind else 1) else v - 1
        return [*items[:-3], rlp.number(other), items[-2], rlp.number(s)]

    refused(with_items(signed(kind, FIELDS[kind]), twin), "lower half")


def wrapped(*sidecar: Any) -> bytes:
    return b"\x03" + rlp.encode([rlp.decode(BARE[1:]), *sidecar])


def test_a_sidecar_has_a_proof_for_each_blob_or_for_each_cell() -> None:
    for sidecar in ([BLOBS, COMMITMENTS, [bytes(48)] * 2], [b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 256]):
        assert read_raw_transaction(wrapped(*sidecar)) == read_raw_transaction(BARE)


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
