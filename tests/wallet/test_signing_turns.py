"""Signing leaves room for others: one call at each turn of the event loop, the rest in their order."""

import asyncio
from itertools import pairwise

import pytest

from bridge_server.wallet import signing_turns
from bridge_server.wallet.signing_turns import BatchTurns, SigningTurns


def nobody_works() -> bool:
    return False


def somebody_works() -> bool:
    return True


async def turned(times: int = 1) -> None:
    """Let the event loop turn."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_one_call_passes_at_once() -> None:
    turns = SigningTurns(nobody_works)

    assert [turns.take() for _ in range(3)] == [True, False, False]


async def test_the_next_turn_lets_another_pass() -> None:
    turns = SigningTurns(nobody_works)
    turns.take()

    await turned()

    assert turns.take()


async def test_those_that_wait_pass_in_their_order_one_at_each_turn() -> None:
    turns = SigningTurns(nobody_works)
    turns.take()
    passed: list[int] = []

    async def call(number: int) -> None:
        await turns.wait()
        passed.append(number)

    calls = [asyncio.ensure_future(call(number)) for number in range(8)]
    passed_by_turn = [0]
    while len(passed) < len(calls):
        await turned()
        passed_by_turn.append(len(passed))

    assert passed == list(range(len(calls)))
    assert all(after - before <= 1 for before, after in pairwise(passed_by_turn))
    await asyncio.gather(*calls)


async def test_nobody_overtakes_those_that_wait() -> None:
    turns = SigningTurns(nobody_works)
    turns.take()
    waiting = [asyncio.ensure_future(turns.wait()) for _ in range(5)]

    for _ in range(5):
        await turned()
        assert not turns.take()

    await asyncio.gather(*waiting)


async def test_a_client_that_left_costs_nobody_a_turn() -> None:
    turns = SigningTurns(nobody_works)
    turns.take()
    left = [asyncio.ensure_future(turns.wait()) for _ in range(50)]
    await turned()
    for task in left:
        task.cancel()
    stayed = asyncio.ensure_future(turns.wait())

    await turned(3)

    assert stayed.done()


async def test_a_batch_lets_the_event_loop_turn_before_it_ends() -> None:
    batch = BatchTurns(SigningTurns(nobody_works))
    others = asyncio.ensure_future(turned(3))

    while not others.done():
        await batch.next()


async def test_while_others_work_turns_are_kept_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signing_turns, "_SECONDS_APART", 3600)
    turns = SigningTurns(somebody_works)
    turns.take()

    await turned(5)

    assert not turns.take()


async def test_while_others_work_calls_pass_all_the_same() -> None:
    turns = SigningTurns(somebody_works)
    turns.take()

    await asyncio.gather(*(turns.wait() for _ in range(5)))
