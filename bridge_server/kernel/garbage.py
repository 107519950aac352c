"""The garbage collector of a process that makes many objects at its start, which stay, and few later."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def garbage_left_alone() -> Iterator[None]:
    """Put the collector off: a start makes many objects and no garbage, and a collection takes longer."""
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
