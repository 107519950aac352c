"""A dapp of each generation opposite a headless wallet: every rule."""

import asyncio
from typing import Any

import pytest

from bridge_server.ethereum.signing_key import personal_message_hash, recover_address
from bridge_server.kit.client import (
    AnswerTimeoutError,
    CallFailedError,
    Dapp,
    Generation,
    RejectedError,
    SessionEndedError,
)
from bridge_server.kit.headless import CallState, HeadlessWallet, SessionState
from tests.headless.dapps import BRISK, FIRST, HELLO, SECOND, paired
from tests.support.eventually import eventually
from tests.support.server import RunningServer

PAYMENT = {"from": FIRST, "to": SECOND, "value": hex(10**18)}


async def sign(dapp: Dapp) -> Any:
    """The wallet's signature of `hello`, or what a rule answers instead."""
    return await dapp.call("personal_sign", [HELLO, FIRST], timeout=60)


async def test_a_message_is_signed_with_the_first_development_account(
    relay: RunningServer, generation: Generation
) -> None:
    async with HeadlessWallet(pace=BRISK) as wallet, paired(wallet, relay.url, generation) as (dapp, session):
        approval = await dapp.approval()
        signature = await sign(dapp)

    assert (approval.accounts, approval.chain_id) == ((FIRST,), 31337)
    assert (session.generation, session.dapp.name) == (generation, "Example Dapp")
    digest = personal_message_hash(b"hello")
    assert recover_address(digest, bytes.fromhex(signature[2:])) == FIRST
    assert [(call.method, call.text, call.state) for call in wallet.calls] == [
        ("personal_sign", "hello", CallState.ANSWERED)
    ]


async def test_a_rule_of_a_method_rejects_and_leaves_other_methods_alone(
    relay: RunningServer, generation: Generation
) -> None:
    async with HeadlessWallet(pace=BRISK) as wallet, paired(wallet, relay.url, generation) as (dapp, _):
        wallet.on("eth_sendTransaction").reject()
        with pytest.raises(CallFailedError) as refusal:
            await dapp.call("eth_sendTransaction", [PAYMENT])
        assert await sign(dapp)

    assert (refusal.value.code, refusal.value.message) == (4001, "The user rejected the request.")
    assert [call.text for call in wallet.calls] == ["1 ether → 0x7099…79C8", "hello"]


async def test_each_action_answers_as_it_says(relay: RunningServer, generation: Generation) -> None:
    rules = [
        'personal_sign=reject:4001:"not today"*1',
        'personal_sign=error:-32000:"out of order"*1',
        'personal_sign=answer:"0xfeed"*1',
        "personal_sign=delay:10ms",
        "personal_sign=approve*1",
        'personal_sign=answer:[1,{"a":null}]',
    ]
    async with (
        HeadlessWallet(pace=BRISK, rules=rules) as wallet,
        paired(wallet, relay.url, generation) as (dapp, _),
    ):
        failures = []
        for _number in range(2):
            with pytest.raises(CallFailedError) as failure:
                await sign(dapp)
            failures.append((failure.value.code, failure.value.message))
        answers = [await sign(dapp) for _number in range(3)]

    assert failures == [(4001, "not today"), (-32000, "out of order")]
    assert answers[0] == "0xfeed"
    assert len(answers[1]) == 132
    assert answers[2] == [1, {"a": None}]


async def test_a_call_that_hangs_is_never_answered(relay: RunningServer, generation: Generation) -> None:
    async with HeadlessWallet(pace=BRISK) as wallet, paired(wallet, relay.url, generation) as (dapp, _):
        wallet.on("personal_sign").hang().times(1)
        hanging = asyncio.create_task(sign(dapp))
        await wallet.call_log.wait_for("hanging", None, 10)
        assert await sign(dapp)
        assert not hanging.done()
        hanging.cancel()


async def test_a_call_that_asks_is_answered_by_the_test(relay: RunningServer, generation: Generation) -> None:
    async with (
        HeadlessWallet(policy="ask", pace=BRISK) as wallet,
        paired(wallet, relay.url, generation) as (dapp, _),
    ):
        signed, refused, answered = [asyncio.create_task(sign(dapp)) for _number in range(3)]
        for _number in range(3):
            call = await wallet.next_call("personal_sign")
            assert call.text == "hello"
            match _number:
                case 0:
                    await call.approve()
                case 1:
                    await call.reject()
                case _:
                    await call.answer("0x00")
        results = await asyncio.gather(signed, refused, answered, return_exceptions=True)

    kinds = sorted(type(result).__name__ for result in results)
    assert kinds == ["CallFailedError", "str", "str"]
    assert sorted(call.state for call in wallet.calls) == ["answered", "answered", "refused"]


async def test_a_session_is_rejected_and_nothing_is_signed(
    relay: RunningServer, generation: Generation
) -> None:
    async with (
        HeadlessWallet(session="reject", pace=BRISK) as wallet,
        paired(wallet, relay.url, generation) as (dapp, session),
    ):
        with pytest.raises((RejectedError, SessionEndedError)):
            await dapp.approval(timeout=10)

    assert session.state is SessionState.REJECTED
    assert wallet.calls == []


async def test_calls_made_before_the_wallet_has_approved_the_session_are_not_signed(
    relay: RunningServer,
) -> None:
    async with (
        HeadlessWallet(session="ask", pace=BRISK) as wallet,
        paired(wallet, relay.url, "plain") as (dapp, first),
        paired(wallet, relay.url, "plain") as (other_dapp, second),
    ):
        early = asyncio.create_task(sign(dapp))
        too_early = await other_dapp.request("personal_sign", [HELLO, FIRST])
        assert wallet.calls == []
        await second.reject()
        await second.wait_until_over()
        await first.approve()
        assert await early
        with pytest.raises(AnswerTimeoutError):
            await other_dapp.result(too_early, timeout=0.2)

    assert [call.session for call in wallet.calls] == [first]


async def test_the_wallet_changes_account_and_chain_and_leaves(
    relay: RunningServer, generation: Generation
) -> None:
    async with HeadlessWallet(pace=BRISK) as wallet, paired(wallet, relay.url, generation) as (dapp, session):
        await dapp.approval()
        await session.switch_account(1)
        await session.switch_chain(1)
        changed = await _approval_on_chain(dapp, 1)
        await session.disconnect()
        with pytest.raises(SessionEndedError):
            await sign(dapp)

    assert SECOND in changed
    assert (session.state, session.ended_by) == (SessionState.ENDED, "wallet")


async def _approval_on_chain(dapp: Dapp, chain_id: int) -> tuple[str, ...]:
    async def is_there() -> bool:
        return (await dapp.approval()).chain_id == chain_id

    await eventually(is_there)
    return (await dapp.approval()).accounts


async def test_the_dapp_ends_the_session(relay: RunningServer, generation: Generation) -> None:
    async with HeadlessWallet(pace=BRISK) as wallet, paired(wallet, relay.url, generation) as (dapp, session):
        await dapp.approval()
        await dapp.end()
        async with asyncio.timeout(60):
            await session.wait_until_over()

    assert (session.state, session.ended_by) == (SessionState.ENDED, "dapp")
