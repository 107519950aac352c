"""The process that started this one: a server that a test has started ends with it, even by SIGKILL."""

import asyncio
import os
from contextlib import suppress

_LOOK_EVERY_SECONDS = 0.25


class Parent:
    """The process that is the parent at this moment.

    A pidfd tells when it ends. PR_SET_PDEATHSIG would do so, too, when only the thread ends that started this
    process, and test suites start servers from threads.
    """

    def __init__(self) -> None:
        self._pid = os.getppid()

    async def ended(self) -> None:
        """Return once the parent has ended."""
        with suppress(AttributeError, OSError):  # a system without pidfds, or a parent that has just ended
            descriptor = os.pidfd_open(self._pid)
            try:
                if self.is_there():  # else the number may be another process's by now
                    await _readable(descriptor)
            finally:
                os.close(descriptor)
        while self.is_there():  # noqa: ASYNC110 - nothing announces it on such a system
            await asyncio.sleep(_LOOK_EVERY_SECONDS)

    def is_there(self) -> bool:
        """Whether it has not ended."""
        return os.getppid() == self._pid


async def stop_with(parent: Parent | None, stop: asyncio.Event) -> None:
    """Set the event once the parent has ended; never without a parent to watch."""
    if parent is not None:
        await parent.ended()
        stop.set()


async def _readable(descriptor: int) -> None:
    loop, ready = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
