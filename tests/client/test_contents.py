"""What approvals, requests and statuses of other clients are taken for."""

from typing import Any

import pytest

from bridge_server.kit.client import BadPayloadError, CallFailedError, RejectedError
from bridge_server.kit.client.payloads import read_approval, read_request, read_result
from tests.support.rows import each_row


@each_row(("chain_id", "read"), [(1, 1), (None, None), ("5", 5), ("0x89", 137), (2**80, 2**80)])
def test_chain_ids_are_read_however_wallets_write_them(chain_id: Any, read: int | None) -> None:
    assert read_approval({"approved": True, "accounts": [], "chainId": chain_id}).chain_id == read


def test_an_approval_keeps_what_else_was_said() -> None:
    approval = read_approval({"approved": True, "accounts": ["0xab"], "peer": {"name": "Wallet"}})

    assert approval.accounts == ("0xab",)
    assert approval.content["peer"] == {"name": "Wallet"}


@each_row("content", [{"approved": False}, {}, {"approved": 1}, {"accounts": ["0xab"]}])
def test_answer_without_approval_is_a_rejection(content: Any) -> None:
    with pytest.raises(RejectedError):
        read_approval(content)


@each_row(
    "content",
    [
        None,
        ["approved"],
        {"approved": True},
        {"approved": True, "accounts": "0xab"},
        {"approved": True, "accounts": [1]},
        {"approved": True, "accounts": [], "chainId": "main"},
        {"approved": True, "accounts": [], "chainId": [1]},
        {"approved": True, "accounts": [], "chainId": True},
    ],
)
def test_malformed_approval_is_refused(content: Any) -> None:
    with pytest.raises(BadPayloadError):
        read_approval(content)


def test_a_request_without_parameters_has_none() -> None:
    call = read_request("call", {"jsonrpc": "2.0", "id": "one", "method": "eth_accounts"})

    assert (call.method, call.params, call.request_id) == ("eth_accounts", [], "one")


@each_row("content", [None, "eth_sign", {}, {"method": 1}, {"method": "eth_sign", "id": [1]}])
def test_malformed_request_is_refused(content: Any) -> None:
    with pytest.raises(BadPayloadError):
        read_request("call", content)


@each_row(
    ("content", "result"),
    [
        ({"approved": True, "result": "0xab"}, "0xab"),
        ({"id": 1, "jsonrpc": "2.0", "result": None}, None),
        ({"result": {"error": "in it"}, "error": None}, {"error": "in it"}),
    ],
)
def test_results_are_read_in_every_form(content: Any, result: Any) -> None:
    assert read_result(content) == result


@each_row(
    ("content", "code", "message"),
    [
        ({"approved": False}, 4001, "The wallet refused the call."),
        ({"approved": None, "result": "0xab"}, 4001, "The wallet refused the call."),
        ({"id": 1, "jsonrpc": "2.0", "error": {"code": -32000, "message": "no funds"}}, -32000, "no funds"),
        ({"error": {}}, 4001, "The wallet answered with an error."),
        ({"error": {"code": "x", "message": 7}}, 4001, "7"),
    ],
)
def test_errors_are_read_in_every_form(content: Any, code: int, message: str) -> None:
    with pytest.raises(CallFailedError) as failure:
        read_result(content)

    assert (failure.value.code, failure.value.message) == (code, message)


def test_an_error_keeps_its_data() -> None:
    with pytest.raises(CallFailedError) as failure:
        read_result({"error": {"code": 3, "message": "reverted", "data": "0x08c3"}})

    assert failure.value.data == "0x08c3"


@each_row("content", [None, [], {}, {"approved": True}, {"error": "text"}])
def test_a_status_that_says_nothing_is_refused(content: Any) -> None:
    with pytest.raises(BadPayloadError):
        read_result(content)
