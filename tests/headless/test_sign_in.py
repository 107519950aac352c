"""Dapps of generation 2.x that ask a headless wallet to sign in: the rules decide it as a call."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from bridge_server.kit.client import Authentication, BadPayloadError, CallFailedError, Dapp, RejectedError
from bridge_server.kit.headless import CallState, HeadlessWallet, SessionState
from bridge_server.kit.headless.keys import AUTHENTICATE
from tests.headless.dapps import BRISK, FIRST, HELLO, NAMESPACES, PAGE, SECOND
from tests.support.rows import each_row
from tests.support.server import RunningServer

pytestmark = pytest.mark.parametrize("one_click", [False, True], ids=["proposal", "one click"])
CHAIN = "eip155:31337"


@asynccontextmanager
async def dapp_that_asks(relay: RunningServer, one_click: bool) -> AsyncIterator[Dapp]:
    authentication = Authentication(
        "dapp.example", f"{PAGE}/login", (CHAIN,), statement="Hello.", methods=("personal_sign",)
    )
    namespaces = {**NAMESPACES["eip155"], "methods": ["personal_sign", AUTHENTICATE]}
    asked: dict[str, Any] = {"namespaces": {"eip155": namespaces}, "authentication": authentication}
    about: dict[str, Any] = {"name": "Example Dapp", "url": PAGE, "generation": "2.x", "pace": BRISK}
    async with Dapp(relay.url, one_click=one_click, **about, **asked) as dapp:
        yield dapp


async def test_the_wallet_signs_in_with_each_of_its_accounts(relay: RunningServer, one_click: bool) -> None:
    async with HeadlessWallet(2, pace=BRISK) as wallet, dapp_that_asks(relay, one_click) as dapp:
        session = await wallet.pair(dapp.uri, relay_url=relay.url)
        approval = await dapp.approval()
        signature = await dapp.call("personal_sign", [HELLO, SECOND])
        with pytest.raises(CallFailedError) as failure:  # a sign-in is no call of a session
            await dapp.call(AUTHENTICATE, {})
    assert approval.signed_in == (f"{CHAIN}:{FIRST}", f"{CHAIN}:{SECOND}")
    assert (session.dapp.name, signature[:2]) == ("Example Dapp", "0x")
    assert failure.value.code == (3001 if one_click else -32601)
    asked = (AUTHENTICATE, "sign in to dapp.example: Hello.", 31337)
    assert next((call.method, call.text, call.chain_id) for call in wallet.calls) == asked


@each_row(("options", "states"), [
    ({"rules": [f"{AUTHENTICATE}=reject"]}, [CallState.REFUSED]),
    ({"rules": [f"{AUTHENTICATE}@{PAGE}=error:-32000:no"]}, [CallState.REFUSED]),
    ({"policy": "reject"}, [CallState.REFUSED]), ({"session": "reject"}, []),
])  # fmt: skip
async def test_a_sign_in_that_a_rule_or_a_policy_refuses_ends_the_session(
    relay: RunningServer, one_click: bool, options: dict[str, Any], states: list[CallState]
) -> None:
    async with HeadlessWallet(pace=BRISK, **options) as wallet, dapp_that_asks(relay, one_click) as dapp:
        session = await wallet.pair(dapp.uri, relay_url=relay.url)
        with pytest.raises(RejectedError):
            await dapp.approval()
    assert session.state is SessionState.REJECTED
    assert [call.state for call in wallet.calls] == states


async def test_a_sign_in_waits_for_the_test_program(relay: RunningServer, one_click: bool) -> None:
    rules = [f"{AUTHENTICATE}=ask"]
    async with HeadlessWallet(pace=BRISK, rules=rules) as wallet, dapp_that_asks(relay, one_click) as dapp:
        session = await wallet.pair(dapp.uri, relay_url=relay.url)
        assert session.state is SessionState.PROPOSED
        await (await wallet.next_call(AUTHENTICATE, timeout=60)).approve()
        assert (await dapp.approval()).signed_in == (f"{CHAIN}:{FIRST}",)


async def test_a_wallet_that_answers_nonsense_is_found_out(relay: RunningServer, one_click: bool) -> None:
    cacao = '{"h":{"t":"caip122"},"p":{"iss":"did:pkh:eip155:1:0x%s"},"s":{"t":"eip191","s":"0x"}}'
    cacao %= "1" * 40
    async with (
        HeadlessWallet(pace=BRISK, rules=[f"{AUTHENTICATE}=answer:[{cacao}]"]) as wallet,
        dapp_that_asks(relay, one_click) as dapp,
    ):
        if not one_click:
            await wallet.pair(dapp.uri, relay_url=relay.url)
        with pytest.raises(BadPayloadError):
            await (wallet.pair(dapp.uri, relay_url=relay.url) if one_click else dapp.approval())
