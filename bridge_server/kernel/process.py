"""Processes: whether one of a number runs, and the garbage collector of this one."""

import gc
import os
from collections.abc import Iterator
from contextlib import contextmanager


def is_running(number: int) -> bool:
    """Whether a process of this number runs."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Put the collector off inside the block: a start makes many objects and no garbage."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def collect_less_often() -> None:
    """Run the collector less often: loaded modules stay, and requests leave few reference cycles."""
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
