"""Bridges that refuse, break off, hang, lie, or do not know long polls, and how soon they are asked again.

White-box: the size of an answer that is too large for a client has no setting.
"""

import asyncio
import logging
from dataclasses import replace
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bridge_server.kit import client
from bridge_server.kit.client import Dapp, Pace, Wallet, http
from tests.client.gate import BROKEN, NOT_NOW, losing_the_answer, saying
from tests.client.pairs import ACCOUNT, BRISK, echo_one, next_call, paired
from tests.support.clock import PassTime
from tests.support.rows import each_row
from tests.support.server import RunningServer
from tests.support.waiting import eventually
from tests.support.webhook_receiver import Answer, WebhookReceiver, hang, long_body, reset, status

FAILURES = NOT_NOW | BROKEN
chances = st.floats(0, 1, exclude_max=True)


async def until_failed(caplog: pytest.LogCaptureFixture) -> None:
    """Return once the client has reported another failed attempt.

    The number of requests says less: aiohttp repeats a GET whose connection was closed.
    """
    caplog.clear()
    caplog.set_level(logging.INFO, "bridge_server.kit.client")
    await eventually(lambda: "; again in " in caplog.text)


@each_row(
    ("path", "failure"),
    [*(("", failure) for failure in FAILURES.values()), ("/compat/v0.7", FAILURES["503"])],
    ids=[*FAILURES, "v0.7"],
)
async def test_repeatable_requests_are_retried(gate: WebhookReceiver, path: str, failure: Answer) -> None:
    def fail() -> None:
        gate.script.extend([failure] * 2)

    fail()
    async with (
        Dapp(gate.url(path), name="Example Dapp", pace=BRISK) as dapp,
        Wallet.from_uri(dapp.uri, pace=BRISK) as wallet,
    ):
        fail()
        await wallet.approve([ACCOUNT])
        fail()
        assert (await dapp.approval()).accounts == (ACCOUNT,)
        call_id = await dapp.request("eth_accounts", [])
        fail()
        call = await next_call(wallet)
        fail()
        await wallet.answer(call, [ACCOUNT])
        fail()
        assert await dapp.result(call_id) == [ACCOUNT]
        fail()
        await wallet.end()
    assert not gate.script


async def test_a_call_not_taken_is_sent_again(server: RunningServer, gate: WebhookReceiver) -> None:
    async def pending() -> int:
        async with server.client.get(f"{server.url}/session/{wallet.pairing.session_id}/calls") as response:
            return len(await response.json())

    async with paired(gate.url(""), server.url) as (dapp, wallet):
        gate.script.extend(NOT_NOW.values())
        await dapp.request("eth_sendTransaction", [])
        assert not gate.script
        assert await pending() == 1
        for failure in (*BROKEN.values(), losing_the_answer(gate.otherwise)):
            gate.script.append(failure)
            with pytest.raises(client.BridgeUnreachableError, match="may have taken"):
                await dapp.call("eth_sendTransaction", [])
        assert await pending() == 2


@pytest.mark.parametrize("failure", ["503", "429", "500", "broken off"])
async def test_a_bridge_that_keeps_failing_is_unreachable(
    gate: WebhookReceiver, failure: str, caplog: pytest.LogCaptureFixture, pass_time: PassTime
) -> None:
    async with paired(gate.url("")) as (dapp, wallet):
        gate.otherwise = FAILURES[failure]
        for attempt in (dapp.approval(timeout=60), dapp.result("call", timeout=60), wallet.reject()):
            attempting = asyncio.create_task(attempt)
            await until_failed(caplog)
            await pass_time(60)
            with pytest.raises(client.BridgeUnreachableError, match=gate.url("")):
                await attempting


async def test_a_bridge_that_says_nothing_is_unreachable(gate: WebhookReceiver, pass_time: PassTime) -> None:
    patient = replace(BRISK, attempt_seconds=3_600)
    hasty = replace(BRISK, attempt_seconds=0.03)
    async with (
        paired(gate.url(""), pace=patient) as (dapp, wallet),
        Wallet(dapp.pairing, pace=hasty) as other,
    ):
        gate.otherwise = hang
        for work, requests, reason in (
            (other.reject(), 2, r"no answer within 0\.03 s"),
            (wallet.reject(), 1, r"within 60(\.0)? s"),
            (wallet.end(), 1, r"within 60(\.0)? s"),
            (dapp.request("eth_accounts", [], timeout=60), 1, r"within 60(\.0)? s"),
        ):
            asked = len(gate.requests)
            attempt: asyncio.Task[Any] = asyncio.create_task(work)
            await gate.got(asked + requests)
            await pass_time(60)
            with pytest.raises(client.BridgeUnreachableError, match=reason):
                await attempt


async def test_a_bridge_that_is_back_is_not_unreachable(gate: WebhookReceiver, pass_time: PassTime) -> None:
    async with Dapp(gate.url(""), name="Example Dapp", pace=BRISK) as dapp:
        asked = len(gate.requests)
        gate.script.extend([reset, status(503)])
        waiting = asyncio.create_task(dapp.approval(timeout=60))
        await gate.got(asked + 4)  # the third was answered
        await pass_time(60)
        with pytest.raises(client.AnswerTimeoutError):
            await waiting


async def test_a_bridge_that_asks_for_an_hour_is_left_alone(
    gate: WebhookReceiver, caplog: pytest.LogCaptureFixture, pass_time: PassTime
) -> None:
    async with paired(gate.url("")) as (dapp, wallet):
        gate.otherwise = status(429, Retry_After="3600")
        asked = len(gate.requests)
        waiting = asyncio.create_task(dapp.approval(timeout=60))
        await until_failed(caplog)
        await pass_time(60)
        with pytest.raises(client.BridgeUnreachableError, match="429"):
            await waiting
        with pytest.raises(client.RequestRefusedError, match="429") as refusal:
            await wallet.reject()
    assert refusal.value.retry_after_seconds == 3_600
    assert len(gate.requests) == asked + 2


async def test_an_old_bridge_that_answers_at_once_is_asked_again_after_a_pause(gate: WebhookReceiver) -> None:
    async with paired(gate.url("")) as (dapp, wallet):
        asked = len(gate.requests)
        gate.script.extend([status(204)] * 3)
        await dapp.approval()
        gate.script.extend([saying(b"{}"), saying(b'{"data": {}}'), status(204)])
        waiting = asyncio.create_task(next_call(wallet))
        await gate.got(asked + 7)
        call_id = await dapp.request("eth_accounts", [])
        await echo_one(wallet, await waiting)
        gate.script.extend([status(204)] * 3)
        assert await dapp.result(call_id) == ["eth_accounts", []]
    assert {request.headers["Prefer"] for request in gate.requests[asked : asked + 7]} == {"wait=25"}


async def test_a_bridge_is_not_asked_more_often_than_every_pause(gate: WebhookReceiver) -> None:
    unhurried = replace(BRISK, pause_seconds=3_600.0)
    async with paired(gate.url(""), pace=unhurried) as (dapp, wallet):
        asked, passing = len(gate.requests), gate.otherwise
        gate.otherwise = saying(b"{}")
        waiting: list[asyncio.Task[Any]] = [asyncio.create_task(next_call(wallet))]
        await gate.got(asked + 1)
        gate.otherwise = status(204)
        waiting.append(asyncio.create_task(dapp.approval(timeout=60)))
        await gate.got(asked + 2)
        gate.otherwise = passing
        for _ in range(3):  # a poll without a pause would come before them
            await dapp.request("eth_accounts", [])

        assert not any(each.done() for each in waiting)
        for each in waiting:
            each.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
    assert len(gate.requests) == asked + 5


async def test_two_loops_of_one_wallet_look_together(server: RunningServer, gate: WebhookReceiver) -> None:
    async with paired(server.url, gate.url("")) as (dapp, wallet):
        asked = len(gate.requests)
        gate.script.append(hang)
        first, second = (asyncio.create_task(next_call(wallet)) for _ in range(2))
        await gate.got(asked + 1)
        call_ids = [await dapp.request("eth_accounts", []) for _ in range(2)]
        requests_meanwhile = len(gate.requests) - asked
        gate.released.set()
        assert requests_meanwhile == 1
        assert {(await first).call_id, (await second).call_id} == set(call_ids)


async def test_a_server_that_is_not_a_bridge_is_reported(gate: WebhookReceiver) -> None:
    calls: list[Any] = [{"id": 7}, {"id": {}}, {"data": {"id": "text"}}]
    async with paired(gate.url("")) as (dapp, wallet):
        for call in calls:
            gate.script.append(saying(orjson.dumps(call)))
            with pytest.raises(client.BadAnswerError):
                await next_call(wallet)
        gate.otherwise = saying(b'{"sessionId": "../admin"}')
        with pytest.raises(client.BadAnswerError):
            await Dapp(gate.url(""), name="Example Dapp").__aenter__()
        for body in (b"<html>", b"[]", b"{}", b'{"data": 7}', b'{"callId": 7}', b"\xff"):
            gate.otherwise = saying(body)
            entering = Dapp(gate.url(""), name="Example Dapp").__aenter__()
            for use in (dapp.approval(), dapp.request("eth_accounts", []), wallet.call("call"), entering):
                with pytest.raises(client.BadAnswerError, match="Is the URL that of a bridge"):
                    await use


@each_row(
    ("answer", "reason"),
    [
        *((saying(body, status=403), "403: Forbidden") for body in (b"not JSON", b"[]", b'{"title": "t"}')),
        (status(301, Location="https://bridge.example/"), r"moved to https://bridge\.example/"),
    ],
)
async def test_a_plain_refusal_has_its_reason(gate: WebhookReceiver, answer: Answer, reason: str) -> None:
    gate.otherwise = answer
    with pytest.raises(client.RequestRefusedError, match=reason):
        await Dapp(gate.url(""), name="Example Dapp").__aenter__()


async def test_an_endless_answer_is_ended(gate: WebhookReceiver, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http, "_LARGEST_ANSWER_BYTES", 100_000)
    async with paired(gate.url("")) as (dapp, _):
        gate.otherwise = long_body(1_000_000_000)
        with pytest.raises(client.BridgeUnreachableError, match="too large"):
            await dapp.call("eth_accounts", [])


async def test_a_refusal_that_cannot_be_delivered_ends_no_loop(
    server: RunningServer, gate: WebhookReceiver, caplog: pytest.LogCaptureFixture
) -> None:
    async with paired(server.url, gate.url("")) as (dapp, wallet):
        await server.request_call(wallet.pairing.session_id, "unreadable")
        call_id = await dapp.request("eth_accounts", [])
        gate.script.extend([gate.otherwise, status(403)])
        assert (await next_call(wallet)).call_id == call_id
    assert "could not be refused: The bridge answered 403" in caplog.text


@given(st.integers(1, 100_000), chances, st.floats(0, 3_600))
def test_retries_slow_down_to_a_limit(failures: int, chance: float, asked_seconds: float) -> None:
    pace = Pace(first_retry_seconds=0.25, longest_retry_seconds=15.0)
    planned = min(0.25 * 2 ** min(failures - 1, 20), 15.0)
    assert planned / 2 <= pace.retry_seconds(failures, chance) <= planned
    assert Pace().retry_seconds(failures, chance, asked_seconds) >= asked_seconds
    assert Pace().retry_seconds(1, chance, 1e9) < 3_601
