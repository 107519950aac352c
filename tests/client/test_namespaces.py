"""Chains, accounts and namespaces of generation 2.x: asked for, approved, read."""

from typing import Any

import pytest

from bridge_server.kit.client import BadPayloadError, Dapp
from bridge_server.kit.client.v2_protocol import (
    ETHEREUM,
    allows_call,
    approved,
    first_chain,
    read_approval,
    sound_proposal,
)
from tests.support.rows import each_row

ACCOUNT = "0x00000000219ab540356cbb839cbe05303d7705fa"
OTHER = "0x5409ed021d9299bf6814279a6a1411a7e866a631"
SOLANA = "solana:4sGjMW1sUnHzSxGspuhpqLDx6wiyjNtZ"


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

    assert given["eip155"] == {
        "chains": ["eip155:1"],
        "accounts": [f"eip155:1:{ACCOUNT}"],
        "methods": [],
        "events": [],
    }


@each_row("accounts", [ACCOUNT, [1], [None]])
def test_accounts_are_a_list_of_addresses(accounts: Any) -> None:
    with pytest.raises(TypeError, match="list of addresses"):
        approved({}, accounts, 1)


def test_an_approval_has_each_address_once_and_the_first_chain_of_ethereum() -> None:
    ids = [f"eip155:10:{ACCOUNT}", f"eip155:1:{ACCOUNT}", f"eip155:1:{OTHER}"]

    approval = read_approval({"namespaces": {"eip155": {"accounts": ids, "methods": [], "events": []}}})

    assert (approval.accounts, approval.chain_id) == ((ACCOUNT, OTHER), 10)
    assert approval.namespaces["eip155"]["accounts"] == ids


def test_an_approval_may_have_no_chain_of_ethereum() -> None:
    accounts = {"accounts": [f"{SOLANA}:key"], "methods": [], "events": []}

    assert read_approval({"namespaces": {"solana": accounts}}).chain_id is None


@each_row(
    "namespaces",
    [
        None,
        {},
        [],
        {"eip155": None},
        {"EIP": {"accounts": [], "methods": [], "events": []}},
        {"eip155": {"accounts": [ACCOUNT], "methods": [], "events": []}},
        {"eip155": {"accounts": "all", "methods": [], "events": []}},
        {"eip155": {"methods": [], "events": []}},
        {"eip155": {"accounts": [], "methods": [1], "events": []}},
        {"eip155": {"accounts": [], "methods": []}},
    ],
)
def test_an_approval_that_cannot_be_read_is_a_bad_payload(namespaces: Any) -> None:
    with pytest.raises(BadPayloadError, match="approval"):
        read_approval({"namespaces": namespaces})


@each_row(
    "namespaces",
    [
        {},
        {"eip155": scope("1")},
        {"eip155": scope()},
        {"eip155": {"methods": [], "events": []}},
        {"e": scope("eip155:1")},
        {"eip155": scope("eip155:1", methods=[1])},
        {"eip155": {"chains": ["eip155:1"], "events": []}},
        {"eip155": "eip155:1"},
    ],
)
def test_a_dapp_asks_for_sound_namespaces(namespaces: Any) -> None:
    with pytest.raises(ValueError, match=r"must"):
        Dapp("https://relay.example", name="Example Dapp", generation="2.x", namespaces=namespaces)


@each_row("namespaces", [ETHEREUM, {"eip155:10": {"methods": [], "events": []}}])
def test_sound_namespaces_are_asked_for_as_they_are(namespaces: Any) -> None:
    assert sound_proposal(namespaces) == namespaces


@each_row(
    ("namespaces", "chain"),
    [
        (ETHEREUM, "eip155:1"),
        ({"eip155:10": {}}, "eip155:10"),
        ({"eip155": {"chains": ["eip155:1"], "accounts": [f"eip155:5:{ACCOUNT}"]}}, "eip155:5"),
    ],
)
def test_a_call_is_for_the_first_chain(namespaces: Any, chain: str) -> None:
    assert first_chain(namespaces) == chain


def test_namespaces_without_a_chain_have_no_first() -> None:
    with pytest.raises(BadPayloadError, match="no chain"):
        first_chain({"eip155": {"accounts": []}})


def test_a_session_allows_the_methods_of_a_namespace_on_the_chains_of_its_accounts() -> None:
    given = approved({"optionalNamespaces": {"eip155": scope("eip155:1")}}, [ACCOUNT], 1)

    assert allows_call(given, "eip155:1", "personal_sign")
    assert not allows_call(given, "eip155:1", "eth_sign")
    assert not allows_call(given, "eip155:10", "personal_sign")
    assert not allows_call(given, "eip155", "personal_sign")
