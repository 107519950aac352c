"""Sessions over a WebSocket, of generations 1.x and 2.x: Python on both sides."""

import asyncio
from contextlib import AsyncExitStack, suppress
from typing import Any

import pytest

from bridge_server.kit.client import (
    AnswerTimeoutError,
    Approval,
    CallExpiredError,
    CallFailedError,
    Generation,
    Push,
    RejectedError,
    SessionEndedError,
    UnsupportedError,
)
from tests.client.pairs import ACCOUNT, echo_one, echoing, next_call
from tests.client.socket_pairs import dapp_at, paired_over, wallet_for
from tests.support.rows import each_row
from tests.support.server import RunningServer

OTHER = "0x5409ed021d9299bf6814279a6a1411a7e866a631"


@pytest.fixture(params=["1.x", "2.x"])
def generation(request: pytest.FixtureRequest) -> Generation:
    """Each generation over a WebSocket."""
    chosen: Generation = request.param
    return chosen


async def test_a_wallet_sees_who_asks_and_the_dapp_sees_the_approval(
    relay: RunningServer, generation: Generation
) -> None:
    async with dapp_at(relay.url, generation) as dapp, wallet_for(dapp, relay.url) as wallet:
        proposal = await wallet.proposal()
        await wallet.approve([ACCOUNT, OTHER], chain_id=5)

        assert (proposal.name, proposal.url) == ("Example Dapp", "https://dapp.example")
        assert await dapp.approval() == Approval((ACCOUNT, OTHER), 5, {})


async def test_a_wallet_may_reject_a_session(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp, wallet_for(dapp, relay.url) as wallet:
        await wallet.reject()

        with pytest.raises(RejectedError, match="ejected"):
            await dapp.approval()
        with pytest.raises(RejectedError):
            await dapp.call("eth_accounts", [])
        assert [call async for call in wallet.calls()] == []


async def test_several_calls_at_once_each_have_their_own_result(
    relay: RunningServer, generation: Generation
) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet), echoing(wallet):
        results = await asyncio.gather(*(dapp.call("eth_sign", [number]) for number in range(20)))

    assert results == [["eth_sign", [number]] for number in range(20)]


async def test_calls_may_be_answered_in_another_order(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        first, second = await dapp.request("eth_sign", [1]), await dapp.request("eth_sign", [2])
        calls = wallet.calls()
        told = [await anext(calls), await anext(calls)]
        await echo_one(wallet, told[1])

        assert [call.call_id for call in told] == [first, second]
        assert await wallet.call(first) == told[0]
        assert await dapp.result(second) == ["eth_sign", [2]]
        await echo_one(wallet, told[0])
        assert await dapp.result(first) == ["eth_sign", [1]]
        assert await dapp.result(first) == ["eth_sign", [1]]


@each_row("result", [None, "", 0, False, [], {"nested": [1.5, "ü😀"]}])
async def test_every_json_value_is_a_result(
    relay: RunningServer, generation: Generation, result: Any
) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        call_id = await dapp.request("eth_accounts", {"by": "name"})
        call = await next_call(wallet)
        await wallet.answer(call, result)

        assert call.params == {"by": "name"}
        assert await dapp.result(call_id) == result


async def test_a_call_of_100_kib_is_answered(relay: RunningServer, generation: Generation) -> None:
    large = "x" * 75 * 1024  # encrypted, 1.x spells a byte with two characters

    async with paired_over(relay.url, generation) as (dapp, wallet), echoing(wallet):
        assert await dapp.call("eth_sign", [large]) == ["eth_sign", [large]]


async def test_a_refusal_has_its_code_and_its_text(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet), echoing(wallet):
        with pytest.raises(CallFailedError, match="The user rejected the request") as refusal:
            await dapp.call("no", [])

    assert refusal.value.code == 4001


async def test_a_call_waits_for_the_approval(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp, wallet_for(dapp, relay.url) as wallet:
        asked = asyncio.create_task(dapp.call("eth_accounts", []))
        await wallet.approve([ACCOUNT])
        async with echoing(wallet):
            assert await asked == ["eth_accounts", []]


async def test_two_loops_of_a_wallet_share_its_calls(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet), echoing(wallet, wallet):
        results = await asyncio.gather(*(dapp.call("eth_sign", [number]) for number in range(6)))

    assert results == [["eth_sign", [number]] for number in range(6)]


async def test_a_wallet_updates_its_accounts_and_chain(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        await wallet.approve([OTHER], chain_id=100)
        updated = await anext(dapp.updates())

        assert updated == Approval((OTHER,), 100, {})
        assert await dapp.approval() == updated
        async with echoing(wallet):
            assert await dapp.call("eth_accounts", []) == ["eth_accounts", []]


async def test_a_session_that_the_dapp_ends_is_over_for_both(
    relay: RunningServer, generation: Generation
) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        call_id = await dapp.request("eth_sign", [])
        call = await next_call(wallet)
        await dapp.end()

        assert [call async for call in wallet.calls()] == []
        for use in (wallet.answer(call, ""), wallet.approve([ACCOUNT]), dapp.call("eth_sign", [])):
            with pytest.raises(SessionEndedError):
                await use
        with pytest.raises(SessionEndedError):
            await dapp.result(call_id)
        await wallet.end()
        await dapp.end()


async def test_a_session_that_the_wallet_ends_is_over_for_both(
    relay: RunningServer, generation: Generation
) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        waiting = asyncio.create_task(dapp.call("eth_sign", []))
        await next_call(wallet)
        await wallet.end()

        with pytest.raises(SessionEndedError, match="ended the session"):
            await waiting
        with pytest.raises(SessionEndedError):
            await dapp.approval()
        assert [update async for update in dapp.updates()] == []


async def test_a_dapp_may_leave_before_a_wallet_has_come(
    relay: RunningServer, generation: Generation
) -> None:
    async with dapp_at(relay.url, generation) as dapp:
        await dapp.end()

        with pytest.raises(SessionEndedError, match="This side"):
            await dapp.approval()


async def test_an_answer_that_takes_too_long_is_an_answer_timeout(
    relay: RunningServer, generation: Generation
) -> None:
    async with dapp_at(relay.url, generation) as dapp:
        with pytest.raises(AnswerTimeoutError, match="did not answer"):
            await dapp.approval(timeout=0.01)
    async with paired_over(relay.url, generation) as (dapp, _):
        call_id = await dapp.request("eth_sign", [])
        with pytest.raises(AnswerTimeoutError, match=call_id):
            await dapp.result(call_id, timeout=0.01)
        with pytest.raises(AnswerTimeoutError, match="call of eth_sign"):
            await dapp.call("eth_sign", [], timeout=0.1)


async def test_a_cancelled_call_leaves_the_session_usable(
    relay: RunningServer, generation: Generation
) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        cancelled = asyncio.create_task(dapp.call("eth_sign", [1]))
        await next_call(wallet)
        cancelled.cancel()
        with suppress(asyncio.CancelledError):
            await cancelled
        async with echoing(wallet):
            assert await dapp.call("eth_sign", [2]) == ["eth_sign", [2]]


async def test_calls_that_nobody_asked_have_no_result(relay: RunningServer, generation: Generation) -> None:
    async with paired_over(relay.url, generation) as (dapp, wallet):
        with pytest.raises(CallExpiredError, match="asked no call"):
            await dapp.result("1")
        with pytest.raises(CallExpiredError, match="No call 1"):
            await wallet.call("1")


async def test_accounts_are_a_list_of_addresses(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp, wallet_for(dapp, relay.url) as wallet:
        wrong: Any = [ACCOUNT, 1]
        for accounts in (ACCOUNT, wrong):
            with pytest.raises(TypeError, match="list of addresses"):
                await wallet.approve(accounts)
        await wallet.approve([ACCOUNT])
        assert (await dapp.approval()).accounts == (ACCOUNT,)


async def test_a_webhook_is_registered_elsewhere(relay: RunningServer, generation: Generation) -> None:
    async with dapp_at(relay.url, generation) as dapp, wallet_for(dapp, relay.url) as wallet:
        with pytest.raises(UnsupportedError, match="POST /subscribe"):
            await wallet.approve([ACCOUNT], push=Push("fcm", "token", "https://push.example"))


async def test_twelve_pairs_at_once_do_not_mix(relay: RunningServer, generation: Generation) -> None:
    async with AsyncExitStack() as stack:
        pairs = [await stack.enter_async_context(paired_over(relay.url, generation)) for _ in range(12)]
        await stack.enter_async_context(echoing(*(wallet for _, wallet in pairs)))
        calls = [dapp.call("eth_sign", [number]) for number, (dapp, _) in enumerate(pairs)]

        assert await asyncio.gather(*calls) == [["eth_sign", [number]] for number in range(12)]
