"""No wake-up is lost, however a poll and the change that it waits for meet."""

import asyncio
from collections.abc import Awaitable, Callable

from tests.relay.polls import POLLS, Poll
from tests.support.asking import Answer
from tests.support.bridge_client import BridgeClient
from tests.support.figures import until_waiting
from tests.support.rows import each_row
from tests.support.slow import SLOW

_ROUNDS = 300 if SLOW else 60
_AT_ONCE = 10


async def _meet(poll: Poll, head_start: int) -> tuple[Answer, bytes]:
    """Poll and change at the same moment, the one so many turns of the event loop before the other."""

    async def late(turns: int) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)

    async def read() -> Answer:
        await late(-head_start)
        return await poll.read(Prefer="wait=20")

    async def happen() -> bytes:
        await late(head_start)
        return await poll.happen()

    return await asyncio.gather(read(), happen())


@each_row("make", POLLS.values(), ids=POLLS.keys())
async def test_a_change_that_meets_a_poll_is_never_lost(
    bridge: BridgeClient, make: Callable[[BridgeClient], Awaitable[Poll]]
) -> None:
    for first in range(0, _ROUNDS, _AT_ONCE):
        polls = [await make(bridge) for _ in range(_AT_ONCE)]

        meetings = await asyncio.gather(
            *(_meet(poll, (first + number) % 61 - 30) for number, poll in enumerate(polls))
        )

        assert [answer.status for answer, _ in meetings] == [200] * _AT_ONCE
        assert [answer.body for answer, _ in meetings] == [body for _, body in meetings]
    await until_waiting(bridge.server, 0)
