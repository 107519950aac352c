"""The thread in which the servers of tests run."""

import asyncio
from collections.abc import Iterator

import pytest

from bridge_server.kit.fixtures.background_loop import BackgroundLoop


@pytest.fixture
def background() -> Iterator[BackgroundLoop]:
    loop = BackgroundLoop()
    yield loop
    loop.stop()


async def double(number: int) -> int:
    await asyncio.sleep(0)
    return 2 * number


async def fail() -> None:
    raise ValueError("no")


def test_a_call_returns_and_raises_what_the_coroutine_does(background: BackgroundLoop) -> None:
    assert background.run(double(4)) == 8
    with pytest.raises(ValueError, match="no"):
        background.run(fail())


async def test_asyncio_waits_for_it_without_blocking(background: BackgroundLoop) -> None:
    assert await asyncio.gather(*(background.wait_for(double(number)) for number in range(3))) == [0, 2, 4]
    with pytest.raises(ValueError, match="no"):
        await background.wait_for(fail())


async def test_a_caller_that_gives_up_ends_the_coroutine(background: BackgroundLoop) -> None:
    began, ended = asyncio.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    async def wait() -> None:
        loop.call_soon_threadsafe(began.set)
        try:
            await asyncio.Event().wait()
        finally:
            loop.call_soon_threadsafe(ended.set)

    waiting = asyncio.create_task(background.wait_for(wait()))
    await began.wait()
    waiting.cancel()

    async with asyncio.timeout(60):
        await ended.wait()


def test_a_loop_does_not_wait_for_itself(background: BackgroundLoop) -> None:
    async def ask() -> int:
        return background.run(double(4))

    with pytest.raises(RuntimeError, match="cannot wait for them"):
        background.run(ask())


def test_a_loop_can_begin_again(background: BackgroundLoop) -> None:
    background.run(double(4))
    background.stop()
    background.stop()

    assert background.run(double(5)) == 10
