"""Work that waits for somebody else when the server stops."""

import asyncio

import pytest

from bridge_server.kernel.background import StoppedError, Stopping
from tests.support.eventually import turns
from tests.support.loop_time import PassTime


async def never() -> None:
    await asyncio.Event().wait()


async def test_work_is_finished_while_the_server_runs() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    assert await Stopping(0).finish(work()) == 7


async def test_work_begun_within_the_grace_is_finished() -> None:
    async def work() -> int:
        await asyncio.sleep(0)
        return 7

    stopping = Stopping(60)
    stopping.close()

    assert stopping.has_begun
    assert await stopping.finish(work()) == 7


async def test_work_that_outlasts_the_grace_is_given_up(pass_time: PassTime) -> None:
    stopping = Stopping(60)
    waiting = [asyncio.create_task(stopping.finish(never())) for _ in range(3)]
    await asyncio.sleep(0)
    stopping.close()
    await turns()
    assert not any(each.done() for each in waiting)
    await pass_time(60)

    for each in waiting:
        with pytest.raises(StoppedError):
            await each


async def test_the_grace_is_one_for_all_and_nothing_begins_after_it(pass_time: PassTime) -> None:
    begun: list[None] = []

    async def work() -> None:
        begun.append(None)

    stopping = Stopping(60)
    stopping.close()
    waiting = asyncio.create_task(stopping.finish(never()))
    await turns()
    await pass_time(60)
    with pytest.raises(StoppedError):
        await waiting

    stopping.close()
    with pytest.raises(StoppedError):
        await stopping.finish(work())

    assert begun == []
