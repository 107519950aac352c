"""The command that starts this program again: a module of Python, or the file that `scripts/build` made."""

import shlex
import sys
from pathlib import Path
from shutil import which

_NAME = "bridge-server"


def own_command() -> list[str]:
    """The absolute path of the installed command, or Python with the name of the module."""
    if getattr(sys, "frozen", False):  # one executable, whose Python has no other way in
        return [sys.executable]
    started = Path(sys.argv[0])
    if started.name == "__main__.py" or not started.is_file():
        return [sys.executable, "-m", "bridge_server"]
    return [str(started.resolve())]


def typed_command() -> str:
    """The words that start this program in the shell: its name if that is on the PATH, else its place.

    In a checkout it is not: `scripts/serve` runs the command of the virtual environment.
    """
    own = own_command()
    found = which(_NAME)
    if found is not None and str(Path(found).resolve()) in (own[0], str(Path(sys.executable).parent / _NAME)):
        return _NAME
    return shlex.join([_short(own[0]), *own[1:]])


def _short(file: str) -> str:
    """The path from the working directory if the file is below it."""
    path = Path(file)
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else file
