"""Signed transactions of others: published ones of all types, fresh ones, and any bytes at all."""

from contextlib import suppress
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from bridge_server.ethereum import rlp
from bridge_server.ethereum.transactions import Authorization, RawTransactionError, read_raw_transaction
from tests.ethereum.signed_transactions import FIELDS, KEY, published_raw, signed, signed_for_every_chain
from tests.ethereum.vectors import key_of, raw_bytes, vectors
from tests.support.rows import each_row


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


@each_row("vector", vectors("transactions.json"), ids=lambda vector: vector["name"])
def test_transactions_of_another_implementation_have_their_signers(vector: dict[str, Any]) -> None:
    read = read_raw_transaction(raw_bytes(vector["raw"]))

    assert read.sender == key_of(vector).address.lower()
    assert read.hash == raw_bytes(vector["hash"])
    assert read.nonce == int(vector["transaction"]["nonce"], 16)


def test_a_transaction_before_eip_155_is_good_for_every_chain() -> None:
    read = read_raw_transaction(signed_for_every_chain())

    assert (read.chain_id, read.sender) == (None, KEY.address.lower())


@each_row("kind", FIELDS)
def test_a_signed_transaction_of_each_type_is_taken(kind: int) -> None:
    assert read_raw_transaction(signed(kind, FIELDS[kind])).sender == KEY.address.lower()


@given(st.sampled_from(sorted(FIELDS)), st.data())
def test_any_changed_byte_makes_another_transaction_or_none(kind: int, draw: st.DataObject) -> None:
    raw = bytearray(signed(kind, FIELDS[kind]))
    before = read_raw_transaction(bytes(raw))
    raw[draw.draw(st.integers(0, len(raw) - 1))] ^= draw.draw(st.integers(1, 255))

    with suppress(RawTransactionError):
        after = read_raw_transaction(bytes(raw))
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
