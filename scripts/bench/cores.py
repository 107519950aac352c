"""Which core does what while requests are counted.

Left alone, the kernel lets the load generator share the event loop's core in some rounds and not in
others, and a request costs a third less when it does. So the event loops, the server's like the
ceiling's, are kept on the first core and the generator on the last. All other threads go where they like.
"""

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

_CORES = sorted(os.sched_getaffinity(0))
PINNING = len(_CORES) > 1 and shutil.which("taskset") is not None


def on_last_core(command: Sequence[str]) -> list[str]:
    """The command, to run on the last core."""
    return ["taskset", "-c", str(_CORES[-1]), *command] if PINNING else list(command)


def keep_on_first_core(pid: int) -> None:
    """Keep the main thread of a process, which runs its event loop, on the first core."""
    if PINNING:
        os.sched_setaffinity(pid, _CORES[:1])


@contextmanager
def on_last_core_meanwhile() -> Iterator[None]:
    """Run this thread, when it is the generator, on the last core."""
    if PINNING:
        os.sched_setaffinity(0, _CORES[-1:])
    try:
        yield
    finally:
        os.sched_setaffinity(0, _CORES)


def describe() -> str:
    """For the header."""
    if PINNING:
        return f"event loops on core {_CORES[0]}, load from core {_CORES[-1]}"
    return "nothing pinned to a core: expect noise"
