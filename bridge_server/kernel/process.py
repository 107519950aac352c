"""Processes: whether one of a number runs, the end of this one with its starter, and its garbage collector.

It is loaded before everything else: the starter may end while a server still loads.
"""

import gc
import os
import select
import signal
from _thread import start_new_thread
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from time import sleep

PARENT_OPTION = "--stop-with-parent"
PARENT_VARIABLE = "BRIDGE_STOP_WITH_PARENT"
"""The option of commands, and the variable of the environment, that name the process to stop with."""

_CHECK_EVERY_SECONDS = 0.25
_START_TIME = 19
"""The place of the start time in /proc/PID/stat behind the name, which may have spaces (proc_pid_stat(5))."""


def is_running(number: int) -> bool:
    """Whether a process of this number runs."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        pass
    return True


def stop_with(number: int) -> bool:
    """Send SIGTERM to this process once the process of this number has ended; False if it has ended already.
    A pidfd tells when it ends. PR_SET_PDEATHSIG would do so, too, when only the thread ends that started this
    process, and test suites start servers from threads. A pipe would stay open in every fork of the starter.
    """
    descriptor = None
    with suppress(AttributeError, OSError):  # a system without pidfds, or a process that has ended
        descriptor = os.pidfd_open(number)
    if not _is_there(number, descriptor):
        return False
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a starter that ignores it hands that on
    start_new_thread(_watch, (number, descriptor, os.getppid() == number))
    return True


def _is_there(number: int, descriptor: int | None) -> bool:
    """Whether the process of this number runs, and is not a later one that was given the number again. The
    parent of this process is certain. The starter may also be further above, with a shell between: then a
    process that is younger than this one cannot be the starter.
    """
    if os.getppid() == number:
        return True
    if not is_running(number) or (descriptor is not None and _has_ended(descriptor, wait=False)):
        return False
    return _started_at(number) <= _started_at(os.getpid())


def _started_at(number: int) -> int:
    """The time at which a process started, in clock ticks since the machine's start; 0 if it is not known."""
    try:
        with open(f"/proc/{number}/stat", "rb") as stream:  # noqa: PTH123 - pathlib takes as long as all of this
            return int(stream.read().rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return 0


def _watch(number: int, descriptor: int | None, is_parent: bool) -> None:
    """Stop this process when the other ends, by a signal to the main thread, as an operator does."""
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if descriptor is not None:
        _has_ended(descriptor, wait=True)
    else:
        while os.getppid() == number if is_parent else _is_there(number, None):
            sleep(_CHECK_EVERY_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _has_ended(descriptor: int, *, wait: bool) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if wait else 0))


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
