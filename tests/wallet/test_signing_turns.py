"""Signing leaves room for others: few calls at each turn of the event loop, the rest in their order."""

import asyncio
from itertools import pairwise

from bridge_server.wallet import signing_turns
from bridge_server.wallet.signing_turns import BatchTurns, SigningTurns

AT_ONCE = signing_turns._CALLS_PER_TURN


async def turned(times: int = 1) -> None:
    """Let the event loop turn."""
    for _ in range(times):
        await asyncio.sleep(0)


async def test_a_few_calls_pass_at_once() -> None:
    turns = SigningTurns()

    taken = [turns.take() for _ in range(AT_ONCE + 2)]

    assert taken == [True] * AT_ONCE + [False] * 2


async def test_the_next_turn_lets_others_pass() -> None:
    turns = SigningTurns()
    while turns.take():
        pass

    await turned()

    assert turns.take()


async def test_those_that_wait_pass_in_their_order_a_few_at_each_turn() -> None:
    turns = SigningTurns()
    while turns.take():
        pass
    passed: list[int] = []

    async def call(number: int) -> None:
        await turns.wait()
        passed.append(number)

    calls = [asyncio.ensure_future(call(number)) for number in range(4 * AT_ONCE)]
    await turned()
    passed_by_turn = [0]
    while len(passed) < len(calls):
        await turned()
        passed_by_turn.append(len(passed))

    assert passed == list(range(len(calls)))
    assert all(after - before <= AT_ONCE for before, after in pairwise(passed_by_turn))
    await asyncio.gather(*calls)


async def test_nobody_overtakes_those_that_wait() -> None:
    turns = SigningTurns()
    while turns.take():
        pass
    waiting = [asyncio.ensure_future(turns.wait()) for _ in range(AT_ONCE + 1)]

    await turned(2)

    assert not turns.take()
    await asyncio.gather(*waiting)


async def test_a_client_that_left_costs_nobody_a_turn() -> None:
    turns = SigningTurns()
    while turns.take():
        pass
    left = [asyncio.ensure_future(turns.wait()) for _ in range(50)]
    await turned()
    for task in left:
        task.cancel()
    stayed = asyncio.ensure_future(turns.wait())

    await turned(3)

    assert stayed.done()


async def test_a_batch_goes_on_for_a_while_and_then_waits_for_its_turn() -> None:
    turns = SigningTurns()
    batch = BatchTurns(turns)
    turned_times = 0

    async def count_turns() -> None:
        nonlocal turned_times
        while True:
            await asyncio.sleep(0)
            turned_times += 1

    counting = asyncio.ensure_future(count_turns())
    loop = asyncio.get_running_loop()
    ends_at = loop.time() + 20 * signing_turns._SECONDS_PER_CALL
    while loop.time() < ends_at:
        await batch.next()

    assert turned_times > 0
    counting.cancel()
