"""Signed transactions that no node would take. Each is signed as it stands: the field alone is at fault."""

from typing import Any

from bridge_server.ethereum import rlp
from bridge_server.ethereum.transactions import read_raw_transaction
from tests.ethereum.signed_transactions import FIELDS, NAMES, TO, changed, refused, signed, with_items
from tests.support.rows import each_row

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141

EVERY_FIELD = [(kind, name) for kind, names in NAMES.items() for name in names]
NUMBERS = [field for field in EVERY_FIELD if "fee" in field[1] or field[1] in {"chain_id", "nonce", "value"}]
LISTS = {"access_list", "blob_versioned_hashes", "authorization_list"}


@each_row("raw", [b"", b"\x00", b"\x05\xc0", b"\x7f\xc0", b"\x80", b"\xb8\x38" + bytes(56)])
def test_an_unknown_type_is_refused(raw: bytes) -> None:
    refused(raw, "begins with its type")


@each_row("kind", FIELDS)
def test_too_many_or_too_few_fields_are_refused(kind: int) -> None:
    raw = signed(kind, FIELDS[kind])

    refused(with_items(raw, lambda items: [*items, b""]), "must have .* items, and has")
    refused(with_items(raw, lambda items: items[:-1]), "must have .* items, and has")
    refused(with_items(raw, lambda items: []), "must have .* items, and has 0")


@each_row("kind", FIELDS)
def test_bytes_after_the_end_are_refused(kind: int) -> None:
    refused(signed(kind, FIELDS[kind]) + b"\x00", "one item must be encoded, and there are 2")


@each_row("kind", [1, 2, 3, 4])
def test_a_string_in_place_of_the_list_is_refused(kind: int) -> None:
    refused(bytes([kind]) + b"\x83dog", "must be a list")


@each_row("kind", [1, 2, 3, 4])
def test_a_type_byte_alone_is_refused(kind: int) -> None:
    refused(bytes([kind]), "there are 0")


@each_row(("kind", "name"), EVERY_FIELD)
def test_a_list_in_place_of_a_string_and_the_reverse_are_refused(kind: int, name: str) -> None:
    is_taken_for_blobs = (kind, name) == (3, "chain_id")
    reason = "must have 14 items" if is_taken_for_blobs else f"{name} must be"

    refused(changed(kind, name, b"\x01" if name in LISTS else [b"\x01"]), reason)


@each_row(("kind", "name"), NUMBERS)
def test_leading_zeros_and_numbers_out_of_range_are_refused(kind: int, name: str) -> None:
    refused(changed(kind, name, b"\x00\x01"), f"{name} must be a number without leading zero")
    refused(changed(kind, name, b"\x00"), f"{name} must be a number without leading zero")
    refused(changed(kind, name, b"\x01" + bytes(32)), f"{name} must lie between")


@each_row("kind", FIELDS)
def test_a_nonce_beyond_the_limit_is_refused(kind: int) -> None:
    assert read_raw_transaction(changed(kind, "nonce", rlp.number(2**64 - 2))).nonce == 2**64 - 2
    refused(changed(kind, "nonce", rlp.number(2**64 - 1)), "nonce must lie between")


@each_row("kind", [1, 2, 3, 4])
def test_a_typed_transaction_without_a_chain_is_refused(kind: int) -> None:
    refused(changed(kind, "chain_id", b""), "chain_id must lie between 1")


@each_row("kind", FIELDS)
@each_row("length", [1, 19, 21, 32])
def test_an_address_of_another_length_is_refused(kind: int, length: int) -> None:
    refused(changed(kind, "to", b"\1" * length), f"to must have 20 bytes, and has {length}")


@each_row("kind", [3, 4])
def test_a_contract_creation_with_blobs_or_authorizations_is_refused(kind: int) -> None:
    refused(changed(kind, "to", b""), "to must have 20 bytes, and has 0")


@each_row("kind", [2, 3, 4])
def test_a_tip_above_the_maximum_is_refused(kind: int) -> None:
    refused(changed(kind, "max_priority_fee_per_gas", b"\x05"), "must not be greater")


@each_row("kind", [1, 2, 3, 4])
@each_row(
    ("access_list", "reason"),
    [
        ([b""], r"access_list\[0\] must be a list"),
        ([[TO]], r"access_list\[0\] must have 2 items, and has 1"),
        ([[TO, [], []]], r"access_list\[0\] must have 2 items, and has 3"),
        ([[TO, []], [TO[1:], []]], r"access_list\[1\].address must have 20 bytes"),
        ([[TO, b""]], r"access_list\[0\].storage_keys must be a list"),
        ([[TO, [bytes(32), b"\1"]]], r"access_list\[0\].storage_keys\[1\] must have 32 bytes"),
    ],
)
def test_a_malformed_access_list_is_refused(kind: int, access_list: Any, reason: str) -> None:
    refused(changed(kind, "access_list", access_list), reason)


@each_row(
    ("hashes", "reason"),
    [
        ([], "a blob or more"),
        ([b"\x02" + bytes(31)], "version 1"),
        ([b"\x01" * 31], r"blob_versioned_hashes\[0\] must have 32 bytes"),
    ],
)
def test_malformed_blob_hashes_are_refused(hashes: Any, reason: str) -> None:
    refused(changed(3, "blob_versioned_hashes", hashes), reason)


@each_row(
    ("authorizations", "reason"),
    [
        ([], "must not be empty"),
        ([[b"", TO, b"", b"", b""]], r"authorization_list\[0\] must have 6 items"),
        ([[b"", b"", b"", b"", b"", b""]], r"authorization_list\[0\].address must have 20 bytes"),
        ([[b"", TO, b"\1" * 9, b"", b"", b""]], r"authorization_list\[0\].nonce must lie"),
        ([[b"", TO, b"", b"\1\1", b"", b""]], r"authorization_list\[0\].y_parity must lie"),
        ([[b"", TO, b"", b"", b"\1" * 33, b""]], r"authorization_list\[0\].r must lie"),
        ([[b"", TO, b"", b"", b"", b"\0"]], r"authorization_list\[0\].s must be a number without"),
    ],
)
def test_malformed_authorizations_are_refused(authorizations: Any, reason: str) -> None:
    refused(changed(4, "authorization_list", authorizations), reason)


@each_row("v", [0, 1, 26, 29, 34, 35, 36, 2**64])
def test_a_legacy_v_without_a_chain_is_refused(v: int) -> None:
    raw = signed(0, FIELDS[0])

    refused(with_items(raw, lambda items: [*items[:-3], rlp.number(v), *items[-2:]]), "v must")


@each_row("kind", [1, 2, 3, 4])
def test_a_parity_above_one_is_refused(kind: int) -> None:
    raw = signed(kind, FIELDS[kind])

    refused(with_items(raw, lambda items: [*items[:-3], b"\x02", *items[-2:]]), "y_parity must lie")
    refused(with_items(raw, lambda items: [*items[:-3], b"\x1b", *items[-2:]]), "y_parity must lie")


@each_row("kind", FIELDS)
def test_a_signature_with_leading_zeros_or_out_of_range_is_refused(kind: int) -> None:
    raw = signed(kind, FIELDS[kind])

    refused(with_items(raw, lambda items: [*items[:-2], b"\0" + items[-2], items[-1]]), "r must be a number")
    refused(with_items(raw, lambda items: [*items[:-1], b"\0" + items[-1]]), "s must be a number")
    refused(with_items(raw, lambda items: [*items[:-1], b""]), "between 0 and the order")
    refused(with_items(raw, lambda items: [*items[:-1], b"\xff" * 33]), "s must lie between")


@each_row("kind", FIELDS)
def test_a_signature_with_a_high_s_is_refused(kind: int) -> None:
    def twin(items: list[Any]) -> list[rlp.Item]:
        v, s = int.from_bytes(items[-3]), ORDER - int.from_bytes(items[-1])
        other = v + 1 if v % 2 == (0 if kind else 1) else v - 1
        return [*items[:-3], rlp.number(other), items[-2], rlp.number(s)]

    refused(with_items(signed(kind, FIELDS[kind]), twin), "lower half")
