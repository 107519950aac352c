"""SIGTERM and SIGINT stop the server; a second Ctrl-C ends the process at once."""

import asyncio
import os
import signal
from collections.abc import Callable

_INTERRUPTED = 130
_IMPATIENT_SECONDS = 0.5
"""Programs that run this one often pass on the Ctrl-C that it has had from the terminal already."""


def stop_at_signals(
    stop: asyncio.Event, abandon: Callable[[], None] | None, again: asyncio.Event | None = None
) -> None:
    """Set `stop` at the first SIGTERM or SIGINT, and `again` at a later one.

    With `abandon`, a later SIGINT calls it and ends the process at once, with exit code 130.
    """
    loop = asyncio.get_running_loop()
    first_at: float | None = None

    def is_repeated() -> bool:
        """Whether the stop was requested a while ago; if not, request it."""
        nonlocal first_at
        if first_at is None:
            first_at = loop.time()
            stop.set()
        return loop.time() - first_at >= _IMPATIENT_SECONDS

    def terminate() -> None:
        if is_repeated() and again is not None:
            again.set()

    def interrupt() -> None:
        if abandon is None:
            terminate()
        elif is_repeated():
            abandon()
            os._exit(_INTERRUPTED)

    loop.add_signal_handler(signal.SIGTERM, terminate)
    loop.add_signal_handler(signal.SIGINT, interrupt)
