"""The transaction object is read strictly: every fault is named with its place."""

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.wallet.models import InvalidParamsError
from bridge_server.wallet.transactions.requests import read_transaction, write_transaction
from tests.support.rows import each_row
from tests.wallet.rig import ALICE, BOB, transaction

CHECKSUMMED = "0x70997970C51812dc3A010C7d01b50e0d17dc79C8"
KEY = "0x" + "07" * 32


def fault_of(**fields: Any) -> str:
    with pytest.raises(InvalidParamsError) as refused:
        read_transaction(transaction(**fields))
    return refused.value.detail


def test_the_contracts_fields_are_read() -> None:
    request = read_transaction(
        {
            "from": ALICE,
            "to": CHECKSUMMED,
            "gas": "0x76c0",
            "gasPrice": "0x9184e72a000",
            "value": "0x9184e72a",
            "data": "0xd46e",
            "nonce": "0x5",
            "chainId": "0x1",
        }
    )

    assert (request.sender, request.to, request.data) == (ALICE, BOB, b"\xd4\x6e")
    assert (request.gas, request.gas_price, request.value) == (0x76C0, 0x9184E72A000, 0x9184E72A)
    assert (request.nonce, request.chain_id, request.type) == (5, 1, 0)


def test_a_missing_or_null_field_is_open() -> None:
    request = read_transaction(
        transaction(value=None) | dict.fromkeys(["gas", "gasPrice", "nonce", "data", "accessList", "type"])
    )

    assert (request.gas, request.gas_price, request.nonce, request.chain_id) == (None, None, None, None)
    assert (request.value, request.data, request.type) == (0, b"", 0)


@each_row(
    ("fields", "fault"),
    [
        ({"from_": None}, "params[0].from is missing"),
        ({"from_": "0x12"}, "params[0].from must be an address"),
        ({"from_": ALICE.replace("f39f", "F39F")}, "params[0].from has a wrong checksum"),
        ({"to": "0x"}, "params[0].to must be an address"),
        ({"to": 7}, "params[0].to must be an address"),
        ({"value": 5}, "params[0].value must be a QUANTITY"),
        ({"value": "0x"}, "params[0].value must be a QUANTITY"),
        ({"value": "0x01"}, "params[0].value must be a QUANTITY"),
        ({"value": "10"}, "params[0].value must be a QUANTITY"),
        ({"value": "0x1" + "0" * 64}, "params[0].value must be a QUANTITY"),
        ({"gas": "0x10000000000000000"}, "params[0].gas must be at most 0xffffffffffffffff"),
        ({"gas": True}, "params[0].gas must be a QUANTITY"),
        ({"gasPrice": "-0x1"}, "params[0].gasPrice must be a QUANTITY"),
        ({"nonce": "0x8000000000000000"}, "params[0].nonce must be at most 0x7fffffffffffffff"),
        ({"chainId": "0x0"}, "params[0].chainId must not be 0x0"),
        ({"chainId": 1}, "params[0].chainId must be a QUANTITY"),
        ({"data": "0x1"}, "params[0].data must be DATA"),
        ({"data": "d46e"}, "params[0].data must be DATA"),
        ({"input": ["0x"]}, "params[0].input must be DATA"),
        ({"data": "0x01", "input": "0x02"}, "params[0].input must be the same as data"),
        ({"to": None}, "params[0].data is missing: without to"),
        ({"to": None, "data": "0x"}, "params[0].data is empty: without to"),
        ({"to": None, "input": "0x"}, "params[0].input is empty: without to"),
        ({"type": "0x3"}, "params[0].type must be 0x0, 0x1 or 0x2"),
        ({"type": 3}, "params[0].type must be 0x0, 0x1 or 0x2"),
        ({"type": -1}, "params[0].type must be 0x0, 0x1 or 0x2"),
        ({"type": True}, "params[0].type must be a QUANTITY"),
        ({"type": "2"}, "params[0].type must be a QUANTITY"),
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
    ],
)
def test_faults_are_named_with_their_place(fields: dict[str, Any], fault: str) -> None:
    assert fault in fault_of(**fields)


@each_row(
    ("number", "fields"), [(0, {"gasPrice": "0x1"}), (1, {"accessList": []}), (2, {"maxFeePerGas": "0x1"})]
)
def test_the_type_may_be_a_json_number(number: int, fields: dict[str, Any]) -> None:
    assert read_transaction(transaction(type=number, **fields)).type == number


@each_row("kind", ["2", "0x02", 2.0, "0x3", [], True])
def test_other_fields_are_not_judged_by_an_unknown_type(kind: Any) -> None:
    with pytest.raises(InvalidParamsError) as refused:
        read_transaction(transaction(type=kind, maxFeePerGas="0x1", accessList=[]))

    assert [fault.pointer for fault in refused.value.faults] == ["params[0].type"]


@each_row("value", [None, [], "0x", 1, True])
def test_a_transaction_that_is_no_object_is_refused(value: Any) -> None:
    with pytest.raises(InvalidParamsError, match=r"params\[0\] must be a transaction object"):
        read_transaction(value)


def test_every_fault_is_named() -> None:
    with pytest.raises(InvalidParamsError) as refused:
        read_transaction({"to": "x", "value": 1, "blobs": []})

    assert [fault.pointer for fault in refused.value.faults] == [
        f"params[0].{name}" for name in ("blobs", "to", "value", "from")
    ]


@each_row(
    ("fields", "kind"),
    [
        ({}, 0),
        ({"gasPrice": "0x1"}, 0),
        ({"accessList": []}, 1),
        ({"type": "0x1"}, 1),
        ({"maxFeePerGas": "0x1"}, 2),
        ({"maxPriorityFeePerGas": "0x1", "accessList": []}, 2),
        ({"type": "0x2"}, 2),
        ({"type": "0x0", "gasPrice": "0x1"}, 0),
    ],
)
def test_the_type_follows_from_the_fields(fields: dict[str, Any], kind: int) -> None:
    assert read_transaction(transaction(**fields)).type == kind


@each_row(
    "fields",
    [{"data": "0x0102"}, {"input": "0x0102"}, {"data": "0x0102", "input": "0x0102"}],
    ids=["data", "input", "both"],
)
def test_data_and_input_are_one_field(fields: dict[str, Any]) -> None:
    assert read_transaction(transaction(**fields)).data == b"\1\2"


def test_unknown_fields_and_an_equal_gas_limit_are_no_faults() -> None:
    request = read_transaction(transaction(gas="0x5208", gasLimit="0x5208", memo="hello", hash=None))

    assert request.gas == 0x5208


@each_row(
    "fields",
    [
        {"gas": "0x1", "gasPrice": "0x2", "nonce": "0x3", "chainId": "0x4", "data": "0x05"},
        {"to": None, "data": "0x6001", "accessList": [{"address": BOB, "storageKeys": [KEY]}]},
        {"maxFeePerGas": "0x7", "maxPriorityFeePerGas": "0x6", "accessList": []},
    ],
)
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
    with suppress(InvalidParamsError):
        assert read_transaction(value).sender == ALICE
