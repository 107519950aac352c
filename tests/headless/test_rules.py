"""Rules: how they are spelled, which of them decides, and what dapps of every generation then see."""

import asyncio
from typing import Any

import pytest

from bridge_server.kit.client import (
    AnswerTimeoutError,
    CallFailedError,
    Dapp,
    Generation,
    RejectedError,
    SessionEndedError,
)
from bridge_server.kit.headless import HeadlessCall, HeadlessWallet, RuleError, SessionState, read_rule
from bridge_server.kit.headless.sessions import Action, Answer, Approve, Ask, Hang, Refuse
from tests.headless.dapps import BRISK, SIGN, paired
from tests.support.rows import each_row
from tests.support.server import RunningServer


@each_row(("text", "action", "delay_seconds", "times"), [
    ("m=approve", Approve(), 0, None),
    ("m=reject", Refuse(4001, "The user rejected the request."), 0, None),
    ("m=reject:5000:not now", Refuse(5000, "not now"), 0, None),
    ('m=error:-32000:"a: b"', Refuse(-32000, "a: b"), 0, None),
    ("m=hang", Hang(), 0, None), ("m=ask", Ask(), 0, None), ("m=delay:2s", None, 2.0, None),
    ("m=delay:250ms", None, 0.25, None), ("m=approve*3", Approve(), 0, 3),
    ('m=answer:"2*3"', Answer("2*3"), 0, None),
    ('m=answer:{"a":[1,null]}', Answer({"a": [1, None]}), 0, None),
])  # fmt: skip
def test_the_text_of_rules(text: str, action: Action | None, delay_seconds: float, times: int | None) -> None:
    rule = read_rule(text)
    assert (rule.method, rule.origin, rule.text) == ("m", None, text)
    assert (rule.action, rule.delay_seconds, rule.times) == (action, delay_seconds, times)


@each_row("text", [
    "", "=approve", "m", "m=", "m=approve:1", "m=approve*0", "m=answer:", "m=delay", "m=delay:2", "m=error",
    "m=error::x", "m=reject:x", "m m=approve", "m@=approve", "m=*3",
])  # fmt: skip
def test_a_text_that_is_no_rule(text: str) -> None:
    with pytest.raises(RuleError, match="write"):
        read_rule(text)


async def outcomes(wallet: HeadlessWallet, *methods: str, origin: str = "https://dapp.example") -> list[str]:
    """The names of what became of calls of a page, one after the other."""
    found = [await wallet.request(method, [], origin=origin) for method in methods]
    return [str(getattr(each, "value", None) or getattr(each, "code", None)) for each in found]


async def test_the_first_rule_that_matches_decides_until_its_count_is_reached() -> None:
    rules = ["a=answer:1*2", "b=answer:2", "a=answer:3*1", "*=error:-1:x*1", "a=answer:4"]
    async with HeadlessWallet(rules=rules) as wallet:
        assert await outcomes(wallet, *"abaaaa") == ["1", "2", "1", "3", "-1", "4"]
        wallet.on("c").answer(3)
        await wallet.reset()
        assert await outcomes(wallet, "a") == ["1"]
        assert [rule.text for rule in wallet.rules] == rules
        assert len(wallet.calls) == 1


async def test_a_rule_of_an_origin_is_for_its_page_alone() -> None:
    origins = ["https://dapp.example", "other.example:8080", "Named"]
    rules = [f"a@{origin}=answer:{number}" for number, origin in enumerate(origins, 1)]
    pages = ("https://dapp.example", "http://other.example:8080", "Named", "https://other.example", "x://[")
    async with HeadlessWallet(rules=[*rules, "a=answer:4"]) as wallet:
        answered = [await outcomes(wallet, "a", origin=page) for page in pages]
    assert answered == [["1"], ["2"], ["3"], ["4"], ["4"]]


async def test_a_rule_of_python_is_changed_by_each_further_word() -> None:
    def is_second(call: HeadlessCall) -> bool:
        return len(wallet.calls) == 2

    async with HeadlessWallet() as wallet:
        wallet.on("a").when(is_second).answer("second")
        wallet.on("a").delay(0.001).error(-5, "x").times(1)
        wallet.on("a").ask().approve().hang().reject().answer("last")
        wallet.on("b").when(lambda call: bool(1 / 0)).answer(1)
        answers = await outcomes(wallet, "a", "a", "a", "b", "eth_chainId")
        assert answers == ["-5", "second", "last", "-32603", "0x7a69"]
        assert len(list(wallet.rules)) == 4


async def test_a_delay_leaves_the_decision_to_the_next_rule_or_the_policy() -> None:
    async with HeadlessWallet(policy="reject", rules=["a=delay:1ms", "b=delay:1ms", "b=answer:7"]) as wallet:
        assert await outcomes(wallet, "a", "b") == ["4001", "7"]
        assert [call.because for call in wallet.calls] == ["a=delay:1ms", "b=answer:7"]
        harmless = await outcomes(wallet, "eth_chainId", "eth_blockNumber", "odd_method")
        assert harmless == ["0x7a69", "4900", "4001"]


async def test_calls_are_awaited_side_by_side_and_answered_by_what_json_can_say() -> None:
    async with HeadlessWallet(rules=["a=ask"]) as wallet:
        with pytest.raises(TypeError):
            wallet.on("b").answer(object())
        waiting = [asyncio.create_task(outcomes(wallet, "a")) for _number in range(3)]
        for number in range(3):
            call = await wallet.next_call("a", timeout=60)
            with pytest.raises(TypeError):
                await call.answer({1, 2})
            await call.answer(number + 1)
        assert sorted(await asyncio.gather(*waiting)) == [["1"], ["2"], ["3"]]
        with pytest.raises(TimeoutError, match="No call of a waited for a decision within"):
            await wallet.next_call("a", timeout=0.01)


async def sign(dapp: Dapp) -> Any:
    """The wallet's signature of `hello`, or what a rule answers instead."""
    return await dapp.call(*SIGN, timeout=60)


async def test_each_action_answers_as_it_says(relay: RunningServer, generation: Generation) -> None:
    actions = [
        *('reject:4001:"not today"*1', 'error:-32000:"out of order"*1', 'answer:"0xfeed"*1'),
        *("delay:10ms", "approve*1", 'answer:[1,{"a":null}]*1', "hang*1"),
    ]
    rules = [f"personal_sign={action}" for action in actions]
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
        hanging = asyncio.create_task(sign(dapp))
        await wallet.call_log.wait_for("hanging", None, 60)
        assert len(await sign(dapp)) == 132
        assert not hanging.done()
        hanging.cancel()

    assert failures == [(4001, "not today"), (-32000, "out of order")]
    assert (answers[0], len(answers[1]), answers[2]) == ("0xfeed", 132, [1, {"a": None}])


async def test_a_rejected_session_signs_nothing(relay: RunningServer, generation: Generation) -> None:
    async with (
        HeadlessWallet(session="reject", pace=BRISK) as wallet,
        paired(wallet, relay.url, generation) as (dapp, session),
    ):
        with pytest.raises((RejectedError, SessionEndedError)):
            await dapp.approval(timeout=60)
    assert session.state is SessionState.REJECTED
    assert wallet.calls == []


async def test_calls_before_the_approval_of_the_session_are_not_signed(relay: RunningServer) -> None:
    async with (
        HeadlessWallet(session="ask", pace=BRISK) as wallet,
        paired(wallet, relay.url, "plain") as (dapp, first),
        paired(wallet, relay.url, "plain") as (other_dapp, second),
    ):
        early = asyncio.create_task(sign(dapp))
        too_early = await other_dapp.request(*SIGN)
        assert wallet.calls == []
        await second.reject()
        await second.wait_until_over()
        await first.approve()
        assert await early
        with pytest.raises(AnswerTimeoutError):
            await other_dapp.result(too_early, timeout=0.2)

    assert [call.session for call in wallet.calls] == [first]
