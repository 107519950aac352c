"""Approvals, requests and answers of other clients, and namespaces of generation 2.x."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from bridge_server.kit.client import BadPayloadError, CallFailedError, Dapp, RejectedError
from bridge_server.kit.client.payloads import read_approval, read_request, read_result
from bridge_server.kit.client.v2_protocol import ETHEREUM, allows_call, approved, first_chain, sound_proposal
from bridge_server.kit.client.v2_protocol import read_approval as read_namespaces
from tests.support.rows import each_row

ACCOUNT = "0x00000000219ab540356cbb839cbe05303d7705fa"
OTHER = "0x5409ed021d9299bf6814279a6a1411a7e866a631"
SOLANA = "solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ"


@each_row(("chain_id", "read"), [(1, 1), (None, None), ("5", 5), ("0x89", 137), (2**80, 2**80)])
def test_chain_ids_are_read_however_wallets_write_them(chain_id: Any, read: int | None) -> None:
    approval = read_approval({"approved": True, "accounts": ["0xab"], "chainId": chain_id, "peer": "Wallet"})
    assert (approval.accounts, approval.chain_id) == (("0xab",), read)
    assert approval.content["peer"] == "Wallet"


@each_row(
    ("read", "failure", "reason", "contents"),
    [
        (read_approval, RejectedError, ".", [{"approved": 1}, {"accounts": ["0xab"]}]),
        (read_approval, BadPayloadError, ".", [
            ["approved"], {"approved": True, "accounts": "0xab"}, {"approved": True, "accounts": [1]},
            {"approved": True, "accounts": [], "chainId": "main"},
            {"approved": True, "accounts": [], "chainId": True},
        ]),
        (partial(read_request, "call"), BadPayloadError, ".",
         [None, "eth_sign", {}, {"method": 1}, {"method": "eth_sign", "id": [1]}]),
        (read_result, BadPayloadError, ".", [None, [], {}, {"approved": True}, {"error": "text"}]),
        (read_namespaces, BadPayloadError, "approval", [
            {"namespaces": None}, {"namespaces": {}}, {"namespaces": []},
            {"namespaces": {"EIP": {"accounts": [], "methods": [], "events": []}}},
            {"namespaces": {"eip155": {"accounts": [ACCOUNT], "methods": [], "events": []}}},
            {"namespaces": {"eip155": {"accounts": "all", "methods": [], "events": []}}},
            {"namespaces": {"eip155": {"accounts": [], "methods": [1], "events": []}}},
            {"namespaces": {"eip155": {"accounts": [], "methods": []}}},
        ]),
        (first_chain, BadPayloadError, "no chain", [{"eip155": {"accounts": []}}]),
    ],
)  # fmt: skip
def test_an_answer_without_approval_is_a_rejection_and_what_is_malformed_is_refused(
    read: Callable[[Any], object], failure: type[Exception], reason: str, contents: list[Any]
) -> None:
    for content in contents:
        with pytest.raises(failure, match=reason):
            read(content)


def test_requests_and_results_are_read_in_every_form() -> None:
    call = read_request("call", {"jsonrpc": "2.0", "id": "one", "method": "eth_accounts"})
    assert (call.method, call.params, call.request_id) == ("eth_accounts", [], "one")
    assert read_result({"approved": True, "result": "0xab"}) == "0xab"
    assert read_result({"id": 1, "jsonrpc": "2.0", "result": None}) is None
    assert read_result({"result": {"error": "in it"}, "error": None}) == {"error": "in it"}


@each_row(
    ("content", "code", "message", "data"),
    [
        ({"approved": None, "result": "0xab"}, 4001, "The wallet refused the call.", None),
        ({"error": {"code": -32000, "message": "no funds"}}, -32000, "no funds", None),
        ({"error": {"code": 3, "message": "reverted", "data": "0x08c3"}}, 3, "reverted", "0x08c3"),
        ({"error": {}}, 4001, "The wallet answered with an error.", None),
        ({"error": {"code": "x", "message": 7}}, 4001, "7", None),
    ],
)
def test_errors_are_read_in_every_form(content: Any, code: int, message: str, data: Any) -> None:
    with pytest.raises(CallFailedError) as failure:
        read_result(content)
    assert (failure.value.code, failure.value.message, failure.value.data) == (code, message, data)


def scope(*chains: str, methods: Any = ("personal_sign",), events: Any = ("chainChanged",)) -> dict[str, Any]:
    return {"chains": list(chains), "methods": list(methods), "events": list(events)}


def test_an_address_is_approved_on_the_chain_and_on_the_chains_that_the_dapp_requires() -> None:
    proposal = {
        "requiredNamespaces": {"eip155": scope("eip155:10")},
        "optionalNamespaces": {"eip155": scope("eip155:5", methods=["eth_sign"], events=[])},
    }
    assert approved(proposal, [ACCOUNT], 1) == {
        "eip155": {
            "chains": ["eip155:1", "eip155:10"],
            "accounts": [f"eip155:1:{ACCOUNT}", f"eip155:10:{ACCOUNT}"],
            "methods": ["personal_sign", "eth_sign"],
            "events": ["chainChanged"],
        }
    }


def test_an_account_may_name_its_chain() -> None:
    accounts = [f"eip155:137:{ACCOUNT}", f"{SOLANA}:7S3P4HxJpyyigGzodYwHtCxZyUQe9JiBMHyRWXArAaKv"]
    proposal = {"optionalNamespaces": {"eip155:137": scope(), "solana": scope(SOLANA, methods=["signAll"])}}
    given = approved(proposal, accounts, 1)
    assert given["eip155"]["chains"] == ["eip155:137"]
    assert given["eip155"]["accounts"] == accounts[:1]
    assert (given["solana"]["accounts"], given["solana"]["methods"]) == (accounts[1:], ["signAll"])


@each_row("wrong", [None, [], {"eip155": []}, {"eip155": {"methods": "all", "chains": [1]}}])
def test_a_faulty_namespace_in_a_proposal_is_skipped(wrong: Any) -> None:
    given = approved({"requiredNamespaces": wrong, "optionalNamespaces": wrong}, [ACCOUNT], 1)
    scope = {"chains": ["eip155:1"], "accounts": [f"eip155:1:{ACCOUNT}"], "methods": [], "events": []}
    assert given["eip155"] == scope


def test_an_approval_has_each_address_once_and_the_first_chain_of_ethereum_if_any() -> None:
    ids = [f"eip155:10:{ACCOUNT}", f"eip155:1:{ACCOUNT}", f"eip155:1:{OTHER}"]
    approval = read_namespaces({"namespaces": {"eip155": {"accounts": ids, "methods": [], "events": []}}})
    elsewhere = {"solana": {"accounts": [f"{SOLANA}:key"], "methods": [], "events": []}}
    assert (approval.accounts, approval.chain_id) == ((ACCOUNT, OTHER), 10)
    assert approval.namespaces["eip155"]["accounts"] == ids
    assert read_namespaces({"namespaces": elsewhere}).chain_id is None


def test_a_dapp_asks_for_sound_namespaces_as_they_are() -> None:
    wrong: list[Any] = [
        {}, {"eip155": scope("1")}, {"eip155": scope()}, {"e": scope("eip155:1")}, {"eip155": "eip155:1"},
        {"eip155": scope("eip155:1", methods=[1])}, {"eip155": {"chains": ["eip155:1"], "events": []}},
    ]  # fmt: skip
    for namespaces in wrong:
        with pytest.raises(ValueError, match="must"):
            Dapp("https://relay.example", name="Example Dapp", generation="2.x", namespaces=namespaces)
    sound: list[Any] = [ETHEREUM, {"eip155:10": {"methods": [], "events": []}}]
    for namespaces in sound:
        assert sound_proposal(namespaces) == namespaces


def test_a_call_is_for_the_first_chain() -> None:
    assert first_chain(ETHEREUM) == "eip155:1"
    assert first_chain({"eip155:10": {}}) == "eip155:10"
    assert (
        first_chain({"eip155": {"chains": ["eip155:1"], "accounts": [f"eip155:5:{ACCOUNT}"]}}) == "eip155:5"
    )


def test_a_session_allows_the_methods_of_a_namespace_on_the_chains_of_its_accounts() -> None:
    given = approved({"optionalNamespaces": {"eip155": scope("eip155:1")}}, [ACCOUNT], 1)
    assert allows_call(given, "eip155:1", "personal_sign")
    assert not allows_call(given, "eip155:1", "eth_sign")
    assert not allows_call(given, "eip155:10", "personal_sign")
    assert not allows_call(given, "eip155", "personal_sign")
