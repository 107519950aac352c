import asyncio
import threading

import pytest

from bridge_server.outbox.guarded_client import GuardedResolver, anywhere, look_up
from tests.support.eventually import turns
from tests.support.rows import each_row


def test_the_systems_own_names_are_known() -> None:
    assert "127.0.0.1" in look_up("localhost")


@each_row("name", ["a" * 64 + ".invalid", "a..b"])
def test_a_name_that_leads_nowhere_is_an_error_of_the_network(name: str) -> None:
    with pytest.raises(OSError):  # noqa: PT011  (what the system says differs)
        look_up(name)


async def test_names_that_hang_do_not_hold_up_the_others() -> None:
    release = threading.Event()
    slow: list[str] = []

    def slow_but_for_one(host: str) -> list[str]:
        if host != "quick.test":
            slow.append(host)
            release.wait(20)
        return ["192.0.2.1"]

    resolver = GuardedResolver(anywhere, slow_but_for_one)
    await resolver.resolve("quick.test", 443)
    hanging = [asyncio.create_task(resolver.resolve(f"slow-{n}.test", 443)) for n in range(200)]
    try:
        await asyncio.sleep(0)

        async with asyncio.timeout(15):
            (found,) = await resolver.resolve("quick.test", 443)

        assert found["host"] == "192.0.2.1"
        assert not any(task.done() for task in hanging)
        assert len(slow) <= 48
    finally:
        release.set()
        await asyncio.gather(*hanging)


async def test_a_lookup_without_a_waiter_is_dropped() -> None:
    begun, release = threading.Event(), threading.Event()
    threads: list[threading.Thread] = []

    def slow(host: str) -> list[str]:
        threads.append(threading.current_thread())
        begun.set()
        release.wait(60)
        raise OSError("too late")

    resolver = GuardedResolver(anywhere, slow)
    waiting = asyncio.create_task(resolver.resolve("slow.test", 443))
    await asyncio.to_thread(begun.wait, 60)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting

    release.set()
    await asyncio.to_thread(threads[0].join)
    await turns()  # its answer finds no waiter
    await resolver.close()
