"""Signed transactions of others: published ones of all types, and everything that no node would take."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
from bridge_server.ethereum.blob_sidecars import blob_hash
from bridge_server.ethereum.keccak import keccak256
from bridge_server.ethereum.raw_transactions import (
    Authorization,
    RawTransaction,
    RawTransactionError,
    read_raw_transaction,
)
from bridge_server.ethereum.signing_key import SigningKey
from tests.ethereum.vectors import key_of, raw_bytes, vectors

ORDER = 0xFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFFEBAAEDCE6AF48A03BBFD25E8CD0364141
KEY = SigningKey(b"\x46" * 32)
TO = b"\x35" * 20
COMMITMENTS = [b"\xc0" + bytes(47), b"\xc1" * 48]
BLOBS = [bytes(131_072), b"\1" * 131_072]

# The fields of a transaction of each type, as it is signed.
FIELDS: dict[int, list[Any]] = {
    0: [b"\x09", b"\x04", b"\x52\x08", TO, b"\x01", b"data"],
    1: [b"\x01", b"\x09", b"\x04", b"\x52\x08", TO, b"\x01", b"data", [[TO, [bytes(32)]]]],
    2: [b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO, b"\x01", b"data", [[TO, []]]],
    3: [
        *(b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO, b"\x01", b"data", []),
        *(b"\x05", [blob_hash(commitment) for commitment in COMMITMENTS]),
    ],
    4: [
        *(b"\x01", b"\x09", b"\x03", b"\x04", b"\x52\x08", TO, b"\x01", b"data", []),
        [[b"", TO, b"\x07", b"\x01", b"\x02", b"\x03"]],
    ],
}
NAMES = {
    0: ["nonce", "gas_price", "gas", "to", "value", "data"],
    1: ["chain_id", "nonce", "gas_price", "gas", "to", "value", "data", "access_list"],
    2: [
        *("chain_id", "nonce", "max_priority_fee_per_gas", "max_fee_per_gas"),
        *("gas", "to", "value", "data", "access_list"),
    ],
}
NAMES[3] = [*NAMES[2], "max_fee_per_blob_gas", "blob_versioned_hashes"]
NAMES[4] = [*NAMES[2], "authorization_list"]

EVERY_FIELD = [(kind, name) for kind, names in NAMES.items() for name in names]
NUMBERS = [field for field in EVERY_FIELD if "fee" in field[1] or field[1] in {"chain_id", "nonce", "value"}]
LISTS = {"access_list", "blob_versioned_hashes", "authorization_list"}


def signed(kind: int, fields: list[Any], chain_id: int = 1) -> bytes:
    """These fields, whatever they are, with a signature that is good."""
    prefix = bytes([kind]) if kind else b""
    preimage = fields if kind else [*fields, rlp.number(chain_id), b"", b""]
    r, s, parity = KEY.sign_parity(keccak256(prefix + rlp.encode(preimage)))
    v = parity if kind else 35 + 2 * chain_id + parity
    return prefix + rlp.encode([*fields, rlp.number(v), rlp.number(r), rlp.number(s)])


def changed(kind: int, name: str, value: Any) -> bytes:
    """A signed transaction with that value in that field."""
    fields = FIELDS[kind].copy()
    fields[NAMES[kind].index(name)] = value
    return signed(kind, fields)


def with_items(raw: bytes, change: Callable[[list[Any]], Sequence[rlp.Item]]) -> bytes:
    """A signed transaction with its items changed after it was signed."""
    prefix = b"" if raw[0] >= 0xC0 else raw[:1]
    items = rlp.decode(raw[len(prefix) :])
    return prefix + rlp.encode(change(list(items)))


def refused(raw: bytes, reason: str) -> None:
    with pytest.raises(RawTransactionError, match=reason):
        read_raw_transaction(raw)


def published_raw(spelled: dict[str, Any]) -> bytes:
    """The bytes of a transaction as a node describes it, put together by hand."""
    kind = int(spelled["type"], 16)

    def number(name: str) -> bytes:
        return rlp.number(int(spelled[name], 16))

    items: list[rlp.Item] = [number("chainId")] if kind else []
    items.append(number("nonce"))
    items += [number("gasPrice")] if kind < 2 else [number("maxPriorityFeePerGas"), number("maxFeePerGas")]
    items += [number("gas"), raw_bytes(spelled["to"] or "0x"), number("value"), raw_bytes(spelled["input"])]
    if kind:
        items.append(
            [
                [raw_bytes(entry["address"]), [raw_bytes(key) for key in entry["storageKeys"]]]
                for entry in spelled["accessList"]
            ]
        )
    if kind == 3:
        items += [number("maxFeePerBlobGas"), [raw_bytes(name) for name in spelled["blobVersionedHashes"]]]
    if kind == 4:
        items.append([authorization(given) for given in spelled["authorizationList"]])
    items += [number("v"), number("r"), number("s")]
    return (bytes([kind]) if kind else b"") + rlp.encode(items)


def authorization(spelled: dict[str, str]) -> list[bytes]:
    """Chain, address, nonce and signature."""
    return [
        raw_bytes(value) if name == "address" else rlp.number(int(value, 16))
        for name, value in spelled.items()
    ]


@pytest.mark.parametrize("vector", vectors("published_transactions.json"), ids=lambda vector: vector["name"])
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


def test_what_blobs_and_authorizations_say_is_read() -> None:
    by_name = {vector["name"]: vector for vector in vectors("published_transactions.json")}

    blobs = read_raw_transaction(published_raw(by_name["blobs"]["transaction"]))
    set_code = read_raw_transaction(published_raw(by_name["set code"]["transaction"]))

    assert blobs.max_fee_per_blob_gas == 0x20000
    assert [named.hex()[:8] for named in blobs.blob_hashes] == ["015a4cab"]
    assert set_code.authorizations == (
        Authorization(0xC72DD9D5E883E, "0x58f8fe237b593c19546e1e758a2544561d04bfe0", 0),
    )


@pytest.mark.parametrize("vector", vectors("transactions.json"), ids=lambda vector: vector["name"])
def test_what_another_implementation_signed_leads_back_to_its_key(vector: dict[str, Any]) -> None:
    read = read_raw_transaction(raw_bytes(vector["raw"]))

    assert read.sender == key_of(vector).address.lower()
    assert read.hash == raw_bytes(vector["hash"])
    assert read.nonce == int(vector["transaction"]["nonce"], 16)


def test_a_transaction_before_eip_155_is_good_for_every_chain() -> None:
    r, s, parity = KEY.sign_parity(keccak256(rlp.encode(FIELDS[0])))
    raw = rlp.encode([*FIELDS[0], rlp.number(27 + parity), rlp.number(r), rlp.number(s)])

    read = read_raw_transaction(raw)

    assert (read.chain_id, read.sender) == (None, KEY.address.lower())


@pytest.mark.parametrize("kind", FIELDS)
def test_the_helper_of_these_tests_signs_what_is_taken(kind: int) -> None:
    assert read_raw_transaction(signed(kind, FIELDS[kind])).sender == KEY.address.lower()


class TestRefusing:
    """Each case is signed as it stands: what is refused is the field alone."""

    @pytest.mark.parametrize(
        "raw", [b"", b"\x00", b"\x05\xc0", b"\x7f\xc0", b"\x80", b"\xb8\x38" + bytes(56)]
    )
    def test_an_unknown_type(self, raw: bytes) -> None:
        refused(raw, "begins with its type")

    @pytest.mark.parametrize("kind", FIELDS)
    def test_fields_too_many_or_too_few(self, kind: int) -> None:
        raw = signed(kind, FIELDS[kind])

        refused(with_items(raw, lambda items: [*items, b""]), "must have .* items, and has")
        refused(with_items(raw, lambda items: items[:-1]), "must have .* items, and has")
        refused(with_items(raw, lambda items: []), "must have .* items, and has 0")

    @pytest.mark.parametrize("kind", FIELDS)
    def test_something_after_the_end(self, kind: int) -> None:
        refused(signed(kind, FIELDS[kind]) + b"\x00", "one item must be encoded, and there are 2")

    @pytest.mark.parametrize("kind", [1, 2, 3, 4])
    def test_a_string_where_the_list_must_be(self, kind: int) -> None:
        refused(bytes([kind]) + b"\x83dog", "must be a list")

    @pytest.mark.parametrize("kind", [1, 2, 3, 4])
    def test_a_type_without_anything(self, kind: int) -> None:
        refused(bytes([kind]), "there are 0")

    @pytest.mark.parametrize(("kind", "name"), EVERY_FIELD)
    def test_a_list_where_a_string_must_be_and_the_other_way(self, kind: int, name: str) -> None:
        is_taken_for_blobs = (kind, name) == (3, "chain_id")
        reason = "must have 14 items" if is_taken_for_blobs else f"{name} must be"

        refused(changed(kind, name, b"\x01" if name in LISTS else [b"\x01"]), reason)

    @pytest.mark.parametrize(("kind", "name"), NUMBERS)
    def test_leading_zeros_and_numbers_out_of_range(self, kind: int, name: str) -> None:
        refused(changed(kind, name, b"\x00\x01"), f"{name} must be a number without leading zero")
        refused(changed(kind, name, b"\x00"), f"{name} must be a number without leading zero")
        refused(changed(kind, name, b"\x01" + bytes(32)), f"{name} must lie between")

    @pytest.mark.parametrize("kind", FIELDS)
    def test_a_nonce_that_no_account_has(self, kind: int) -> None:
        assert read_raw_transaction(changed(kind, "nonce", rlp.number(2**64 - 2))).nonce == 2**64 - 2
        refused(changed(kind, "nonce", rlp.number(2**64 - 1)), "nonce must lie between")

    @pytest.mark.parametrize("kind", [1, 2, 3, 4])
    def test_no_chain(self, kind: int) -> None:
        refused(changed(kind, "chain_id", b""), "chain_id must lie between 1")

    @pytest.mark.parametrize("kind", FIELDS)
    @pytest.mark.parametrize("length", [1, 19, 21, 32])
    def test_an_address_of_another_length(self, kind: int, length: int) -> None:
        refused(changed(kind, "to", b"\1" * length), f"to must have 20 bytes, and has {length}")

    @pytest.mark.parametrize("kind", [3, 4])
    def test_a_contract_creation_with_blobs_or_authorizations(self, kind: int) -> None:
        refused(changed(kind, "to", b""), "to must have 20 bytes, and has 0")

    @pytest.mark.parametrize("kind", [2, 3, 4])
    def test_a_tip_above_the_maximum(self, kind: int) -> None:
        refused(changed(kind, "max_priority_fee_per_gas", b"\x05"), "must not be greater")

    @pytest.mark.parametrize("kind", [1, 2, 3, 4])
    @pytest.mark.parametrize(
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
    def test_an_access_list_of_another_shape(self, kind: int, access_list: Any, reason: str) -> None:
        refused(changed(kind, "access_list", access_list), reason)

    @pytest.mark.parametrize(
        ("hashes", "reason"),
        [
            ([], "a blob or more"),
            ([b"\x02" + bytes(31)], "version 1"),
            ([b"\x01" * 31], r"blob_versioned_hashes\[0\] must have 32 bytes"),
        ],
    )
    def test_blob_hashes_of_another_kind(self, hashes: Any, reason: str) -> None:
        refused(changed(3, "blob_versioned_hashes", hashes), reason)

    @pytest.mark.parametrize(
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
    def test_authorizations_of_another_shape(self, authorizations: Any, reason: str) -> None:
        refused(changed(4, "authorization_list", authorizations), reason)

    @pytest.mark.parametrize("v", [0, 1, 26, 29, 34, 35, 36, 2**64])
    def test_a_legacy_v_that_names_no_chain(self, v: int) -> None:
        raw = signed(0, FIELDS[0])

        refused(with_items(raw, lambda items: [*items[:-3], rlp.number(v), *items[-2:]]), "v must")

    @pytest.mark.parametrize("kind", [1, 2, 3, 4])
    def test_a_parity_that_is_none(self, kind: int) -> None:
        raw = signed(kind, FIELDS[kind])

        refused(with_items(raw, lambda items: [*items[:-3], b"\x02", *items[-2:]]), "y_parity must lie")
        refused(with_items(raw, lambda items: [*items[:-3], b"\x1b", *items[-2:]]), "y_parity must lie")

    @pytest.mark.parametrize("kind", FIELDS)
    def test_a_signature_with_leading_zeros_or_out_of_range(self, kind: int) -> None:
        raw = signed(kind, FIELDS[kind])

        refused(
            with_items(raw, lambda items: [*items[:-2], b"\0" + items[-2], items[-1]]), "r must be a number"
        )
        refused(with_items(raw, lambda items: [*items[:-1], b"\0" + items[-1]]), "s must be a number")
        refused(with_items(raw, lambda items: [*items[:-1], b""]), "between 0 and the order")
        refused(with_items(raw, lambda items: [*items[:-1], b"\xff" * 33]), "s must lie between")

    @pytest.mark.parametrize("kind", FIELDS)
    def test_the_twin_with_the_high_s(self, kind: int) -> None:
        def twin(items: list[Any]) -> list[rlp.Item]:
            v, s = int.from_bytes(items[-3]), ORDER - int.from_bytes(items[-1])
            other = v + 1 if v % 2 == (0 if kind else 1) else v - 1
            return [*items[:-3], rlp.number(other), items[-2], rlp.number(s)]

        refused(with_items(signed(kind, FIELDS[kind]), twin), "lower half")


class TestBlobs:
    """What travels beside the transaction, in both forms; its hash is that of the transaction alone."""

    BARE = signed(3, FIELDS[3])

    def wrapped(self, *sidecar: Any) -> bytes:
        return b"\x03" + rlp.encode([rlp.decode(self.BARE[1:]), *sidecar])

    def read_is_the_bare_one(self, raw: bytes) -> None:
        assert read_raw_transaction(raw) == read_raw_transaction(self.BARE)

    def test_with_a_proof_for_each_blob(self) -> None:
        self.read_is_the_bare_one(self.wrapped(BLOBS, COMMITMENTS, [bytes(48)] * 2))

    def test_with_a_proof_for_each_cell(self) -> None:
        self.read_is_the_bare_one(self.wrapped(b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 256))

    @pytest.mark.parametrize(
        ("sidecar", "reason"),
        [
            ([], "must have 3 or 4 items"),
            ([BLOBS, COMMITMENTS], "must have 3 or 4 items, and has 2"),
            ([BLOBS, COMMITMENTS, [bytes(48)]], r"there are 1\)"),
            ([BLOBS, COMMITMENTS, [bytes(48)] * 3], r"there are 3\)"),
            ([BLOBS[:1], COMMITMENTS, [bytes(48)]], r"\(2, and there are 1\)"),
            ([BLOBS, COMMITMENTS[:1], [bytes(48)] * 2], "whose hashes"),
            ([BLOBS, COMMITMENTS[::-1], [bytes(48)] * 2], "whose hashes"),
            ([[b"\1"] * 2, COMMITMENTS, [bytes(48)] * 2], r"blobs\[0\] must have 131072 bytes"),
            ([BLOBS, [b"\1"] * 2, [bytes(48)] * 2], r"commitments\[0\] must have 48 bytes"),
            ([BLOBS, COMMITMENTS, [bytes(48), b""]], r"proofs\[1\] must have 48 bytes"),
            ([b"", BLOBS, COMMITMENTS, [bytes(48)] * 256], "wrapper_version must lie between 1"),
            ([b"\x02", BLOBS, COMMITMENTS, [bytes(48)] * 256], "wrapper_version must lie between 1"),
            ([b"\x01", BLOBS, COMMITMENTS, [bytes(48)] * 2], "128 of the proofs each"),
            ([BLOBS, COMMITMENTS, b""], "proofs must be a list"),
        ],
    )
    def test_a_wrapper_of_another_shape_is_refused(self, sidecar: Any, reason: str) -> None:
        refused(self.wrapped(*sidecar), reason)


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_any_changed_byte_makes_another_transaction_or_none(kind: int, draw: st.DataObject) -> None:
    raw = bytearray(signed(kind, FIELDS[kind]))
    before = read_raw_transaction(bytes(raw))
    raw[draw.draw(st.integers(0, len(raw) - 1))] ^= draw.draw(st.integers(1, 255))

    with suppress(RawTransactionError):
        after: RawTransaction = read_raw_transaction(bytes(raw))
        assert after.sender != before.sender


@given(st.binary(max_size=200), st.sampled_from([b"", b"\x01", b"\x02", b"\x03", b"\x04"]))
def test_any_bytes_are_a_transaction_or_refused(content: bytes, prefix: bytes) -> None:
    with suppress(RawTransactionError):
        read_raw_transaction(prefix + content)


@given(
    st.recursive(st.binary(max_size=40), lambda inner: st.lists(inner, max_size=14), max_leaves=30),
    st.sampled_from([b"", b"\x01", b"\x02", b"\x03", b"\x04"]),
)
def test_any_lists_are_a_transaction_or_refused(item: rlp.Item, prefix: bytes) -> None:
    with suppress(RawTransactionError):
        read_raw_transaction(prefix + rlp.encode(item))
