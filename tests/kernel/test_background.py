"""Work that goes on beside something else and ends with it."""

import asyncio

import pytest

from bridge_server.kernel.background import running


class Work:
    """Goes on for ever, and takes a moment to end."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.may_end = asyncio.Event()
        self.may_end.set()
        self.ending = asyncio.Event()
        self.ended = False

    async def run(self) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await self.may_end.wait()
            self.ended = True


async def test_background_work_runs_inside_the_block_and_has_ended_after_it() -> None:
    work = Work()

    async with running(work.run()):
        await work.begun.wait()
        assert not work.ended

    assert work.ended


async def test_background_work_ends_when_the_block_fails() -> None:
    work = Work()

    async def fail_inside() -> None:
        async with running(work.run()):
            await work.begun.wait()
            raise LookupError("inside")

    with pytest.raises(LookupError, match="inside"):
        await fail_inside()

    assert work.ended


async def test_background_work_ends_when_the_block_is_cancelled() -> None:
    work = Work()

    async def wait_inside() -> None:
        async with running(work.run()):
            await asyncio.Event().wait()

    inside = asyncio.create_task(wait_inside())
    await work.begun.wait()
    inside.cancel()
    await asyncio.wait([inside])

    assert inside.cancelled()
    assert work.ended


async def test_work_that_is_done_early_is_no_fault() -> None:
    async def brief() -> None:
        return

    async with running(brief()):
        await asyncio.sleep(0)


async def test_a_failure_of_the_work_is_raised_when_the_block_is_left() -> None:
    async def failing() -> None:
        raise LookupError("beside")

    async def look_away() -> None:
        async with running(failing()):
            await asyncio.sleep(0)

    with pytest.raises(LookupError, match="beside"):
        await look_away()


async def test_a_block_that_is_cancelled_while_its_work_ends_stays_cancelled() -> None:
    work = Work()
    work.may_end.clear()
    went_on = False

    async def leave_slowly() -> None:
        nonlocal went_on
        async with running(work.run()):
            await work.begun.wait()
        went_on = True

    leaving = asyncio.create_task(leave_slowly())
    await work.ending.wait()
    leaving.cancel()
    work.may_end.set()
    await asyncio.wait([leaving])

    assert leaving.cancelled()
    assert not went_on
