"""Signing leaves room for others: one call at each turn of the event loop, the rest in their order."""

import asyncio
from collections.abc import Callable
from itertools import pairwise

import pytest

from bridge_server.wallet.rpc import routes
from bridge_server.wallet.rpc.routes import BatchTurns, SigningTurns
from tests.support.rows import each_row


def somebody_waits() -> bool:
    return True


def nobody_waits() -> bool:
    return False


def nobody_works() -> bool:
    return False


def somebody_works() -> bool:
    return True


async def turned(times: int = 1) -> None:
    """Let the event loop turn."""
    for _ in range(times):
        await asyncio.sleep(0)


async def pass_through(turns: SigningTurns) -> None:
    """Take a turn as a call does."""
    turn = turns.take()
    if turn is not None:
        await turn


async def test_a_single_call_passes_at_once() -> None:
    turns = SigningTurns(somebody_waits, nobody_works)

    first, second = turns.take(), turns.take()

    assert first is None
    assert second is not None


async def test_all_calls_pass_at_once_while_no_other_request_waits() -> None:
    turns = SigningTurns(nobody_waits, nobody_works)

    assert [turns.take() for _ in range(8)] == [None] * 8


async def test_the_next_turn_lets_another_call_pass() -> None:
    turns = SigningTurns(somebody_waits, nobody_works)
    turns.take()

    await turned()

    assert turns.take() is None


async def test_waiting_calls_pass_in_order_one_in_each_turn() -> None:
    turns = SigningTurns(somebody_waits, nobody_works)
    passed: list[int] = []

    async def call(number: int) -> None:
        await pass_through(turns)
        passed.append(number)

    calls = [asyncio.ensure_future(call(number)) for number in range(8)]
    passed_by_turn = [0]
    while len(passed) < len(calls):
        await turned()
        passed_by_turn.append(len(passed))

    assert passed == list(range(len(calls)))
    assert all(after - before <= 1 for before, after in pairwise(passed_by_turn))
    await asyncio.gather(*calls)


async def test_a_new_call_does_not_overtake_waiting_ones() -> None:
    turns = SigningTurns(somebody_waits, nobody_works)
    waiting = [turns.take() for _ in range(5)]
    await turned()

    late = turns.take()

    assert late is not None
    await late
    assert all(turn is None or turn.done() for turn in waiting)


async def test_a_client_that_left_costs_no_turn() -> None:
    turns = SigningTurns(somebody_waits, nobody_works)
    left = [turn for turn in (turns.take() for _ in range(50)) if turn is not None]
    stayed = turns.take()
    for turn in left:
        turn.cancel()

    await turned(2)

    assert stayed is not None
    assert stayed.done()


@each_row("others_wait", [somebody_waits, nobody_waits])
async def test_a_batch_lets_the_event_loop_turn_before_it_ends(others_wait: Callable[[], bool]) -> None:
    batch = BatchTurns(SigningTurns(others_wait, nobody_works))
    others = asyncio.ensure_future(turned(3))

    while not others.done():
        await batch.next()


async def test_turns_have_pauses_while_threads_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(routes, "_SECONDS_APART", 3600)
    turns = SigningTurns(somebody_waits, somebody_works)
    turns.take()
    turn = turns.take()

    await turned(5)

    assert turn is not None
    assert not turn.done()


async def test_calls_pass_while_threads_work() -> None:
    turns = SigningTurns(somebody_waits, somebody_works)

    await asyncio.gather(*(pass_through(turns) for _ in range(5)))
