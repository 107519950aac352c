"""The start of the command `bridge-server`: the process with which a server stops, then the command line.

A program that starts servers, such as a test suite, may be killed at any moment, even while the server still
loads. So the starter is looked at before anything else is imported, and watched from then on.
"""

import os
import select
import signal
import sys
from _thread import start_new_thread
from importlib import import_module
from time import sleep
from typing import NoReturn

PARENT_OPTION = "--stop-with-parent"
PARENT_VARIABLE = "BRIDGE_STOP_WITH_PARENT"

_SERVERS = ("serve", "dev", "wallet")
"""The commands that run until they are stopped."""

_FIRST_PROCESS = 1
_HIGHEST_PROCESS = 2**31 - 1
_LOOK_EVERY_SECONDS = 0.25
_START_TIME = 19
"""The place of the start time in /proc/PID/stat behind the name, which may have spaces (proc_pid_stat(5))."""


def main() -> None:
    """Run the command line, and stop a server with its parent if that is wanted."""
    arguments = _with_default_command(sys.argv[1:])
    wanted = os.environ.pop(PARENT_VARIABLE, None)
    if arguments[0] in _SERVERS:
        arguments = _with_number_of_parent(arguments)
        given = [each for each in arguments if each.startswith(f"{PARENT_OPTION}=")]
        if given:
            _stop_with(given[-1], given[-1].removeprefix(f"{PARENT_OPTION}="))
        elif wanted:
            _stop_with(f"{PARENT_VARIABLE}={wanted}", wanted)
        import_module("bridge_server.outbox.authorities").import_aiohttp()
    import_module("bridge_server.cli.commands").run(arguments)


def stop_with(number: int) -> bool:
    """Send SIGTERM to this process once the process of this number has ended; False if it has ended already.

    A pidfd tells when it ends. PR_SET_PDEATHSIG would do so, too, when only the thread ends that started this
    process, and test suites start servers from threads. A pipe would stay open in every fork of the starter.
    """
    descriptor = _descriptor_of(number)
    if not _is_there(number, descriptor):
        return False
    signal.signal(signal.SIGTERM, signal.SIG_DFL)  # a starter that ignores it hands that on
    start_new_thread(_watch, (number, descriptor, os.getppid() == number))
    return True


def _with_default_command(arguments: list[str]) -> list[str]:
    if not arguments or (arguments[0].startswith("-") and arguments[0] not in ("-h", "--help", "--version")):
        return ["serve", *arguments]
    return arguments


def _with_number_of_parent(arguments: list[str]) -> list[str]:
    """The arguments; the option without a number gets that of the present parent."""
    if PARENT_OPTION not in arguments:
        return arguments
    parent = os.getppid()
    if parent <= _FIRST_PROCESS:
        _say(
            f"{PARENT_OPTION}: the parent is process {parent}, so the end of the program that started this "
            f"server may not be noticed: name that program with {PARENT_OPTION}=PID"
        )
    if not parent:  # it is outside of this container, which ends with this process
        return [each for each in arguments if each != PARENT_OPTION]
    return [f"{PARENT_OPTION}={parent}" if each == PARENT_OPTION else each for each in arguments]


def _stop_with(spelled: str, text: str) -> None:
    """Watch the process of this number; end this process at once if it has ended, or if it is no number."""
    number = int(text) if text.isascii() and text.isdecimal() else 0
    if not 0 < number <= _HIGHEST_PROCESS or number == os.getpid():
        _end(2, f"{spelled}: write the number of the process that starts the server, as $$ in a shell")
    if not stop_with(number):
        _end(1, f"{spelled}: this process has ended already, so the server is not started")


def _descriptor_of(number: int) -> int | None:
    """A pidfd; None on a system without them, and for a process that has ended."""
    try:
        return os.pidfd_open(number)
    except (AttributeError, OSError):
        return None


def _is_there(number: int, descriptor: int | None) -> bool:
    """Whether the process of this number runs, and is not a later one that was given the number again.

    The parent of this process is certain. The starter may also be further above, with a shell between: then a
    process that is younger than this one cannot be the starter.
    """
    if os.getppid() == number:
        return True
    if descriptor is not None and _has_ended(descriptor, wait=False):
        return False
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it is another user's
        pass
    return _started_at(number) <= _started_at(os.getpid())


def _started_at(number: int) -> int:
    """The time at which a process started, in clock ticks since the machine's start; 0 if it is not known."""
    try:
        with open(f"/proc/{number}/stat", "rb") as stream:  # noqa: PTH123 - pathlib takes as long as all of this
            return int(stream.read().rpartition(b")")[2].split()[_START_TIME])
    except (OSError, ValueError, IndexError):
        return 0


def _watch(number: int, descriptor: int | None, is_parent: bool) -> None:
    """Wait for the end of the process; then stop this one, as an operator does.

    Signals are for the main thread, which blocks them while this process ends.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
    if descriptor is not None:
        _has_ended(descriptor, wait=True)
    else:
        while os.getppid() == number if is_parent else _is_there(number, None):
            sleep(_LOOK_EVERY_SECONDS)
    os.kill(os.getpid(), signal.SIGTERM)


def _has_ended(descriptor: int, *, wait: bool) -> bool:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(None if wait else 0))


def _say(text: str) -> None:
    sys.stderr.write(f"bridge-server: {text}\n")


def _end(code: int, text: str) -> NoReturn:
    _say(text)
    sys.exit(code)
