"""How this program is started again: as a module of Python, or as the file that `scripts/build` made."""

import sys
from pathlib import Path


def own_command() -> list[str]:
    """The absolute path of the installed command, or Python with the name of the module."""
    if getattr(sys, "frozen", False):  # one executable, whose Python has no other way in
        return [sys.executable]
    started = Path(sys.argv[0])
    if started.name == "__main__.py" or not started.is_file():
        return [sys.executable, "-m", "bridge_server"]
    return [str(started.resolve())]
