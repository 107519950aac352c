"""Numbers of processes, by which files say whose they are."""

import os


def is_running(number: int) -> bool:
    """Whether a process of this number runs."""
    try:
        os.kill(number, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
