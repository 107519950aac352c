"""The start of the command `bridge-server`: the process with which a server stops, then the command line.

A program that starts servers, such as a test suite, may be killed at any moment, even while the server still
loads. So the starter is checked before anything else is imported, and watched from then on.
"""

import os
import sys
from importlib import import_module
from typing import NoReturn

from bridge_server.kernel.process import PARENT_OPTION, PARENT_VARIABLE, stop_with

_SERVERS = ("serve", "dev", "demo", "wallet")
"""The commands that run until they are stopped."""
_FLAGS = ("-h", "--help", "--version")
"""What may stand in the place of a command."""

_FIRST_PROCESS = 1
_HIGHEST_PROCESS = 2**31 - 1


def main() -> None:
    """Run the command line, and stop a server with its parent if that is wanted."""
    arguments = sys.argv[1:]
    if not arguments:
        import_module("bridge_server.cli.commands").run_without_command()
    if arguments[0].startswith("-") and arguments[0] not in _FLAGS:
        _end(2, f"{arguments[0]}: name the command first, as in `bridge-server serve {arguments[0]}`")
    wanted = os.environ.pop(PARENT_VARIABLE, None)
    if arguments[0] in _SERVERS:
        arguments = _with_number_of_parent(arguments)
        given = [each for each in arguments if each.startswith(f"{PARENT_OPTION}=")]
        if given:
            _stop_with(given[-1], given[-1].removeprefix(f"{PARENT_OPTION}="))
        elif wanted:
            _stop_with(f"{PARENT_VARIABLE}={wanted}", wanted)
        import_module("bridge_server.outbox.authorities").import_aiohttp()
        _import_structlog()
    import_module("bridge_server.cli.commands").run(arguments)


def _import_structlog() -> None:
    """Import structlog without rich: it would load it where it is installed, 3 MiB that no server uses."""
    if "rich" in sys.modules:
        return
    sys.modules["rich"] = None  # type: ignore[assignment]  # an import of it fails meanwhile
    try:
        import_module("structlog")
    finally:
        del sys.modules["rich"]


def _with_number_of_parent(arguments: list[str]) -> list[str]:
    """The arguments; the option without a number gets the present parent's."""
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


def _say(text: str) -> None:
    sys.stderr.write(f"bridge-server: {text}\n")


def _end(code: int, text: str) -> NoReturn:
    _say(text)
    sys.exit(code)
