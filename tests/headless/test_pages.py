"""Calls of an injected provider (EIP-1193): web pages under the rules of sessions."""

import asyncio
from typing import Any

from bridge_server.kit.headless import SessionState
from bridge_server.kit.testing.fake_node import open_fake_node
from tests.headless.dapps import FIRST, HELLO, PAGE, SECOND
from tests.headless.test_control_api import controlled, events_of
from tests.support.rows import each_row

OTHER_PAGE = "https://other.example"
SIGN = ("personal_sign", [HELLO, FIRST])


async def test_a_page_sees_no_account_and_has_nothing_signed_before_it_is_connected() -> None:
    async with controlled() as (wallet, control):
        accounts = await control.ask("eth_accounts")
        permissions = await control.ask("wallet_getPermissions")
        signed = await control.ask(*SIGN)
        switched = await control.ask("wallet_switchEthereumChain", [{"chainId": "0x1"}])
        chain = await control.ask("eth_chainId")
        network = await control.ask("net_version")
        listed = wallet.sessions

    assert (accounts, permissions) == ({"result": []}, {"result": []})
    assert (signed["error"]["code"], switched["error"]["code"]) == (4100, 4100)
    assert (chain, network) == ({"result": "0x7a69"}, {"result": "31337"})
    assert listed == []


@each_row("method", ["eth_requestAccounts", "wallet_requestPermissions"])
async def test_a_page_that_asks_is_connected_and_its_messages_are_signed(method: str) -> None:
    params: list[Any] = [{"eth_accounts": {}}] if method == "wallet_requestPermissions" else []
    async with controlled() as (wallet, control):
        connected = await control.ask(method, params)
        accounts = await control.ask("eth_accounts")
        signed = await control.ask(*SIGN)
        other = await control.ask(*SIGN, origin=OTHER_PAGE)
        (session,) = wallet.sessions

    expected = [FIRST] if method == "eth_requestAccounts" else connected["result"]
    assert (connected["result"], accounts["result"]) == (expected, [FIRST])
    assert (len(signed["result"]), other["error"]["code"]) == (132, 4100)
    assert (session.generation, session.dapp.name, session.origin) == ("page", "Example", PAGE)


async def test_a_page_is_rejected_and_may_ask_again() -> None:
    async with controlled(session="reject") as (wallet, control):
        answers = [await control.ask("eth_requestAccounts") for _number in range(2)]
        signed = await control.ask(*SIGN)

    assert [answer["error"]["code"] for answer in answers] == [4001, 4001]
    assert signed["error"]["code"] == 4100
    assert wallet.sessions == []


async def test_a_page_waits_for_the_test_to_approve_its_session() -> None:
    async with controlled(session="ask") as (_, control), events_of(control) as events:
        asked = [asyncio.create_task(control.ask("eth_requestAccounts")) for _number in range(2)]
        session = (await anext(events))["session"]
        await control("POST", f"/sessions/{session['id']}/approve")
        answers = await asyncio.gather(*asked)

    assert session["state"] == "proposed"
    assert answers == [{"result": [FIRST]}] * 2


async def test_only_accounts_of_the_session_sign() -> None:
    async with controlled() as (_, control):
        await control.ask("eth_requestAccounts")
        refused = await control.ask("personal_sign", [HELLO, SECOND])
        unreadable = await control.ask("personal_sign", [HELLO])

    assert (refused["error"]["code"], unreadable["error"]["code"]) == (4100, -32602)


async def test_changes_of_the_session_are_events_of_the_provider() -> None:
    async with controlled() as (wallet, control):
        await control.ask("eth_requestAccounts")
        (session,) = wallet.sessions
        async with events_of(control) as events:
            await control("PATCH", f"/sessions/{session.id}", {"accounts": [1, 0], "chain_id": 5})
            await control.ask("wallet_switchEthereumChain", [{"chainId": "0x1"}])
            await control("DELETE", f"/sessions/{session.id}")
            told = [await anext(events) for _number in range(9)]
        after = await control.ask("eth_accounts")

    of_provider = [(event["event"], event["value"], event["origin"]) for event in told if "value" in event]
    assert of_provider == [
        ("chainChanged", "0x5", PAGE),
        ("accountsChanged", [SECOND, FIRST], PAGE),
        ("chainChanged", "0x1", PAGE),
        ("accountsChanged", [], PAGE),
        ("disconnect", {"code": 4900, "message": "The wallet disconnected."}, PAGE),
    ]
    assert after == {"result": []}


async def test_a_page_that_revokes_its_permissions_is_disconnected() -> None:
    async with controlled() as (_, control):
        await control.ask("eth_requestAccounts")
        revoked = await control.ask("wallet_revokePermissions", [{"eth_accounts": {}}])
        assert revoked == {"result": None}
        assert (await control.ask(*SIGN))["error"]["code"] == 4100
        assert await control.ask("eth_requestAccounts") == {"result": [FIRST]}


async def test_a_call_that_hangs_is_over_with_its_session() -> None:
    async with controlled(rules=["personal_sign=hang"]) as (wallet, control):
        await control.ask("eth_requestAccounts")
        (session,) = wallet.sessions
        hanging = asyncio.create_task(control.ask(*SIGN))
        await control("GET", "/calls?state=hanging&wait=10")
        await control("DELETE", f"/sessions/{session.id}")
        answer = await hanging

    assert answer["error"]["code"] == 4900
    assert session.state is SessionState.ENDED
    assert [call.state for call in wallet.calls][-1] == "lost"


async def test_reading_methods_go_to_the_node_and_methods_that_sign_there_never() -> None:
    async with open_fake_node() as node:
        node.results["eth_blockNumber"] = "0x10"
        async with controlled(node_url=node.url) as (_, control):
            read = await control.ask("eth_blockNumber")
            missing = await control.ask("odd_method")
            refused = await control.ask("personal_newAccount", ["secret"])
    async with controlled() as (_, control):
        without = await control.ask("eth_blockNumber")

    assert read == {"result": "0x10"}
    assert (missing["error"]["code"], refused["error"]["code"]) == (-32601, -32601)
    assert (without["error"]["code"], "--node-url" in without["error"]["message"]) == (4900, True)
    assert "personal_newAccount" not in node.methods


async def test_reset_forgets_pages_and_their_calls() -> None:
    async with controlled() as (wallet, control):
        await control.ask("eth_requestAccounts")
        assert await control("POST", "/reset") == (200, {})
        assert (wallet.sessions, wallet.calls) == ([], [])
        assert await control.ask("eth_accounts") == {"result": []}
